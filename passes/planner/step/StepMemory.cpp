//===- StepMemory.cpp - What ranks hold, and orders of microbatches -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/StepBuilder.h"
#include "passes/scheduler/core/Evaluate.h"

#include <algorithm>
#include <limits>

namespace dt::planner {

double StepBuilder::workspaceOf(const StageInfo &info) const {
  int u = info.unit;
  const std::vector<int> &layers = costs.model.modules[u].layers;
  TokenSums slice = sliceOf(u, largest[u]);
  CostOptions options = plan.getOptions(u, info.index);
  bool halves = plan.getTraits().splitsBackward && splitsBackward(info);
  auto gradientBehind = [&](int layer) {
    return costs.model.modules[u].kinds[layers[layer]].output.at(slice);
  };
  double layer = 0;
  for (int i = info.begin; i < info.end; ++i) {
    // Between others of its kind a layer is as the one before.
    if (i > info.begin + 1 && i + 1 < info.end && layers[i] == layers[i - 1] &&
        layers[i] == layers[i - 2])
      continue;
    // Inside a stage a backward in one piece has the gradients of both ends.
    double ends = !halves && i > info.begin ? gradientBehind(i - 1) : 0;
    if (!halves && i + 1 < info.end)
      ends += gradientBehind(i);
    layer = std::max(
        layer, costOf(u).workspace(layers[i], options, slice, halves, ends));
  }
  return layer;
}

/// Calls f(bytes, sent, gradient, turn) for what comes into a stage and goes
/// out of it, as a rank has it. `partOf` says what a rank has
/// of a unit's items.
template <typename PartOf, typename Function>
void StepBuilder::forEdgesOf(int stage, PartOf partOf, Function f) const {
  const StageInfo &info = stages[stage];
  const UnitPlan &unit = plan.units[info.unit];
  bool back = costs.model.modules[info.unit].hasBackward();
  double shares = plan.getOptions(info.unit).getStreamShares();
  if (info.index > 0)
    f(outputOf(stages[stage - 1]).at(partOf(info.unit)) / shares, false, back,
      info.position == stages[stage - 1].position);
  if (info.index + 1 < unit.getStages())
    f(outputOf(info).at(partOf(info.unit)) / shares, true, back, false);
  for (const ModelEdge &edge : costs.model.edges) {
    bool sent = lastStageOf(edge.from) == stage,
         received = firstStageOf(edge.to) == stage;
    if (sent == received) // neither
      continue;
    bool toSamples = costs.model.modules[edge.to].item == ItemKind::Sample;
    f(edge.bytes.at(partOf(toSamples ? edge.from : edge.to)) / unit.cp, sent,
      costs.model.modules[edge.from].hasBackward(), false);
  }
}

/// Of a task of a unit: its own items, of others' its share of what the same
/// microbatches have.
TokenSums StepBuilder::itemsOf(int unit, int other, const Parts &parts, int k,
                               int64_t r) const {
  if (other == unit) // programs have room for the fullest in every task
    return plan.compiled ? largest[unit] : parts.get(other, k, int(r));
  // Of tasks that span several all is at the first.
  int own = plan.units[unit].span,
      block = std::max(own, plan.units[other].span);
  TokenSums sum;
  for (int i = k - k % block, end = std::min(parts.microbatches, i + block);
       i < end; ++i)
    sum += together[other][i];
  return sum * (double(own) / double(block) / double(plan.units[unit].dp) *
                shareOf(unit, speedOf(unit, r)));
}

StepBuilder::Slot StepBuilder::slotOf(int stage, const Price &sum, bool halves,
                                      const Parts &parts, int k,
                                      int64_t r) const {
  Slot slot;
  slot.whole = halves ? sum.keptToWeights : 0;
  slot.early = sum.kept - slot.whole;
  slot.late = halves ? sum.keptForWeights : 0;
  bool keepsGradient = slot.late > 0;
  int unit = stages[stage].unit;
  forEdgesOf(
      stage, [&](int other) { return itemsOf(unit, other, parts, k, r); },
      [&](double bytes, bool sent, bool gradient, bool) {
        // What comes in is among what is kept.
        slot.early += sent ? bytes : 0;
        if (!gradient)
          return;
        // What is handed on has the last layer's gradient, which comes to a
        // buffer that waits for it since the forward.
        double waits = sent && keepsGradient ? std::min(bytes, slot.late) : 0;
        slot.late -= waits;
        slot.whole += waits;
        (sent || !halves ? slot.early : slot.late) += bytes - waits;
      });
  return slot;
}

TokenSums StepBuilder::fullestOf(int unit, int other) const {
  const UnitPlan &own = plan.units[unit], &its = plan.units[other];
  return largest[other] * (double(own.span) / double(its.span)) *
         (double(its.dp) / double(own.dp)) *
         (shareOf(unit, replicas[unit].most) /
          shareOf(other, replicas[other].most));
}

void StepBuilder::holdAlways(const Problem &problem, Held &held) const {
  held.assign(ranks, {});
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageInfo &info = stages[s];
    int u = info.unit;
    const UnitPlan &unit = plan.units[u];
    const ModuleCost &cost = costOf(u);
    PlannedStep::Memory stage;
    stage.state = cost.stateBytes(info.begin, info.end, unit.tp,
                                  unit.getShards(), unit.getExpertRanks());
    stage.buffers =
        cost.handedOut(info.begin, info.end, plan.getOptions(u, info.index),
                       sliceOf(u, largest[u]));
    stage.snapshot = cost.snapshot(info.begin, info.end, unit.tp,
                                   unit.getShards(), unit.getExpertRanks());
    stage.workspace = workspaceOf(info);
    // Messages are received ahead; without a backward nothing else holds them.
    forEdgesOf(
        int(s), [&](int other) { return fullestOf(u, other); },
        [&](double bytes, bool sent, bool, bool turn) {
          bool back = problem.stages[s].hasBackward;
          stage.buffers += bytes * ((sent || turn ? 0 : kReceiveDepth) + !back);
        });
    forRanks(problem.stages[s], [&](int rank) {
      PlannedStep::Memory &all = held[rank];
      all.state += stage.state;
      all.buffers += stage.buffers;
      all.workspace = std::max(all.workspace, stage.workspace);
      all.snapshot = std::max(all.snapshot, stage.snapshot);
      // Of the rank, not of each of its stages.
      all.beyond = std::max(all.beyond, unit.getBeyond(info.position));
    });
  }
  holdCollectives(problem, held);
}

