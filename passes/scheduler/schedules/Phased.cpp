//===- Phased.cpp - Colocated modules, one after another ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Modules that share ranks take turns: all forwards of the encoder, then of the
// next module, …; the module with most work and those that it feeds run 1F1B;
// then all backwards, last module first. Simple and without bubbles between
// modules, but the activations of the whole batch (or its recomputation) stay
// for all modules before the largest. On ranks of their own, modules just
// follow the order of their inputs.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

namespace dt::scheduler {

static llvm::Expected<Solution> solvePhased(const TaskGraph &graph,
                                            const SolveOptions &) {
  const Problem &problem = graph.getProblem();
  int count = int(problem.units.size());
  std::vector<int> position(count, -1), order = problem.getTopologicalOrder();
  int units = 0;
  for (int stage : order)
    if (position[problem.stages[stage].unit] < 0)
      position[problem.stages[stage].unit] = units++;
  // Only modules in front of the largest have a phase of their own: another one
  // would have to keep the whole batch too.
  std::vector<bool> last(count, false);
  last[findLargestUnit(graph)] = true;
  for (int stage : order)
    for (const Edge &edge : problem.edges)
      if (edge.from == stage && last[problem.stages[stage].unit] &&
          !problem.stages[edge.to].batchSync)
        last[problem.stages[edge.to].unit] = true;
  std::vector<int> inFlight = getInFlight(problem);
  std::vector<int> phases(graph.getNumNodes(), count);
  auto makeLine = [&](int place, int stage) {
    int unit = problem.stages[stage].unit;
    if (last[unit])
      return makeOneFOneB(graph, place, inFlight[stage]);
    Line line;
    appendForwards(graph, place, line);
    appendBackwards(graph, place, line);
    for (TaskGraph::Node node : line)
      phases[node] = graph.getSlotOf(node) == TaskGraph::kForward
                         ? position[unit]
                         : 2 * count - position[unit];
    return line;
  };
  return mergeLines(graph, makeLine, phases);
}

void addPhased(Registry &registry) {
  registry.add("phased",
               "colocated modules one after another; the last one runs 1F1B",
               solvePhased,
               {.sharesRanks = true, .runsInPhases = true, .planned = true});
}

} // namespace dt::scheduler
