//===- PartBounds.h - Whether parts keep to a program's bounds --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A program is compiled for parts of so many rows (docs/sizes.md); a step with
// a larger one is an error there. Here the same is found before there is one,
// for each slice of each replica's share of a task.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_STEP_PARTBOUNDS_H
#define PASSES_PLANNER_STEP_PARTBOUNDS_H

#include "passes/planner/step/Parts.h"

namespace dt::planner {

class PartBounds {
public:
  PartBounds(const Model &model, const Plan &plan,
             const std::vector<Sample> &batch)
      : model(model), plan(plan), batch(batch) {}

  bool has(int module) const { return !model.modules[module].bounds.empty(); }

  /// The first part of a module that is larger than a bound, in words; empty:
  /// there is none. Its items have been placed.
  std::string check(int module, const Parts &parts) const;
  /// The same where only sums of parts are known: of what slices have on
  /// average.
  std::string checkMeans(int module, const Parts &parts) const;

  /// Of each sample: the largest share that it has of what all parts of a
  /// microbatch may have, over all bounds of all modules; as programs count
  /// (runtime/data/CutMeasures.cpp).
  std::vector<int64_t> getSampleShares() const;
  /// Of each item of a module, of its own bounds.
  std::vector<int64_t> getItemShares(int module) const;

private:
  /// Rows that a bound counts of each of the module's items (or samples).
  std::vector<double> rowsOf(int module, const PartBound &bound) const;
  std::string explain(int module, const PartBound &bound, double rows) const;

  const Model &model;
  const Plan &plan;
  const std::vector<Sample> &batch;
};

} // namespace dt::planner

#endif // PASSES_PLANNER_STEP_PARTBOUNDS_H
