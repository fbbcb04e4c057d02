//===- Robust.h - Plans for steps that are not all alike --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A search sees one global batch and ranks that are as fast as they are priced.
// What it found is weighed here by a percentile of the step over draws of other
// batches and of slow ranks (NodeKind::stragglers).
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_SEARCH_ROBUST_H
#define PASSES_PLANNER_SEARCH_ROBUST_H

#include "passes/planner/policies/Policy.h"

#include <functional>

namespace dt::planner {

struct Robustness {
  static constexpr int kDraws = 20;
  int percentile = 50; ///< 1 to 100
  uint64_t seed = 0;   ///< of slow ranks
  /// The global batch of a draw, of 0 to kDraws - 1.
  std::function<llvm::Expected<std::vector<Sample>>(int draw)> batch;
};

/// Error if it is none.
llvm::Error checkPercentile(int64_t percentile);

/// By device: how much longer its tasks take in a draw; empty if the cluster
/// has no stragglers.
std::vector<double> drawSlowdowns(const Cluster &cluster, uint64_t seed,
                                  int draw);

/// Of the fastest plans, at most 16 and within a tenth of the first, the one
/// whose percentile is least, or one that is simpler and no more than
/// kNegligible behind it, with its Spread. A step that does not fit the memory
/// takes for ever; error if that is all plans' percentile.
llvm::Expected<Plan> chooseRobust(const PolicyInput &input,
                                  const Candidates &found,
                                  const Robustness &robustness);
/// The same of what a policy finds.
llvm::Expected<Plan> makeRobustPlan(llvm::StringRef policy, PolicyInput input,
                                    const Robustness &robustness);

} // namespace dt::planner

#endif // PASSES_PLANNER_SEARCH_ROBUST_H
