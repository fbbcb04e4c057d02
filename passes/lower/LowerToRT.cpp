//===- LowerToRT.cpp - Functions over tensors to functions over buffers ---===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/FunctionLowering.h"
#include "passes/lower/Passes.h"

#include "mlir/IR/Iterators.h"

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_LOWERTORT
#include "passes/lower/Passes.h.inc"

namespace {

struct LowerToRT : impl::LowerToRTBase<LowerToRT> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> functions;
    getOperation().walk([&](func::FuncOp f) { functions.push_back(f); });
    for (func::FuncOp f : functions) {
      if (f.isExternal()) {
        f.emitOpError("cannot be lowered: it has no body");
        return signalPassFailure();
      }
      if (failed(FunctionLowering(f).run()))
        return signalPassFailure();
    }
    getOperation().walk([&](rt::FuncOp f) { removeUnused(f); });
  }

  /// Views and addresses that turned out not to be needed.
  static void removeUnused(rt::FuncOp function) {
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
      if (isOpTriviallyDead(&op) || (isa<rt::AllocOp>(op) && op.use_empty()))
        op.erase();
    function.walk([](rt::KernelOp kernel) { removeUnusedScalars(kernel); });
  }

  static void removeUnusedScalars(rt::KernelOp kernel) {
    kernel.getBody().walk<WalkOrder::PostOrder, ReverseIterator>(
        [](Operation *op) {
          if (isOpTriviallyDead(op) || (isa<rt::LoadOp>(op) && op->use_empty()))
            op->erase();
        });
  }
};

} // namespace

void registerLoweringModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    attachElementwiseLowerings(context);
    attachExpertLowerings(context);
    attachIndexingLowerings(context);
    attachMovementLowerings(context);
    attachNormLowerings(context);
    attachPoolLowerings(context);
    attachProductLowerings(context);
    attachReduceLowerings(context);
    attachSoftmaxLowerings(context);
    attachTopKLowerings(context);
  });
  registry.addExtension(+[](MLIRContext *context, dist::DistDialect *) {
    attachCollectiveLowerings(context);
  });
}

} // namespace dt::lower
