//===- ZeroBubbleH1.cpp - Zero bubble in the memory of 1F1B ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.1: the
// order of 1F1B with the backward split. A stage that starts i stages later
// puts its weight gradients off by i microbatches: the input gradients reach
// the first stage earlier, and what was put off fills the end. Bubble of p
// equal stages without latency: (p - 1)(f + b - w), a third of 1F1B's if all
// are equal.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

#include <algorithm>

namespace dt::scheduler {

static llvm::Expected<Solution> solveZeroBubbleH1(const TaskGraph &graph,
                                                  const SolveOptions &) {
  const Problem &problem = graph.getProblem();
  std::vector<int> inFlight = getInFlight(problem),
                   depths = problem.getDepths();
  int deepest = *std::max_element(depths.begin(), depths.end());
  return mergeLines(graph, [&](int place, int stage) {
    return makeOneFOneB(graph, place, inFlight[stage], deepest - depths[stage]);
  });
}

void addZeroBubbleH1(Registry &registry) {
  registry.add("zb-h1",
               "1F1B with weight gradients put off, in the same memory",
               solveZeroBubbleH1, {.splitsBackward = true, .planned = true});
}

} // namespace dt::scheduler
