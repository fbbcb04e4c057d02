//===- ZeroBubbleH2.cpp - Zero bubble in twice the memory of 1F1B ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Qi et al., ICLR 2024, section 2.2: a stage d stages from the end runs 2d + 1
// forwards before its first backward, enough to fill the time until that comes,
// and puts weight gradients off as in H1. With f = b = w no rank idles between
// its first and its last task.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

#include <algorithm>

namespace dt::scheduler {

static llvm::Expected<Solution> solveZeroBubbleH2(const TaskGraph &graph,
                                                  const SolveOptions &) {
  const Problem &problem = graph.getProblem();
  std::vector<int> inFlight = getInFlight(problem),
                   depths = problem.getDepths();
  int deepest = *std::max_element(depths.begin(), depths.end());
  return mergeLines(graph, [&](int place, int stage) {
    return makeOneFOneB(graph, place, inFlight[stage] + depths[stage] - 1,
                        2 * (deepest - depths[stage]));
  });
}

void addZeroBubbleH2(Registry &registry) {
  registry.add(
      "zb-h2",
      "zero bubble with about twice the microbatches in flight of 1F1B",
      solveZeroBubbleH2, {.splitsBackward = true, .planned = true});
}

} // namespace dt::scheduler