template <typename Function>
void StepBuilder::forWaitingEdges(const Problem &problem, Function f) const {
  auto look = [&](int e, auto bytesAt) {
    const scheduler::Edge &edge = problem.edges[e];
    const scheduler::Stage &from = problem.stages[edge.from],
                           &to = problem.stages[edge.to];
    // Copies are made at once. Orders in phases take more messages than have
    // buffers, so programs have buffers for all.
    if (from.replicas == to.replicas || plan.getTraits().runsInPhases)
      f(e, edge.to, bytesAt(stages[edge.to].unit), kReceiveDepth);
    else if (!from.hasBackward)
      f(e, edge.from, bytesAt(stages[edge.from].unit), 1);
  };
  // Pipeline edges come first, one behind each stage but a unit's last.
  int e = 0;
  for (size_t s = 0; s + 1 < stages.size(); ++s) {
    if (stages[s].unit != stages[s + 1].unit)
      continue;
    if (!problem.stages[s].hasBackward)
      look(e, [&](int unit) {
        return outputOf(stages[s]).at(largest[unit]) /
               plan.getOptions(unit).getStreamShares();
      });
    ++e;
  }
  for (size_t i = 0; i < brokers.size(); ++i) {
    const ModelEdge &edge = costs.model.edges[i];
    bool toSamples = costs.model.modules[edge.to].item == ItemKind::Sample;
    if (brokers[i] >= 0)
      look(brokers[i], [&](int unit) {
        const Packing &packed = packing[i][unit != edge.from];
        return edge.bytes.at(fullestOf(unit, toSamples ? edge.from : edge.to)) /
                   plan.units[unit].cp +
               packed.bytes;
      });
  }
}

