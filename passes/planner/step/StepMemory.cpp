//===- StepMemory.cpp - What ranks hold, and orders of microbatches -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/StepBuilder.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dt::planner {

namespace {

using scheduler::Kind;
using scheduler::Task;
using scheduler::TaskGraph;

/// Most bytes of activations that a rank holds at once, by its order of tasks.
int64_t peakOf(const scheduler::Problem &problem,
               const std::vector<Task> &tasks) {
  int64_t held = 0, peak = 0;
  for (const Task &task : tasks) {
    const scheduler::Stage &stage = problem.stages[task.stage];
    if (!stage.hasBackward)
      continue;
    int replicas = int(stage.replicas.size()), n = problem.microbatches;
    auto of = [&](const scheduler::Table &table) {
      return table.at(task.microbatch, task.replica, n, replicas);
    };
    switch (task.kind) {
    case Kind::Forward:
      held += of(stage.activation);
      break;
    case Kind::Backward:
      held -= of(stage.activation);
      break;
    case Kind::Input:
      held -= of(stage.activation) - of(stage.weightActivation);
      break;
    case Kind::Weight:
      held -= of(stage.weightActivation);
      break;
    case Kind::Sync:
      break;
    }
    peak = std::max(peak, held);
  }
  return peak;
}

} // namespace

/// What a stage holds for a moment: one layer's results are there in full while
/// its backward pass runs, whatever was saved.
double StepBuilder::workspaceOf(const StageInfo &info) const {
  const UnitPlan &unit = plan.units[info.unit];
  double most = 0;
  auto look = [&](int u, int begin, int end) {
    const Module &module = costs.model.modules[u];
    TokenSums piece = largest[u] * (1 / piecesOf(u, largest[u]));
    CostOptions options = plan.getOptions(u, u == info.unit ? info.index : 0);
    std::vector<uint8_t> seen(module.kinds.size(), 0);
    for (int i = begin; i < end; ++i) {
      int kind = module.layers[i];
      if (seen[kind]++)
        continue;
      most = std::max(most,
                      costs.get(nodeOf(u), u).workspace(kind, options, piece));
    }
  };
  look(info.unit, unit.cuts[info.index], unit.cuts[info.index + 1]);
  for (int guest : info.guests)
    look(guest, 0, int(costs.model.modules[guest].layers.size()));
  return most;
}

void StepBuilder::holdAlways(const scheduler::Problem &problem,
                             std::vector<PlannedStep::Memory> &held) const {
  held.assign(ranks, {});
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageInfo &info = stages[s];
    const UnitPlan &unit = plan.units[info.unit];
    int64_t shards = unit.zero ? unit.dp * unit.cp : 1;
    double bytes = 0, snapshot = 0;
    auto add = [&](int u, int begin, int end) {
      const ModuleCost &cost = costs.get(nodeOf(u), u);
      bytes += cost.state(begin, end, unit.tp, shards, unit.ep);
      // A checkpoint leaves layer by layer.
      for (int i = begin; i < end; ++i)
        snapshot =
            std::max(snapshot, cost.state(i, i + 1, unit.tp, shards, unit.ep));
    };
    add(info.unit, unit.cuts[info.index], unit.cuts[info.index + 1]);
    for (int guest : info.guests)
      add(guest, 0, int(costs.model.modules[guest].layers.size()));
    double workspace = workspaceOf(info);
    for (const std::vector<int> &replica : problem.stages[s].replicas)
      for (int rank : replica) {
        held[rank].state += bytes;
        held[rank].workspace = std::max(held[rank].workspace, workspace);
        held[rank].snapshot = std::max(held[rank].snapshot, snapshot);
      }
  }
  // Messages in flight on every edge, both ways, of the mean part.
  for (size_t e = 0; e < costs.model.edges.size(); ++e) {
    const ModelEdge &edge = costs.model.edges[e];
    if (lastStageOf(edge.from) == firstStageOf(edge.to))
      continue;
    for (int u : {edge.from, edge.to}) {
      int stage = u == edge.from ? lastStageOf(u) : firstStageOf(u);
      double messages =
          double(problem.microbatches) * double(plan.units[plan.getHost(u)].dp);
      double bytes =
          2 * kReceiveDepth * edge.bytes.at(edgeItems[e] * (1 / messages)) /
          (plan.units[plan.getHost(u)].tp * plan.units[plan.getHost(u)].cp);
      for (const std::vector<int> &replica : problem.stages[stage].replicas)
        for (int rank : replica)
          held[rank].buffers += bytes;
    }
  }
}

void StepBuilder::limitMemory(scheduler::Problem &problem,
                              const std::vector<double> &less) const {
  std::vector<PlannedStep::Memory> held;
  holdAlways(problem, held);
  problem.memory.assign(ranks, std::numeric_limits<int64_t>::max());
  for (size_t s = 0; s < stages.size(); ++s)
    for (const std::vector<int> &replica : problem.stages[s].replicas)
      for (int rank : replica)
        problem.memory[rank] =
            std::min(problem.memory[rank],
                     int64_t(std::max(
                         0.0, costs.cluster.getMemory(nodeOf(stages[s].unit)) -
                                  held[rank].total() - less[stages[s].unit])));
}

void StepBuilder::describe(PlannedStep &result) const {
  const scheduler::Problem &problem = result.problem;
  result.planRank.assign(ranks, 0);
  result.unitsOfRank.assign(ranks, {});
  result.memory.assign(plan.units.size(), {});
  result.problemUnit.assign(plan.units.size(), -1);
  for (size_t s = 0; s < stages.size(); ++s)
    result.problemUnit[stages[s].unit] = problem.stages[s].unit;
  holdAlways(problem, result.held);
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageInfo &info = stages[s];
    int position = plan.getPosition(plan.units[info.unit], info.index);
    for (int64_t r = 0; r < classes[info.unit]; ++r)
      for (int rank : problem.stages[s].replicas[r]) {
        std::vector<int> &units = result.unitsOfRank[rank];
        if (std::find(units.begin(), units.end(), info.unit) == units.end())
          units.push_back(info.unit);
        result.planRank[rank] =
            shared ? rank * grain * shrink : planRankOf(info.unit, position, r);
      }
  }
  for (int rank = 0; rank < ranks; ++rank)
    result.held[rank].activations =
        double(peakOf(problem, result.solution.ranks[rank]));
  // Of every unit its fullest rank, with all that the rank holds.
  for (size_t s = 0; s < stages.size(); ++s) {
    PlannedStep::Memory &own = result.memory[stages[s].unit];
    for (const std::vector<int> &replica : problem.stages[s].replicas)
      for (int rank : replica)
        if (result.held[rank].total() > own.total())
          own = result.held[rank];
  }
  for (const StageInfo &info : stages)
    for (int guest : info.guests)
      result.memory[guest] = result.memory[info.unit];
}

reorder::OrderProblem makeOrderProblem(const TaskGraph &graph,
                                       const scheduler::Solution &solution,
                                       const scheduler::Timeline &timeline,
                                       std::vector<std::vector<int64_t>> rows) {
  const scheduler::Problem &problem = graph.getProblem();
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
