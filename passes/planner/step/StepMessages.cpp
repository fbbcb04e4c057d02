//===- StepMessages.cpp - Blocks that a rank's messages go through --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// As the runtime plans them (step/MessagePlan.cpp): what ranks sum in, what
// collectives of TP groups pack, and messages whose rows do not lie together.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/StepBuilder.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace dt::planner {

CollectiveBlocks StepBuilder::callsOf(const StageInfo &info) const {
  int u = info.unit;
  const UnitPlan &unit = plan.units[u];
  CollectiveBlocks most;
  const std::vector<int> &layers = costs.model.modules[u].layers;
  CostOptions options = plan.getOptions(u, info.index);
  options.splitBackward &= !hasWeightsOnly(info);
  TokenSums slice = sliceOf(u, largest[u]);
  for (int i = info.begin; i < info.end; ++i)
    if (i == info.begin || layers[i] != layers[i - 1])
      most.keepLarger(costOf(u).blocks(layers[i], options, slice));
  most.keepLarger(
      costOf(u).tiedBlocks(info.begin, info.end, unit.tp, unit.getSumRanks()));
  return most;
}

/// What is combined is combined in the host's memory; only devices have a
/// stream beside that of all else.
void StepBuilder::holdCollectives(const Problem &problem, Held &held) const {
  bool onHost = costs.cluster.isOnHost();
  std::vector<CollectiveBlocks> calls(ranks);
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageInfo &info = stages[s];
    const UnitPlan &unit = plan.units[info.unit];
    CollectiveBlocks own = callsOf(info);
    double sums = 0; // what gradients are summed in
    if (onHost)
      sums = costOf(info.unit).sumBlocks(info.begin, info.end, unit.tp,
                                         unit.getSumRanks(), unit.zero,
                                         unit.getExpertRanks());
    forRanks(problem.stages[s], [&](int rank) {
      held[rank].messages += sums;
      calls[rank].keepLarger(own);
    });
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const CollectiveBlocks &most = calls[rank];
    held[rank].messages +=
        onHost ? most.combined + std::max(most.packed, most.beside)
               : most.packed + most.beside;
  }
}

/// Each item of the rank's share of its TP group once, whatever parts of the
/// other end they are in.
StepBuilder::Packing StepBuilder::packingOf(const ModelEdge &edge,
                                            bool atConsumer) const {
  const std::vector<Module> &modules = costs.model.modules;
  int from = lastStageOf(edge.from), to = firstStageOf(edge.to);
  const StageInfo &own = stages[atConsumer ? to : from],
                  &other = stages[atConsumer ? from : to];
  const UnitPlan &here = plan.units[own.unit], &there = plan.units[other.unit];
  int64_t first = here.getRank(own.position, 0),
          begin = there.getRank(other.position, 0);
  bool alike = here.dp == there.dp && here.sub == there.sub &&
               here.span == there.span && here.getSpeeds() == there.getSpeeds(),
       copied = first == begin && here.tp == there.tp;
  Packing result;
  if (alike && (copied || modules[edge.from].item == modules[edge.to].item))
    return result;
  int counted = modules[edge.to].item == ItemKind::Sample ? edge.from : edge.to;
  auto partOf = [&](int unit) {
    return sliceOf(unit, fullestOf(unit, counted));
  };
  TokenSums part = partOf(own.unit);
  double rows = std::ceil(part.items / here.tp);
  // One that a message has lies together.
  if (std::min(rows, std::ceil(partOf(other.unit).items)) <= 1)
    return result;
  result.bytes =
      edge.bytes.at(part) / part.items * rows / here.cp * double(here.sub);
  if (there.dp == 1 && here.tp * here.cp * there.tp * there.cp == 1 &&
      there.blocks.empty())
    result.alone = begin;
  return result;
}

