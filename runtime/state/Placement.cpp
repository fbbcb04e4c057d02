//===- Placement.cpp - who a rank is in every module ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Placement.h"
#include "runtime/base/Error.h"

#include <string>
#include <vector>

namespace dt::rt {

namespace {

void check(const ModuleInfo &module, int world) {
  std::string where = std::string("module '") + module.name + "': ";
  if (module.tp < 1 || module.ranks.empty() ||
      module.ranks.size % size_t(module.tp) ||
      (!module.wholeBatch &&
       module.ranks.size != size_t(module.dp) * size_t(module.tp)) ||
      (module.wholeBatch && module.tp != 1))
    throw Error(where + "its list of ranks does not fit tp and dp");
  std::vector<bool> seen(static_cast<size_t>(world));
  for (int32_t rank : module.ranks) {
    if (rank < 0 || rank >= world)
      throw Error(where + "rank " + std::to_string(rank) + " is not one of " +
                  std::to_string(world));
    if (seen[size_t(rank)])
      throw Error(where + "rank " + std::to_string(rank) + " appears twice");
    seen[size_t(rank)] = true;
  }
}

} // namespace

Placement::Placement(const ProgramInfo &program, int rank, int worldSize)
    : program(program), self(rank), ranks(worldSize),
      places(program.modules.size) {
  if (int(program.ranks.size) != worldSize)
    throw Error("the program was made for " +
                std::to_string(program.ranks.size) + " rank" +
                (program.ranks.size == 1 ? "" : "s") + ", but " +
                std::to_string(worldSize) +
                (worldSize == 1 ? " was" : " were") + " started");
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    check(module, worldSize);
    for (size_t i = 0; i < module.ranks.size; ++i)
      if (module.ranks[i] == rank)
        places[m] = {int32_t(i) / module.tp, int32_t(i) % module.tp};
  }
}

int32_t Placement::replicas(size_t module) const {
  return int32_t(program.modules[module].ranks.size) / tp(module);
}

int32_t Placement::tp(size_t module) const {
  return program.modules[module].tp;
}

int Placement::rankOf(size_t module, int32_t replica, int32_t place) const {
  return program.modules[module]
      .ranks[size_t(replica) * size_t(tp(module)) + size_t(place)];
}

std::vector<int> Placement::replicaRanks(size_t module, int32_t replica) const {
  std::vector<int> group;
  for (int32_t t = 0; t < tp(module); ++t)
    group.push_back(rankOf(module, replica, t));
  return group;
}

std::vector<int> Placement::peers(size_t module, int32_t place) const {
  std::vector<int> group;
  for (int32_t d = 0; d < replicas(module); ++d)
    group.push_back(rankOf(module, d, place));
  return group;
}

bool Placement::counts(size_t module, Span<CutInfo> cuts) const {
  const Place &place = places[module];
  if (!place.runs() || place.tp != canonicalPlace(cuts, place.tp))
    return false;
  return !program.modules[module].wholeBatch || place.replica == 0;
}

int64_t canonicalPlace(Span<CutInfo> cuts, int64_t tp) {
  int64_t place = 0;
  for (const CutInfo &cut : cuts)
    place += placeOn(cut, tp) * cut.stride;
  return place;
}

} // namespace dt::rt
