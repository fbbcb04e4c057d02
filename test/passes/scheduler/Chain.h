//===- Chain.h - Pipelines of equal stages for tests ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_PASSES_SCHEDULE_CHAIN_H
#define TEST_PASSES_SCHEDULE_CHAIN_H

#include "passes/scheduler/core/Problem.h"

namespace dt::scheduler {

struct Times {
  Time forward, input, weight, latency;
};

/// p ranks in a row, each with `chunks` stages (stage c * p + i on rank i), n
/// microbatches. With `v` two chunks go back the way they came.
inline Problem makeChain(int p, int n, Times times, int chunks = 1,
                         bool v = false) {
  Problem problem;
  problem.ranks = p;
  problem.microbatches = n;
  problem.units = {{"model", 0}};
  for (int s = 0; s < p * chunks; ++s) {
    Stage stage;
    stage.name = "s" + std::to_string(s);
    stage.replicas = {{v && s >= p ? 2 * p - 1 - s : s % p}};
    stage.forward = times.forward;
    stage.input = times.input;
    stage.weight = times.weight;
    stage.activation = 37;
    stage.weightActivation = 16;
    problem.stages.push_back(stage);
    if (s)
      problem.edges.push_back({s - 1, s, times.latency, true, {}, 0});
  }
  return problem;
}

} // namespace dt::scheduler

#endif // TEST_PASSES_SCHEDULE_CHAIN_H
