//===- ApplyAdapters.cpp - Thin products beside frozen ones -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// At the end of the phase: what is raised is the model as it was written, and
// all later phases see products like any other. The scale stands where the
// tensor is thin, forward and backward.
//
//===----------------------------------------------------------------------===//

#include "passes/import/Passes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

using namespace mlir;

namespace dt::import {
#define GEN_PASS_DEF_APPLYADAPTERS
#include "passes/import/Passes.h.inc"

namespace {

using Reads = llvm::DenseMap<StringAttr, SmallVector<nn::ReadOp>>;

/// x W^T + scale (x A^T) B^T behind a product of the adapter's base.
void addTo(nn::LinearOp product, nn::AdapterOp adapter,
           PatternRewriter &rewriter) {
  Location loc = product.getLoc();
  auto read = [&](FlatSymbolRefAttr name) -> Value {
    auto parameter = cast<nn::ParameterOp>(
        SymbolTable::lookupNearestSymbolFrom(adapter, name));
    return nn::ReadOp::create(rewriter, adapter.getLoc(),
                              parameter.getStoredType(), name);
  };
  rewriter.setInsertionPointAfter(product);
  Value thin = nn::LinearOp::create(rewriter, loc, product.getInput(),
                                    read(adapter.getDownAttr()), Value(),
                                    /*in_out=*/false);
  if (!adapter.getScale().isExactlyValue(1)) {
    auto type = RankedTensorType::get(
        {}, cast<RankedTensorType>(thin.getType()).getElementType());
    Value scale = nn::ConstantOp::create(
        rewriter, loc,
        DenseElementsAttr::get(
            type, FloatAttr::get(type.getElementType(),
                                 adapter.getScale().convertToDouble())
                      .getValue()));
    thin = nn::MulOp::create(rewriter, loc, thin, scale);
  }
  Value wide =
      nn::LinearOp::create(rewriter, loc, thin, read(adapter.getUpAttr()),
                           Value(), /*in_out=*/false);
  auto sum = nn::AddOp::create(rewriter, loc, product.getResult(), wide);
  rewriter.replaceAllUsesExcept(product.getResult(), sum.getResult(), sum);
}

struct ApplyAdapter : OpRewritePattern<nn::AdapterOp> {
  ApplyAdapter(MLIRContext *context, const Reads &reads)
      : OpRewritePattern(context), reads(reads) {}

  LogicalResult matchAndRewrite(nn::AdapterOp adapter,
                                PatternRewriter &rewriter) const override {
    SmallVector<nn::LinearOp> products;
    for (nn::ReadOp read : reads.lookup(adapter.getBaseAttr().getAttr()))
      for (OpOperand &use : read.getResult().getUses()) {
        auto product = dyn_cast<nn::LinearOp>(use.getOwner());
        if (!product || use.get() != product.getWeight() ||
            product.getInput() == use.get())
          return adapter.emitOpError("needs products of ")
                     << adapter.getBaseAttr() << ", which is used by "
                     << use.getOwner()->getName(),
                 failure();
        if (!products.empty() &&
            products.front().getInOut() != product.getInOut())
          return adapter.emitOpError("needs one orientation of ")
                     << adapter.getBaseAttr(),
                 failure();
        products.push_back(product);
      }
    if (products.empty())
      return adapter.emitOpError("needs a product of ")
                 << adapter.getBaseAttr() << ", which none reads",
             failure();
    for (nn::LinearOp product : products)
      addTo(product, adapter, rewriter);
    rewriter.eraseOp(adapter);
    return success();
  }

  const Reads &reads;
};

struct ApplyAdaptersPass : impl::ApplyAdaptersBase<ApplyAdaptersPass> {
  void runOnOperation() override {
    Reads reads;
    getOperation().walk([&](nn::ReadOp read) {
      reads[read.getParameterAttr().getAttr()].push_back(read);
    });
    RewritePatternSet patterns(&getContext());
    patterns.add<ApplyAdapter>(&getContext(), reads);
    walkAndApplyPatterns(getOperation(), std::move(patterns));
    // What could not be applied has said why.
    if (!getOperation().getBody().getOps<nn::AdapterOp>().empty())
      signalPassFailure();
  }
};

} // namespace
} // namespace dt::import
