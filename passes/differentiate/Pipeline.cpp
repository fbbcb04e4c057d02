//===- Pipeline.cpp - The differentiate phase in order ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/Pipeline.h"
#include "passes/differentiate/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace dt;

namespace dt::differentiate {
#define GEN_PASS_REGISTRATION
#include "passes/differentiate/Passes.h.inc"
} // namespace dt::differentiate

void dt::registerDifferentiatePasses() {
  differentiate::registerDifferentiatePasses();
}

void dt::buildDifferentiatePipeline(OpPassManager &pm) {
  pm.addPass(differentiate::createMarkWanted());
  OpPassManager &modules = pm.nest<dist::ModuleOp>();
  // One read a parameter: its gradients then come together.
  modules.addNestedPass<func::FuncOp>(createCSEPass());
  modules.addPass(differentiate::createDifferentiate());
  modules.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  modules.addNestedPass<func::FuncOp>(createCSEPass());
  modules.addPass(differentiate::createMarkUntouched());
  pm.addPass(differentiate::createVerifyDifferentiated());
}
