//===- Refusals.h - What plans that did not fit have taught -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The planner predicts bytes; a compiled program allocates them. Where it
// allocates more than its devices have, the difference is known for all plans
// of that layout, and the search goes on with it.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_REFUSALS_H
#define PASSES_PLAN_REFUSALS_H

#include "passes/planner/step/Step.h"

#include <map>
#include <vector>

namespace dt::plan {

/// Of one program on one cluster.
class Refusals {
public:
  /// DoesNotFit, of the rank that lacks most, if the bytes that the plan's
  /// ranks allocate (`plan.predicted.allocated`) are more than `cluster` has;
  /// `step`: what was predicted of it.
  llvm::Error check(const planner::Plan &plan, const planner::PlannedStep &step,
                    const planner::Cluster &cluster);
  /// Sets UnitPlan::beyond to what is known of the units' layouts.
  void tell(planner::Plan &plan) const;

  planner::Reason reason;

private:
  /// The unit, sequence parallelism, TP, CP, DP and PP; where units share
  /// ranks, those of all, too.
  using Layout = std::vector<int64_t>;
  static Layout layoutOf(const planner::Plan &plan, size_t u);

  /// By layout of a unit, its UnitPlan::beyond.
  std::map<Layout, std::vector<double>> beyond;
};

} // namespace dt::plan

#endif // PASSES_PLAN_REFUSALS_H
