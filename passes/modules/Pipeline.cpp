//===- Pipeline.cpp - The modules phase in order ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/modules/Pipeline.h"
#include "passes/modules/Passes.h"

#include "mlir/Pass/PassManager.h"

namespace dt::modules {
#define GEN_PASS_REGISTRATION
#include "passes/modules/Passes.h.inc"
} // namespace dt::modules

void dt::registerModulesPasses() { modules::registerModulesPasses(); }

void dt::buildModulesPipeline(mlir::OpPassManager &pm) {
  pm.addPass(modules::createSplitLosses());
  pm.addPass(modules::createCutContrastive());
  // Towers are found in what the head leaves.
  pm.addPass(modules::createFindModules());
  pm.addPass(modules::createVerifyModules());
}

void dt::buildModulesUnderPlan(mlir::OpPassManager &pm) {
  pm.addPass(modules::createCutContrastive());
  pm.addPass(modules::createVerifyModules());
}
