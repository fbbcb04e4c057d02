//===- Setting.h - A model on devices with a batch, for tests ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_PASSES_PLANNER_SETTING_H
#define TEST_PASSES_PLANNER_SETTING_H

#include "passes/planner/policies/Policy.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"

namespace dt::planner {

/// An encoder, a backbone and a generator: `input()` is what policies plan.
struct Setting {
  Setting(const char *cluster, int64_t devices, std::vector<Sample> samples)
      : cluster(takeDevices(cluster, devices)), model(makeMultimodal(7)),
        costs(this->cluster, model), batch(std::move(samples)) {}
  PolicyInput input() const { return {costs, batch, 12}; }
  Cluster cluster;
  Model model;
  Costs costs;
  std::vector<Sample> batch;
};

/// Samples of 4096 tokens with four images and two targets.
inline std::vector<Sample> uniform(int count) {
  return std::vector<Sample>(
      count, Sample{4096, {std::vector<ItemSize>(4, 1024), {4096, 4096}}});
}

} // namespace dt::planner

#endif // TEST_PASSES_PLANNER_SETTING_H
