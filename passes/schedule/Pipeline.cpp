//===- Pipeline.cpp - The schedule phase ----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/Pipeline.h"
#include "passes/schedule/Passes.h"

void dt::buildSchedulePipeline(mlir::OpPassManager &pm) {
  pm.addPass(schedule::createSchedSolve());
}

void dt::registerSchedulePasses() { schedule::registerSchedulePasses(); }
