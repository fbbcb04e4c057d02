//===- Pipeline.h - A plan in front of the phases -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// In front of the phase modules, if there is a plan: modules that run over the
// whole batch are cut off in it.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_PIPELINE_H
#define PASSES_PLAN_PIPELINE_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir {
class OpPassManager;
}

namespace dt {

/// What to plan for; see dist-plan.
struct PlanRequest {
  std::string cluster, policy = "joint", data, profile;
  int64_t devices = 0;
  bool explain = false;
};
/// In the place of buildApplyPlan: a policy's plan.
void buildPlan(mlir::OpPassManager &pm, const PlanRequest &request);
/// Before the modules phase: a plan file, or if `plan` holds a '=' a plan in
/// one line.
void buildApplyPlan(mlir::OpPassManager &pm, llvm::StringRef plan);
void registerPlanPasses();

} // namespace dt

#endif // PASSES_PLAN_PIPELINE_H
