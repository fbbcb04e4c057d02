//===- Accumulate.cpp - A microbatch there and back before the next -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Gradient accumulation: what one process does, and the least memory. Over
// several stages nothing overlaps: wall time of p stages is n p (f + b + w).
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

namespace dt::scheduler {

static llvm::Expected<Solution> solveAccumulate(const TaskGraph &graph,
                                                const SolveOptions &) {
  return takeTurns(graph, /*split=*/false);
}

void addAccumulate(Registry &registry) {
  registry.add("accumulate", "a microbatch forward and back before the next",
               solveAccumulate);
}

} // namespace dt::scheduler
