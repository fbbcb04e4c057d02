//===- Differentiate.cpp - Gradients of marked functions --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/FunctionVjp.h"
#include "passes/differentiate/Passes.h"

using namespace mlir;

namespace dt::differentiate {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/differentiate/Passes.h.inc"
} // namespace dt::differentiate

using namespace dt;
using namespace dt::differentiate;

namespace {
struct DifferentiatePass
    : differentiate::impl::DifferentiateBase<DifferentiatePass> {
  void runOnOperation() override;
};
} // namespace

/// Module functions: @forward, and any other that carries marks.
static bool isModuleFunction(func::FuncOp function) {
  if (function.isExternal())
    return false;
  if (function.getName() == "forward")
    return true;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (function.getResultAttr(i, nn::kGradientsAttr))
      return true;
  return false;
}

void DifferentiatePass::runOnOperation() {
  Differentiator differentiator(getOperation());
  SmallVector<func::FuncOp> moduleFunctions;
  for (auto function : getOperation().getOps<func::FuncOp>())
    if (isModuleFunction(function))
      moduleFunctions.push_back(function);
  for (func::FuncOp function : moduleFunctions)
    if (failed(differentiator.differentiateModule(function)))
      return signalPassFailure();
  differentiator.cleanUp();
  getOperation().walk([](nn::StopGradientOp op) {
    op.replaceAllUsesWith(op.getInput());
    op.erase();
  });
  getOperation().walk([](nn::BalanceOp op) {
    op.replaceAllUsesWith(op.getInput());
    op.erase();
  });
}
