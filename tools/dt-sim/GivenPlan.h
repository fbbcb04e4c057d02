//===- GivenPlan.h - Pricing a plan that somebody has made ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_SIM_GIVENPLAN_H
#define TOOLS_DT_SIM_GIVENPLAN_H

#include "passes/planner/policies/Policy.h"

namespace dt::planner {

/// A plan file (docs/plan.md) as the planner has plans. Stages of several
/// layers are known by `units.X.predicted.layers`, which the planner's own
/// files have. Errors: file and key.
llvm::Expected<Plan> readGivenPlan(llvm::StringRef file, const Model &model,
                                   int64_t samples);

} // namespace dt::planner

#endif // TOOLS_DT_SIM_GIVENPLAN_H
