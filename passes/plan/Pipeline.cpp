//===- Pipeline.cpp - A plan in front of the phases -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/Pipeline.h"
#include "passes/plan/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace dt::plan {
#define GEN_PASS_REGISTRATION
#include "passes/plan/Passes.h.inc"
} // namespace dt::plan

void dt::registerPlanPasses() { plan::registerPlanPasses(); }

/// "llm:tp=2; vision:" is a plan, "plans/llm.json" a file.
static bool isPlanLine(llvm::StringRef plan) {
  return plan.find_first_of("=;") != llvm::StringRef::npos ||
         plan.ends_with(":");
}

void dt::buildApplyPlan(OpPassManager &pm, llvm::StringRef plan) {
  plan::ApplyPlanOptions options;
  (isPlanLine(plan) ? options.plan : options.file) = plan.str();
  pm.addPass(plan::createApplyPlan(options));
}

void dt::buildPlan(OpPassManager &pm, const PlanRequest &request) {
  plan::DistPlanOptions options;
  options.cluster = request.cluster;
  options.policy = request.policy;
  options.data = request.data;
  options.profile = request.profile;
  options.devices = request.devices;
  options.explain = request.explain;
  pm.addPass(plan::createDistPlan(options));
}
