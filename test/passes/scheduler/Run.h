//===- Run.h - A schedule's times, or a failed test -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_PASSES_SCHEDULE_RUN_H
#define TEST_PASSES_SCHEDULE_RUN_H

#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/core/Schedule.h"

#include "gtest/gtest.h"

namespace dt::scheduler {

inline Timeline run(const Problem &problem, llvm::StringRef name,
                    const SolveOptions &options = {}) {
  auto solution = solve(problem, name, options);
  if (!solution) {
    ADD_FAILURE() << name.str() << ": " << llvm::toString(solution.takeError());
    return {};
  }
  TaskGraph graph(problem);
  auto timeline = evaluate(graph, *solution);
  if (!timeline) {
    ADD_FAILURE() << name.str() << ": " << llvm::toString(timeline.takeError());
    return {};
  }
  return *timeline;
}

} // namespace dt::scheduler

#endif // TEST_PASSES_SCHEDULE_RUN_H
