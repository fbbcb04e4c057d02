//===- Flush.cpp - A schedule -----------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Of every microbatch the forward and at once the backward, as early as a
// pipeline of one microbatch could: the least memory, and the most waiting.
//
//===----------------------------------------------------------------------===//

#include "Example.h"

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

using namespace dt::scheduler;

static llvm::Expected<Solution> solveFlush(const TaskGraph &graph,
                                           const SolveOptions &) {
  return takeTurns(graph, /*split=*/false);
}

void example::addFlush(dt::Plugin &plugin) {
  plugin.schedules.add("example-flush",
                       "a microbatch forward and back before the next",
                       solveFlush);
}
