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
#define GEN_PASS_DEF_VERIFYIMPORT
#define GEN_PASS_REGISTRATION
#include "passes/import/Passes.h.inc"
} // namespace dt::import

namespace {
struct VerifyImportPass : import::impl::VerifyImportBase<VerifyImportPass> {
  void runOnOperation() override {
    WalkResult result = getOperation()->walk([](Operation *op) -> WalkResult {
      for (Type type : op->getResultTypes()) {
        auto tensor = dyn_cast<RankedTensorType>(type);
        if (tensor && !tensor.hasStaticShape() &&
            !isa_and_nonnull<nn::DimsAttr>(tensor.getEncoding())) {
          op->emitOpError("has a '?' dim without an expression after import");
          return WalkResult::interrupt();
        }
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace

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

void dt::buildOutlinePipeline(OpPassManager &pm) {
  OpPassManager &modules = pm.nest<dist::ModuleOp>();
  modules.addPass(import::createOutlineLayers());
  modules.addNestedPass<func::FuncOp>(createCSEPass());
}
