//===- VerifyPrecision.cpp - What the next phases rely on -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/precision/Passes.h"

#include "dialects/nn/NNInference.h"

using namespace mlir;

namespace dt::precision {
#define GEN_PASS_DEF_VERIFYPRECISION
#include "passes/precision/Passes.h.inc"

namespace {

/// Floats that the rule lets be narrow are all narrow, or none is.
LogicalResult verifyComputeHeavy(Operation *op) {
  nn::PrecisionRule rule =
      cast<nn::PrecisionOpInterface>(op).getPrecisionRule();
  Type element;
  for (auto [v, may] : llvm::zip(op->getOperands(), rule.operands)) {
    if (!may)
      continue;
    if (element && element != nn::elementOf(v))
      return op->emitOpError()
             << "takes " << element << " and " << nn::elementOf(v)
             << "; expected one element type";
    element = nn::elementOf(v);
  }
  return success();
}

LogicalResult verifyElementwise(Operation *op) {
  for (Value v : op->getOperands())
    if (nn::isNarrow(v))
      return op->emitOpError()
             << "computes with " << nn::elementOf(v) << "; expected float32";
  return success();
}

struct VerifyPrecision : impl::VerifyPrecisionBase<VerifyPrecision> {
  void runOnOperation() override {
    WalkResult walk = getOperation().walk([](Operation *op) {
      LogicalResult result = success();
      if (nn::isComputeHeavy(op))
        result = verifyComputeHeavy(op);
      else if (isa<nn::ScalarOpInterface>(op) && !isa<nn::CastOp>(op))
        result = verifyElementwise(op);
      return failed(result) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace dt::precision