namespace {

/// As far as a rank has come in a stage.
struct Progress {
  int forwards = 0, inputs = 0, weights = 0;
  void add(Kind kind) {
    forwards += kind == Kind::Forward;
    inputs += kind == Kind::Input || kind == Kind::Backward;
    weights += kind == Kind::Weight;
  }
  int getKept() const { return forwards - inputs; }
  int getLate() const { return inputs - weights; }
};

/// Messages of an edge that a rank has packed at once, in the order of its
/// tasks of a stage. Received: from where they are posted, `depth` tasks ahead,
/// to the task that reads them; gradients from the forward on. Sent: until the
/// next task writes into the same slot.
int countPacked(llvm::ArrayRef<Kind> tasks, int depth, bool sends,
                bool gradient, bool back) {
  Progress all, now;
  int slots = 1, lateSlots = 1, most = 0;
  for (Kind kind : tasks) {
    all.add(kind);
    slots = std::max(slots, back ? all.getKept() : 1);
    lateSlots = std::max(lateSlots, all.getLate());
  }
  if (all.weights == 0)
    lateSlots = slots;
  auto note = [&] {
    int outputs = sends ? std::min(now.forwards, slots)
                        : std::min(depth, all.forwards - now.forwards),
        gradients = sends ? now.getKept() : std::min(now.inputs, lateSlots);
    most = std::max(most, outputs + gradient * gradients);
  };
  note();
  for (Kind kind : tasks) {
    now.add(kind);
    note();
  }
  return most;
}

} // namespace

template <typename Function>
void StepBuilder::forPackedOf(int stage, int64_t replica, Function f) const {
  const StageInfo &info = stages[stage];
  int64_t rank = plan.units[info.unit].getRank(info.position, replica);
  for (size_t e = 0; e < packing.size(); ++e) {
    const ModelEdge &edge = costs.model.edges[e];
    bool sends = lastStageOf(edge.from) == stage,
         receives = firstStageOf(edge.to) == stage;
    if (sends != receives && packing[e][receives].bytes > 0)
      f(packing[e][receives].at(rank), sends,
        costs.model.modules[edge.from].hasBackward());
  }
}

/// Messages of a rank to itself that leave before it has posted their other
/// end, which is `depth` tasks ahead. A task has the messages of so many
/// microbatches.
static int countStashed(llvm::ArrayRef<Task> tasks, int from, int fromSpan,
                        int to, int toSpan, int depth) {
  int sent = 0, posted = depth * toSpan, most = 0;
  for (const Task &task : tasks) {
    if (task.kind != Kind::Forward)
      continue;
    if (task.stage == from)
      most = std::max(most, (sent += fromSpan) - posted);
    else if (task.stage == to)
      posted += toSpan;
  }
  return most / std::min(fromSpan, toSpan);
}

void StepBuilder::holdStashed(const Problem &problem, const Solution &solution,
                              Held &held) const {
  for (size_t e = 0; e < packing.size(); ++e) {
    double bytes = std::min(packing[e][0].bytes, packing[e][1].bytes);
    if (bytes == 0)
      continue;
    int from = lastStageOf(costs.model.edges[e].from),
        to = firstStageOf(costs.model.edges[e].to);
    std::set<int> both;
    forRanks(problem.stages[from], [&](int rank) { both.insert(rank); });
    forRanks(problem.stages[to], [&](int rank) {
      if (both.count(rank))
        held[rank].messages +=
            bytes * countStashed(solution.ranks[rank], from,
                                 problem.getSpan(from), to, problem.getSpan(to),
                                 kReceiveDepth);
    });
  }
}

void StepBuilder::holdPacked(const Problem &problem, const Solution *solution,
                             Held &held) const {
  std::vector<Kind> tasks;
  auto hold = [&](int stage, int r, int rank, double bytes, bool sends,
                  bool gradient) {
    tasks = {Kind::Forward, Kind::Backward};
    if (solution) {
      tasks.clear();
      for (const Task &task : solution->ranks[rank])
        if (task.stage == stage && task.replica == r)
          tasks.push_back(task.kind);
    }
    held[rank].messages +=
        bytes * countPacked(tasks, kReceiveDepth, sends, gradient,
                            problem.stages[stage].hasBackward);
  };
  for (int s = 0; s < int(stages.size()); ++s)
    for (int r = 0; r < int(problem.stages[s].replicas.size()); ++r)
      forPackedOf(s, beginOf(stages[s].unit, r),
                  [&](double bytes, bool sends, bool gradient) {
                    for (int rank : problem.stages[s].replicas[r])
                      hold(s, r, rank, bytes, sends, gradient);
                  });
  if (solution)
    holdStashed(problem, *solution, held);
}

} // namespace dt::planner
