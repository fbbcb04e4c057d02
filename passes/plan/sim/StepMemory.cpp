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

void StepBuilder::holdAlways(const schedule::Problem &problem,
                             std::vector<double> &state,
                             std::vector<double> &buffers) const {
  state.assign(ranks, 0);
  buffers.assign(ranks, 0);
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageInfo &info = stages[s];
    const UnitPlan &unit = plan.units[info.unit];
    int64_t shards = unit.zero ? unit.dp : 1;
    double bytes = costs.get(nodeOf(info.unit), info.unit)
                       .state(unit.cuts[info.index], unit.cuts[info.index + 1],
                              unit.tp, shards);
    for (int guest : info.guests)
      bytes += costs.get(nodeOf(info.unit), guest)
                   .state(0, int(costs.model.modules[guest].layers.size()),
                          unit.tp, shards);
    for (const std::vector<int> &replica : problem.stages[s].replicas)
      for (int rank : replica)
        state[rank] += bytes;
  }
  // Two messages in flight on every edge, both ways, of the mean part.
  for (size_t e = 0; e < costs.model.edges.size(); ++e) {
    const ModelEdge &edge = costs.model.edges[e];
    if (lastStageOf(edge.from) == firstStageOf(edge.to))
      continue;
    for (int u : {edge.from, edge.to}) {
      int stage = u == edge.from ? lastStageOf(u) : firstStageOf(u);
      double messages =
          double(problem.microbatches) * double(plan.units[hostOf(u)].dp);
      double bytes = 4 * edge.bytes.at(edgeItems[e] * (1 / messages));
      for (const std::vector<int> &replica : problem.stages[stage].replicas)
        for (int rank : replica)
          buffers[rank] += bytes;
    }
  }
}

void StepBuilder::limitMemory(schedule::Problem &problem) const {
  std::vector<double> state, buffers;
  holdAlways(problem, state, buffers);
  problem.memory.assign(ranks, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t device = shared ? rank * grain : 0;
    double has = costs.cluster.getMemory(costs.cluster.getNodeKind(device));
    problem.memory[rank] =
        int64_t(std::max(0.0, has - state[rank] - buffers[rank]));
  }
}

void StepBuilder::describe(const Graph &graph, StepResult &result) const {
  const schedule::Problem &problem = result.problem;
  result.planRank.assign(ranks, 0);
  result.unitOfRank.assign(ranks, 0);
  result.memory.assign(plan.units.size(), {});
  std::vector<double> state, buffers;
  holdAlways(problem, state, buffers);
  for (const StageInfo &info : stages) {
    size_t s = size_t(&info - stages.data());
    const UnitPlan &unit = plan.units[info.unit];
    int position = info.index % unit.pp;
    for (int64_t r = 0; r < unit.dp; ++r)
      for (int rank : problem.stages[s].replicas[r]) {
        result.unitOfRank[rank] = info.unit;
        result.planRank[rank] =
            shared ? rank * grain
                   : unit.firstRank +
                         (int64_t(position) * unit.dp + r) * unit.tp * unit.cp;
      }
  }
  std::vector<StepResult::Memory> held(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    held[rank] = {state[rank],
                  double(peakOf(graph, result.solution.ranks[rank])),
                  buffers[rank]};
  // Of every unit its fullest rank, with all that the rank holds.
  for (size_t s = 0; s < stages.size(); ++s) {
    StepResult::Memory &own = result.memory[stages[s].unit];
    for (const std::vector<int> &replica : problem.stages[s].replicas)
      for (int rank : replica)
        if (held[rank].total() > own.total())
          own = held[rank];
  }
  for (const StageInfo &info : stages)
    for (int guest : info.guests)
      result.memory[guest] = result.memory[info.unit];
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
