//===- StepMemory.cpp - What ranks hold, and orders of microbatches -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/sim/StepBuilder.h"

#include <algorithm>
#include <numeric>

namespace dt::plan {

namespace {

using schedule::Graph;
using schedule::Kind;
using schedule::Task;

/// Most bytes of activations that a rank holds at once, by its order of tasks.
int64_t peakOf(const Graph &graph, const std::vector<Task> &tasks) {
  const schedule::Problem &problem = graph.getProblem();
  int64_t held = 0, peak = 0;
  for (const Task &task : tasks) {
    const schedule::Stage &stage = problem.stages[task.stage];
    if (!stage.hasBackward)
      continue;
    int replicas = int(stage.replicas.size()), n = problem.microbatches;
    auto of = [&](const schedule::Table &table) {
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

void StepBuilder::describe(const Graph &graph, StepResult &result) const {
  const schedule::Problem &problem = result.problem;
  result.planRank.assign(ranks, 0);
  result.unitOfRank.assign(ranks, 0);
  result.memory.assign(plan.units.size(), {});
  std::vector<double> state(ranks, 0), buffers(ranks, 0);
  std::vector<int> stageRank(stages.size(), 0);
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageInfo &info = stages[s];
    const UnitPlan &unit = plan.units[info.unit];
    int position = info.index % unit.pp;
    stageRank[s] = problem.stages[s].replicas[0][0];
    double bytes = costs.get(nodeOf(info.unit), info.unit)
                       .state(unit.cuts[info.index], unit.cuts[info.index + 1],
                              unit.tp, unit.zero ? unit.dp : 1);
    for (int guest : info.guests)
      bytes += costs.get(nodeOf(info.unit), guest)
                   .state(0, int(costs.model.modules[guest].layers.size()),
                          unit.tp, unit.zero ? unit.dp : 1);
    for (int64_t r = 0; r < unit.dp; ++r)
      for (int rank : problem.stages[s].replicas[r]) {
        state[rank] += bytes;
        result.unitOfRank[rank] = info.unit;
        result.planRank[rank] =
            shared ? rank * grain
                   : unit.firstRank +
                         (int64_t(position) * unit.dp + r) * unit.tp * unit.cp;
      }
  }
  // Two messages in flight on every edge, both ways, of the mean part.
  for (const ModelEdge &edge : costs.model.edges) {
    for (int u : {edge.from, edge.to}) {
      int stage = u == edge.from ? lastStageOf(u) : firstStageOf(u);
      if (lastStageOf(edge.from) == firstStageOf(edge.to))
        continue;
      double messages =
          double(problem.microbatches) * double(plan.units[hostOf(u)].dp);
      double bytes =
          4 * edge.bytes.at(edgeItems[&edge - &costs.model.edges[0]] *
                            (1 / messages));
      for (const std::vector<int> &replica : problem.stages[stage].replicas)
        for (int rank : replica)
          buffers[rank] += bytes;
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    double kept = double(peakOf(graph, result.solution.ranks[rank]));
    auto raise = [&](StepResult::Memory &memory) {
      if (state[rank] + kept + buffers[rank] > memory.total())
        memory = {state[rank], kept, buffers[rank]};
    };
    raise(result.memory[result.unitOfRank[rank]]);
  }
  // Every unit on a rank shares what the rank holds.
  for (size_t s = 0; s < stages.size(); ++s) {
    StepResult::Memory &own = result.memory[stages[s].unit];
    const StepResult::Memory &rank =
        result.memory[result.unitOfRank[stageRank[s]]];
    if (own.total() < rank.total() && shared)
      own = rank;
    for (int guest : stages[s].guests)
      result.memory[guest] = own;
  }
}

reorder::OrderProblem makeOrderProblem(const Graph &graph,
                                       const schedule::Solution &solution,
                                       const schedule::Timeline &timeline,
                                       std::vector<std::vector<int64_t>> rows) {
  const schedule::Problem &problem = graph.getProblem();
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
  // Tasks by start; the rank's own order breaks ties of tasks without length.
  std::vector<Graph::Node> nodes;
  std::vector<int> position(graph.getNumNodes(), -1),
      before(graph.getNumNodes(), -1), rank(graph.getNumNodes(), 0);
  std::vector<uint8_t> whole(graph.getNumNodes(), 0);
  for (const std::vector<Task> &tasks : solution.ranks)
    for (size_t i = 0; i < tasks.size(); ++i) {
      Graph::Node node = graph.getNode(tasks[i]);
      rank[node] = int(i);
      whole[node] = tasks[i].kind == Kind::Backward;
      if (i > 0)
        before[node] = graph.getNode(tasks[i - 1]);
      nodes.push_back(node);
    }
  // Dependences first: a topological order that follows the clock.
  std::vector<int> waiting(graph.getNumNodes(), 0);
  std::vector<std::vector<Graph::Node>> next(graph.getNumNodes());
  for (Graph::Node node : nodes) {
    if (before[node] >= 0) {
      ++waiting[node];
      next[before[node]].push_back(node);
    }
    if (graph.getSlotOf(node) != Graph::kWeight)
      for (const Graph::Dependence &from : graph.getPredecessors(node)) {
        ++waiting[node];
        next[from.node].push_back(node);
      }
  }
  auto later = [&](Graph::Node a, Graph::Node b) {
    return timeline.start[a] != timeline.start[b]
               ? timeline.start[a] > timeline.start[b]
               : a > b;
  };
  std::vector<Graph::Node> ready;
  for (Graph::Node node : nodes)
    if (!waiting[node])
      ready.push_back(node);
  std::make_heap(ready.begin(), ready.end(), later);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    Graph::Node node = ready.back();
    ready.pop_back();
    int stage = graph.getPlaceInfo(graph.getPlaceOf(node)).stage;
    reorder::OrderProblem::Task task;
    task.row = whole[node] ? int(3 * stages) + stage
                           : 3 * stage + int(graph.getSlotOf(node));
    task.place = graph.getMicrobatchOf(node);
    if (before[node] >= 0)
      task.waits.push_back({position[before[node]], 0});
    if (graph.getSlotOf(node) != Graph::kWeight)
      for (const Graph::Dependence &from : graph.getPredecessors(node))
        task.waits.push_back({position[from.node], from.latency});
    position[node] = int(result.tasks.size());
    result.tasks.push_back(std::move(task));
    for (Graph::Node to : next[node])
      if (--waiting[to] == 0) {
        ready.push_back(to);
        std::push_heap(ready.begin(), ready.end(), later);
      }
  }
  return result;
}

} // namespace dt::plan
