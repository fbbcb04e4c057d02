//===- Pipeline.cpp - The schedule phase  -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/Pipeline.h"
#include "passes/schedule/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace dt::schedule {
#define GEN_PASS_REGISTRATION
#include "passes/schedule/Passes.h.inc"
} // namespace dt::schedule

void dt::registerSchedulePasses() { schedule::registerSchedulePasses(); }

void dt::buildSchedulePipeline(OpPassManager &pm) {
  pm.addPass(schedule::createChooseBrokers());
  schedule::DistScheduleOptions options;
  options.planned = true;
  pm.addPass(schedule::createDistSchedule(options));
}

void dt::buildSolvePipeline(OpPassManager &pm) {
  pm.addPass(schedule::createSchedSolve());
}
