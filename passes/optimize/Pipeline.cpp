//===- Pipeline.cpp - The optimize phase ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/optimize/Pipeline.h"
#include "passes/optimize/Passes.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;

void dt::buildOptimizePipeline(OpPassManager &pm) {
  // What differentiation left unused, and values that it made twice.
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(optimize::createJoinPads());
  pm.addPass(optimize::createFuseElementwise());
  pm.addPass(createCSEPass());
  pm.addPass(optimize::createVerifyOptimized());
}

void dt::registerOptimizePasses() { optimize::registerOptimizePasses(); }
