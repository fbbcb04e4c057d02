//===- CountCost.cpp - A pass plugin ----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An example of a pass that lives outside the compiler (docs/adding.md). It
// knows no operator: what it asks is a method of an interface, so operators of
// other plugins are counted too. The dialects are those of dt-opt, which
// exports its symbols; the plugin links nothing.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

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

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "ExampleCountCost", "0.1",
          [] { PassRegistration<CountCost>(); }};
}
