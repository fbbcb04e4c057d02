//===- Turns.cpp - A microbatch there and back before the next ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every rank keeps the activations of one microbatch. Modules that a batch-sync
// depends on run forward for a whole group first, since no gradient comes
// before it. A unit's run-ahead holds for what it is made from, too.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/Lines.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dt::scheduler {

namespace {

/// Stages from which a batch-sync can be reached.
std::vector<bool> findTowers(const Problem &problem,
                             const std::vector<int> &order) {
  std::vector<bool> tower(problem.stages.size(), false);
  for (int stage : llvm::reverse(order))
    for (const Edge &edge : problem.edges)
      if (edge.to == stage &&
          (problem.stages[edge.to].batchSync || tower[edge.to]))
        tower[edge.from] = true;
  return tower;
}

/// Microbatches that a stage's forwards are ahead of their turn.
std::vector<int> findAhead(const Problem &problem,
                           const std::vector<int> &order) {
  std::vector<int> ahead(problem.stages.size(), 0);
  for (int stage : llvm::reverse(order)) {
    int &own = ahead[stage];
    own = std::min(problem.microbatches,
                   problem.units[problem.stages[stage].unit].getRunAhead());
    for (const Edge &edge : problem.edges)
      if (edge.from == stage)
        own = std::max(own, ahead[edge.to]);
  }
  return ahead;
}

} // namespace

Solution takeTurns(const TaskGraph &graph, bool split) {
  const Problem &problem = graph.getProblem();
  std::vector<int> order = problem.getTopologicalOrder();
  std::vector<bool> tower = findTowers(problem, order);
  std::vector<int> ahead = findAhead(problem, order);
  Solution solution;
  solution.ranks.resize(problem.ranks);
  auto add = [&](int stage, TaskGraph::Slot slot, int microbatch) {
    int replicas = int(problem.stages[stage].replicas.size());
    for (int r = 0; r < replicas; ++r) {
      TaskGraph::Node node =
          graph.getNode(graph.getPlace(stage, r), slot, microbatch);
      if (!graph.exists(node))
        continue;
      for (int rank : graph.getRanks(graph.getPlaceOf(node)))
        solution.ranks[rank].push_back(
            graph.getTask(node, split && graph.canSplit(stage)));
    }
  };
  int n = problem.microbatches, size = problem.getGroupSize();
  for (int group = 0; group * size < n; ++group) {
    int begin = group * size, end = std::min(n, begin + size);
    for (int k = begin; k < end; ++k)
      for (int stage : order)
        if (tower[stage])
          add(stage, TaskGraph::kForward, k);
    for (int stage : order)
      if (problem.stages[stage].batchSync)
        add(stage, TaskGraph::kForward, group);
    for (int k = begin; k < end; ++k) {
      for (int stage : order)
        if (!tower[stage] && !problem.stages[stage].batchSync)
          for (int next = k == begin ? k : k + ahead[stage];
               next < std::min(end, k + ahead[stage] + 1); ++next)
            add(stage, TaskGraph::kForward, next);
      for (int stage : llvm::reverse(order))
        if (!problem.stages[stage].batchSync) {
          add(stage, TaskGraph::kGradient, k);
          if (split)
            add(stage, TaskGraph::kWeight, k);
        }
    }
  }
  return solution;
}

} // namespace dt::scheduler
