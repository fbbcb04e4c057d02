//===- Pipeline.cpp - The stages phase  ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/stages/Pipeline.h"
#include "passes/stages/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace dt::stages {
#define GEN_PASS_REGISTRATION
#include "passes/stages/Passes.h.inc"
} // namespace dt::stages

void dt::registerStagesPasses() { stages::registerStagesPasses(); }

void dt::buildStagesPipeline(OpPassManager &pm) {
  pm.addPass(stages::createCutStages());
}
