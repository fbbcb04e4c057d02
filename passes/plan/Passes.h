//===- Passes.h - Passes that choose and obey a plan  -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_PASSES_H
#define PASSES_PLAN_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "dialects/rt/RTOps.h"
#include "dialects/sched/SchedOps.h"
#include "passes/plan/LayerWork.h"

#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Pass/Pass.h"

#include <functional>

namespace dt::planner {
struct RankBytes;
} // namespace dt::planner

namespace dt::plan {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/plan/Passes.h.inc"

/// What every rank of a program with a plan allocates, whose phases are still
/// to come: `run` does them. Errors are emitted.
using MeasureMemory =
    std::function<mlir::FailureOr<std::vector<planner::RankBytes>>(
        mlir::ModuleOp program, Runner run)>;
/// What is to be told of the plan that a policy chose.
struct PlanTexts {
  std::string file;        ///< the plan file (JSON)
  std::string explanation; ///< text; empty: nothing was compared
  std::string page;        ///< HTML; empty: not asked for
};
/// `texts`: may be null. Plans that need more memory than a device has, by
/// this, are not chosen. The pass as it is registered rests on the planner's
/// model of memory.
std::unique_ptr<mlir::Pass> createDistPlan(DistPlanOptions options,
                                           MeasureMemory measure,
                                           PlanTexts *texts);

} // namespace dt::plan

#endif // PASSES_PLAN_PASSES_H
