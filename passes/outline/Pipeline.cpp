//===- Pipeline.cpp - The outline phase  --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/outline/Pipeline.h"
#include "passes/outline/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace dt::outline {
#define GEN_PASS_REGISTRATION
#include "passes/outline/Passes.h.inc"
} // namespace dt::outline

void dt::registerOutlinePasses() { outline::registerOutlinePasses(); }

void dt::buildOutlinePipeline(OpPassManager &pm) {
  OpPassManager &modules = pm.nest<dt::dist::ModuleOp>();
  modules.addPass(outline::createOutlineLayers());
  modules.addNestedPass<func::FuncOp>(createCSEPass());
}
