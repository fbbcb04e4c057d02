//===- Pipeline.cpp - The lower phase ---------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/Pipeline.h"
#include "passes/lower/FunctionLowering.h"
#include "passes/lower/Passes.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;

void dt::buildLowerPipeline(OpPassManager &pm) {
  pm.addPass(lower::createLowerToRT());
  // Constants and sizes inside kernels.
  pm.addPass(createCSEPass());
  pm.addPass(lower::createPlanMemory());
  pm.addPass(lower::createLowerProgram());
  pm.addPass(lower::createVerifyLowered());
}

void dt::registerLowerPasses() { lower::registerLowerPasses(); }

void dt::registerLoweringModels(DialectRegistry &registry) {
  lower::registerLoweringModels(registry);
}
