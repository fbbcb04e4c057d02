//===- Pipeline.cpp - The import phase in order -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Pipeline.h"
#include "passes/import/Passes.h"

#include "dialects/dist/DistOps.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace dt;

namespace dt::import {
#define GEN_PASS_REGISTRATION
#include "passes/import/Passes.h.inc"
} // namespace dt::import

void dt::registerImportPasses() { import::registerImportPasses(); }

void dt::buildImportPipeline(OpPassManager &pm) {
  OpPassManager &functions = pm.nest<dist::ModuleOp>().nest<func::FuncOp>();
  // Identities and double transposes hide patterns; equal subexpressions must
  // be one value before a pattern asks whether two operands are the same.
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  functions.addPass(import::createRaiseElementwise());
  functions.addPass(import::createRaiseNorms());
  functions.addPass(import::createRaiseAttention());
  functions.addPass(import::createRaiseLosses());
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  pm.addPass(import::createVerifyImport());
}
