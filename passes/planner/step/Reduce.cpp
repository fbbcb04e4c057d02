//===- Reduce.cpp - Gradients summed over replicas ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/Reduce.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace dt::planner {

using scheduler::TaskGraph;
using Node = TaskGraph::Node;

/// When the first bucket of a reduction is complete on all ranks, and the last.
static std::pair<Time, Time> completeFor(const TaskGraph &graph,
                                         const TaskLists &lists,
                                         const Simulation &simulation,
                                         const GradientReduction &reduction) {
  Time first = 0, last = 0;
  for (int rank : reduction.ranks)
    for (Node node : lists[rank]) {
      int stage = graph.getPlaceInfo(graph.getPlaceOf(node)).stage;
      if (!reduction.stages.empty() && !is_contained(reduction.stages, stage))
        continue;
      Time end = simulation.end[node], rest = (end - simulation.start[node]) /
                                              reduction.buckets *
                                              (reduction.buckets - 1);
      first = std::max(first, end - rest);
      last = std::max(last, end);
    }
  return {first, last};
}

void sumGradients(const TaskGraph &graph, const TaskLists &lists,
                  ArrayRef<GradientReduction> reductions,
                  Simulation &simulation) {
  std::vector<std::pair<Time, Time>> complete;
  std::vector<int> order;
  for (const GradientReduction &reduction : reductions) {
    order.push_back(int(complete.size()));
    complete.push_back(completeFor(graph, lists, simulation, reduction));
  }
  llvm::stable_sort(order,
                    [&](int a, int b) { return complete[a] < complete[b]; });
  std::vector<Time> free(lists.size(), 0); // of the rank's reductions before
  simulation.reductions.resize(reductions.size());
  for (int i : order) {
    auto [begin, last] = complete[i];
    for (int rank : reductions[i].ranks)
      begin = std::max(begin, free[rank]);
    Time end = std::max(begin + reductions[i].duration,
                        last + reductions[i].duration / reductions[i].buckets);
    simulation.reductions[i] = {begin, end};
    for (int rank : reductions[i].ranks) {
      free[rank] = end;
      simulation.reduced[rank] = std::max(simulation.reduced[rank], end);
    }
  }
}

} // namespace dt::planner
