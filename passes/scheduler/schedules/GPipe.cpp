//===- GPipe.cpp - All forwards, then all backwards -----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Huang et al., "GPipe", NeurIPS 2019. The least number of changes between
// forward and backward, at the price of every microbatch's activations. Wall
// time of p equal stages: (n + p - 1)(f + b + w).
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

namespace dt::scheduler {

static llvm::Expected<Solution> solveGPipe(const TaskGraph &graph,
                                           const SolveOptions &) {
  return mergeLines(graph, [&](int place, int) {
    Line line;
    appendForwards(graph, place, line);
    appendBackwards(graph, place, line);
    return line;
  });
}

void addGPipe(Registry &registry) {
  registry.add("gpipe", "all forwards, then all backwards", solveGPipe);
}

} // namespace dt::scheduler