/// The most of these times, from first to before last, that there is at once.
static int countTogether(const std::vector<std::pair<Time, Time>> &lives) {
  std::vector<std::pair<Time, int>> changes;
  for (auto [begin, end] : lives) {
    changes.emplace_back(begin, 1);
    changes.emplace_back(end, -1);
  }
  std::sort(changes.begin(), changes.end());
  int count = 0, most = 0;
  for (auto [time, change] : changes)
    most = std::max(most, count += change);
  return most;
}

void StepBuilder::addWaiting(const TaskGraph &graph,
                             PlannedStep &result) const {
  const Problem &problem = result.problem;
  const std::vector<Time> &start = result.simulation.start,
                          &end = result.simulation.end;
  forWaitingEdges(problem, [&](int e, int stage, double bytes, int counted) {
    bool received = problem.edges[e].to == stage;
    int depth =
        problem.edges[e].receiveDepth * problem.getSpan(problem.edges[e].to);
    for (int r = 0; r < int(problem.stages[stage].replicas.size()); ++r) {
      int place = graph.getPlace(stage, r);
      std::vector<std::pair<Time, Time>> lives;
      for (int k = 0; k < problem.microbatches; ++k) {
        TaskGraph::Node node = graph.getNode(place, TaskGraph::kForward, k);
        if (!graph.exists(node))
          continue;
        // Received: from the first part of it on. Sent: until all is.
        std::pair<Time, Time> life(start[node], start[node]);
        for (const TaskGraph::Dependence &other :
             received ? graph.getPredecessors(node) : graph.getSuccessors(node))
          if (other.edge == e && received)
            life.first = std::min(life.first, end[other.node]);
          else if (other.edge == e) {
            int before = graph.getMicrobatchOf(other.node) - depth;
            Time free =
                before < 0
                    ? 0
                    : end[graph.getNode(graph.getPlaceOf(other.node),
                                        graph.getSlotOf(other.node), before)];
            life.second = std::max({life.second, end[node], free});
          }
        if (life.first < life.second)
          lives.push_back(life);
      }
      double waiting = bytes * std::max(0, countTogether(lives) - counted);
      for (int rank : graph.getRanks(place)) {
        result.held[rank].waiting += waiting;
        result.held[rank].buffers += waiting;
      }
    }
  });
  findFullest(result);
}

void StepBuilder::limitMemory(Problem &problem,
                              const std::vector<double> &less) const {
  Held held;
  holdAlways(problem, held);
  holdPacked(problem, nullptr, held);
  forWaitingEdges(problem, [&](int e, int stage, double bytes, int counted) {
    const scheduler::Stage &from = problem.stages[problem.edges[e].from];
    int most =
        from.hasBackward ? 0 : problem.units[from.unit].getRunAhead() + 1;
    forRanks(problem.stages[stage], [&](int rank) {
      held[rank].buffers += bytes * std::max(0, most - counted);
    });
  });
  problem.memory.assign(ranks, std::numeric_limits<int64_t>::max());
  for (size_t s = 0; s < stages.size(); ++s) {
    const UnitPlan &unit = plan.units[stages[s].unit];
    double memory =
        costs.cluster.getLeastMemory(unit.firstRank, unit.getRanks());
    forRanks(problem.stages[s], [&](int rank) {
      double left = memory - held[rank].total() - less[stages[s].unit];
      problem.memory[rank] =
          std::min(problem.memory[rank], int64_t(std::max(0.0, left)));
    });
  }
  // A plan file has one bound for all ranks of a stage.
  for (bool lower = plan.compiled; lower;) {
    lower = false;
    for (const scheduler::Stage &stage : problem.stages) {
      int64_t least = std::numeric_limits<int64_t>::max();
      forRanks(stage, [&](int rank) {
        least = std::min(least, problem.memory[rank]);
      });
      forRanks(stage, [&](int rank) {
        lower |= problem.memory[rank] > least;
        problem.memory[rank] = least;
      });
    }
  }
}

