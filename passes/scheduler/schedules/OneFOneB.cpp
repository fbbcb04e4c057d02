//===- OneFOneB.cpp - One forward, one backward, on any DAG of stages -----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// PipeDream-Flush (Narayanan et al., 2021). A stage that is d stages away from
// the end runs d forwards ahead, then a backward and a forward in turn, so that
// it holds the activations of d + 1 microbatches at most. In a DAG, d is the
// longest path to a sink: with less, a stage would wait for a gradient that
// waits for a forward that the stage has not run.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

namespace dt::scheduler {

static llvm::Expected<Solution> solveOneFOneB(const TaskGraph &graph,
                                              const SolveOptions &) {
  std::vector<int> inFlight = getInFlight(graph.getProblem());
  return mergeLines(graph, [&](int place, int stage) {
    return makeOneFOneB(graph, place, inFlight[stage]);
  });
}

void addOneFOneB(Registry &registry) {
  registry.add("1f1b", "one forward, one backward, on any DAG of stages",
               solveOneFOneB, {.planned = true});
}

} // namespace dt::scheduler
