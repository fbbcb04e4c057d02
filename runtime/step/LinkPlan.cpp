//===- LinkPlan.cpp - which ranks speak together --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/LinkPlan.h"
#include "runtime/state/Wholes.h"
#include "runtime/step/Routes.h"

#include <algorithm>
#include <numeric>

namespace dt::rt {

namespace {

bool runsIn(const ProgramInfo &program, size_t m, TaskFn function) {
  const ModuleInfo &module = program.modules[m];
  for (const LossInfo &loss : program.losses)
    if (size_t(loss.module) == m && loss.denominator == function)
      return true;
  return function == module.forward || function == module.backward ||
         function == module.backwardInput || function == module.backwardWeight;
}

void addAxes(const ProgramInfo &program, size_t m, Axes &axes) {
  for (const CollectiveInfo &info : program.collectives)
    if (info.over > 1 && runsIn(program, m, info.function))
      axes.insert({info.over, info.stride});
  auto add = [&](const Span<CutInfo> &list) {
    for (const CutInfo &axis : list)
      if (axis.over > 1)
        axes.insert({axis.over, axis.stride});
  };
  for (const ParameterInfo &parameter : program.parameters)
    if (size_t(parameter.module) == m) {
      add(parameter.partial);
      if (mayBeWhole(program, parameter))
        add(parameter.cuts);
    }
}

/// Those that a rank receives.
void addMessages(const ProgramInfo &program, const Placement &placement,
                 LinkPlan &plan) {
  for (const TaskRow &row : program.ranks[size_t(placement.rank())].rows) {
    if (row.kind != TaskKind::Receive)
      continue;
    const EdgeInfo &edge = program.edges[row.index];
    size_t m = size_t(row.gradient ? edge.from : edge.to);
    plan.modules[m].gathers |= placement.tp(m) > 1;
    for (int from : ranksAcross(program, placement, row, false))
      if (from >= 0 && from != placement.rank())
        plan.needs.messages[row.gradient].insert({from, placement.rank()});
  }
}

/// Streams of a rank's collectives: the compute stream, the one beside it, and
/// one a module whose gradients are summed.
int streamsOf(const LinkPlan &plan, const Placement &placement) {
  int gradients = 0;
  bool beside = false;
  for (size_t m = 0; m < plan.modules.size(); ++m)
    if (placement.at(m).runs()) {
      gradients += plan.modules[m].reduces;
      beside |= !plan.modules[m].axes.empty();
    }
  return 1 + beside + gradients;
}

} // namespace

bool sumsOverReplicas(const ProgramInfo &program, const Placement &placement,
                      size_t module) {
  const ModuleInfo &info = program.modules[module];
  return !info.wholeBatch && info.trainableBytes &&
         placement.replicas(module) > 1;
}

LinkPlan planLinks(const ProgramInfo &program) {
  int world = int(program.ranks.size);
  LinkPlan plan;
  plan.modules.resize(program.modules.size);
  if (world < 2)
    return plan;
  Placement any(program, 0, world);
  for (size_t m = 0; m < plan.modules.size(); ++m) {
    addAxes(program, m, plan.modules[m].axes);
    plan.modules[m].reduces = sumsOverReplicas(program, any, m);
  }
  for (int rank = 0; rank < world; ++rank) {
    Placement placement(program, rank, world);
    addMessages(program, placement, plan);
    plan.needs.streams =
        std::max(plan.needs.streams, streamsOf(plan, placement));
  }
  return plan;
}

PlannedGroups plannedGroups(const LinkPlan &plan, const ProgramInfo &program,
                            const Placement &placement,
                            const Ownership &ownership) {
  PlannedGroups groups;
  auto add = [&](const std::string &purpose, const std::vector<int> &ranks) {
    if (ranks.size() > 1 &&
        std::count(ranks.begin(), ranks.end(), placement.rank()))
      groups.insert({purpose, ranks});
  };
  for (size_t m = 0; m < plan.modules.size(); ++m) {
    const ModuleLinks &links = plan.modules[m];
    const Placement::Place &place = placement.at(m);
    if (!place.runs())
      continue;
    std::vector<int> replica = placement.replicaRanks(m, place.replica);
    if (links.gathers)
      add("", replica);
    for (auto [over, stride] : links.axes)
      for (size_t first = 0; first < replica.size(); ++first)
        add("", axisFrom(replica, int64_t(first), over, stride));
    if (links.reduces)
      add(std::string("gradients ") + program.modules[m].name,
          placement.peers(m, place.tp));
  }
  for (const TieGroup &tie : ownership.ties())
    for (auto &[part, ranks] : holdersOf(program, placement, tie))
      add("", {ranks.begin(), ranks.end()});
  std::vector<int> all(program.ranks.size);
  std::iota(all.begin(), all.end(), 0);
  add("scalars", all);
  return groups;
}

} // namespace dt::rt