void StepBuilder::describe(const TaskGraph &graph, PlannedStep &result) const {
  const Problem &problem = result.problem;
  result.planRank = planRank;
  result.devices.assign(ranks, 0);
  result.unitsOfRank.assign(ranks, {});
  holdAlways(problem, result.held);
  for (size_t s = 0; s < stages.size(); ++s)
    forRanks(problem.stages[s], [&](int rank) {
      std::vector<int> &units = result.unitsOfRank[rank];
      if (!llvm::is_contained(units, stages[s].unit))
        units.push_back(stages[s].unit);
      // Shared: none in front of the plan's first.
      result.devices[rank] =
          shared ? double(plan.ranks) / double(ranks) : double(width[rank]);
    });
  std::vector<scheduler::Bytes> most =
      scheduler::getMostHeld(graph, result.solution);
  for (int rank = 0; rank < ranks; ++rank)
    result.held[rank].activations = double(most[rank]);
  holdPacked(problem, &result.solution, result.held);
  findFullest(result);
}

void StepBuilder::findFullest(PlannedStep &result) const {
  const Problem &problem = result.problem;
  result.memory.assign(plan.units.size(), {});
  for (size_t s = 0; s < stages.size(); ++s) {
    PlannedStep::Memory &own = result.memory[stages[s].unit];
    forRanks(problem.stages[s], [&](int rank) {
      if (result.held[rank].total() > own.total())
        own = result.held[rank];
    });
  }
}

reorder::OrderProblem makeOrderProblem(const TaskGraph &graph,
                                       const Solution &solution,
                                       const scheduler::Timeline &timeline,
                                       std::vector<std::vector<int64_t>> rows) {
  const Problem &problem = graph.getProblem();
  reorder::OrderProblem result;
  result.microbatches = problem.microbatches;
  // A backward that is not split has input and weight time together: a row of
  // its own behind the others.
  size_t stages = problem.stages.size();
  for (size_t s = 0; s < stages; ++s) {
    rows.push_back(rows[3 * s + 1]);
    for (int k = 0; k < problem.microbatches; ++k)
      rows.back()[k] += rows[3 * s + 2][k];
  }
  result.durations = std::move(rows);
  // Neighbours on a rank; what each task waits for, that and messages.
  std::vector<TaskGraph::Node> nodes;
  std::vector<int> position(graph.getNumNodes(), -1),
      before = position, behind = position, waiting(graph.getNumNodes(), 0);
  std::vector<uint8_t> whole(graph.getNumNodes(), 0);
  for (const std::vector<Task> &tasks : solution.ranks) {
    TaskGraph::Node last = -1;
    for (const Task &task : tasks) {
      TaskGraph::Node node = graph.getNode(task);
      whole[node] = task.kind == Kind::Backward;
      waiting[node] = int(graph.getPredecessors(node).size()) + (last >= 0);
      before[node] = last;
      if (last >= 0)
        behind[last] = node;
      last = node;
      nodes.push_back(node);
    }
  }
  result.tasks.reserve(nodes.size());
  // Dependences first: a topological order that follows the clock.
  auto later = [&](TaskGraph::Node a, TaskGraph::Node b) {
    return timeline.start[a] != timeline.start[b]
               ? timeline.start[a] > timeline.start[b]
               : a > b;
  };
  std::vector<TaskGraph::Node> ready;
  for (TaskGraph::Node node : nodes)
    if (!waiting[node])
      ready.push_back(node);
  std::make_heap(ready.begin(), ready.end(), later);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    TaskGraph::Node node = ready.back();
    ready.pop_back();
    int stage = graph.getPlaceInfo(graph.getPlaceOf(node)).stage;
    reorder::OrderProblem::Task task;
    task.row = whole[node] ? int(3 * stages) + stage
                           : 3 * stage + int(graph.getSlotOf(node));
    task.place = graph.getMicrobatchOf(node);
    task.waits.reserve(graph.getPredecessors(node).size() + 1);
    if (before[node] >= 0)
      task.waits.push_back({position[before[node]], 0});
    for (const TaskGraph::Dependence &from : graph.getPredecessors(node))
      task.waits.push_back({position[from.node], from.latency});
    position[node] = int(result.tasks.size());
    result.tasks.push_back(std::move(task));
    auto release = [&](TaskGraph::Node to) {
      if (--waiting[to] != 0)
        return;
      ready.push_back(to);
      std::push_heap(ready.begin(), ready.end(), later);
    };
    if (behind[node] >= 0)
      release(behind[node]);
    for (const TaskGraph::Dependence &to : graph.getSuccessors(node))
      release(to.node);
  }
  return result;
}

} // namespace dt::planner
