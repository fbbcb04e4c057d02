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

void addAxes(const ProgramInfo &program, const Ownership &ownership, size_t m,
             Axes &axes) {
  for (const CollectiveInfo &info : program.collectives)
    if (info.over > 1 && runsIn(program, m, info.function))
      axes.insert({info.over, info.stride});
  auto add = [&](const auto &list) {
    for (const CutInfo &axis : list)
      if (axis.over > 1)
        axes.insert({axis.over, axis.stride});
  };
  for (size_t p = 0; p < program.parameters.size; ++p)
    if (size_t(program.parameters[p].module) == m) {
      add(ownership.summedBefore(p));
      if (mayBeWhole(program, program.parameters[p]))
        add(program.parameters[p].cuts);
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
    plan.modules[m].gathers |= sharersOf(edge, placement, m) > 1;
    for (int from : ranksAcross(program, placement, row, false))
      if (from >= 0 && from != placement.rank())
        plan.needs.messages[row.gradient].insert({from, placement.rank()});
  }
}

/// Streams of a rank's collectives: the compute stream, the one beside it, and
/// one a group that sums gradients of a module.
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

LinkPlan planLinks(const ProgramInfo &program) {
  int world = int(program.ranks.size);
  LinkPlan plan;
  plan.modules.resize(program.modules.size);
  if (world < 2)
    return plan;
  Placement any(program, 0, world);
  Ownership ownership(program, any);
  for (size_t m = 0; m < plan.modules.size(); ++m) {
    addAxes(program, ownership, m, plan.modules[m].axes);
    for (const GradientGroup &group : ownership.groups(m))
      plan.modules[m].reduces += group.size(any, m) > 1;
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
    for (const GradientGroup &group : ownership.groups(m))
      add(std::string("gradients ") + program.modules[m].name,
          group.members(placement, m, place.tp));
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
