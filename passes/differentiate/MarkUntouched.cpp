//===- MarkUntouched.cpp - Parameters without a gradient --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/Passes.h"

using namespace mlir;

namespace dt::differentiate {
#define GEN_PASS_DEF_MARKUNTOUCHED
#include "passes/differentiate/Passes.h.inc"
} // namespace dt::differentiate

using namespace dt;

namespace {
struct MarkUntouchedPass
    : differentiate::impl::MarkUntouchedBase<MarkUntouchedPass> {
  void runOnOperation() override {
    llvm::DenseSet<StringRef> touched;
    getOperation().walk(
        [&](nn::AccumulateOp op) { touched.insert(op.getParameter()); });
    for (auto parameter : getOperation().getOps<nn::ParameterOp>()) {
      parameter->removeAttr(nn::kNoGradientAttr);
      if (parameter.getTrainable() && !touched.contains(parameter.getSymName()))
        parameter->setAttr(nn::kNoGradientAttr, UnitAttr::get(&getContext()));
    }
  }
};
} // namespace
