//===- CountCost.cpp - A pass -----------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Writes what functions cost. It knows no operator: what it asks is a method of
// an interface, so operators of other plugins are counted too.
//
//===----------------------------------------------------------------------===//

#include "Example.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace {

struct CountCost : PassWrapper<CountCost, OperationPass<dt::dist::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CountCost)

  CountCost() = default;
  CountCost(const CountCost &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "example-count-cost"; }
  StringRef getDescription() const override {
    return "Write what each function costs beside it";
  }

  void runOnOperation() override {
    Builder builder(&getContext());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      dt::nn::DimExpr flops, bytes;
      function.walk([&](dt::nn::CostOpInterface op) {
        flops = flops + op.getFlops();
        bytes = bytes + op.getBytes();
      });
      function->setAttr("example.flops", builder.getStringAttr(flops.str()));
      if (withBytes)
        function->setAttr("example.bytes", builder.getStringAttr(bytes.str()));
    }
  }

  Option<bool> withBytes{*this, "bytes", llvm::cl::desc("Bytes moved, too"),
                         llvm::cl::init(false)};
};

} // namespace

void example::addCountCost(dt::Plugin &plugin) { plugin.addPass<CountCost>(); }
