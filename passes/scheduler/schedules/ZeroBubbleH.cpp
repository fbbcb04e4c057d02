//===- ZeroBubbleH.cpp - 1F1B with weight gradients put off ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.
//
// H1, section 2.1: the order of 1F1B with the backward split. A stage that
// starts i stages later puts its weight gradients off by i microbatches: the
// input gradients reach the first stage earlier, and what was put off fills the
// end. Bubble of p equal stages without latency: (p - 1)(f + b - w), a third of
// 1F1B's if all are equal.
//
// H2, section 2.2: a stage d stages from the end runs 2d + 1 forwards before
// its first backward, enough to fill the time until that comes, and puts weight
// gradients off twice as far. With f = b = w no rank idles between its first
// and its last task.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

namespace dt::scheduler {

template <int delay>
static llvm::Expected<Solution> solveZeroBubbleH(const TaskGraph &graph,
                                                 const SolveOptions &) {
  return mergeSplitOneFOneB(graph, delay);
}

void addZeroBubbleH(Registry &registry) {
  registry.add("zb-h1",
               "1F1B with weight gradients put off, in the same memory",
               solveZeroBubbleH<1>, {.splitsBackward = true, .planned = true});
  registry.add(
      "zb-h2",
      "zero bubble with about twice the microbatches in flight of 1F1B",
      solveZeroBubbleH<2>, {.splitsBackward = true, .planned = true});
}

} // namespace dt::scheduler
