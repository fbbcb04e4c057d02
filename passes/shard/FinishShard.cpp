//===- FinishShard.cpp - Biases go back into products -------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Passes.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace dt;

namespace dt::shard {
#define GEN_PASS_DEF_FINISHSHARD
#include "passes/shard/Passes.h.inc"
} // namespace dt::shard

namespace {

/// add(product, bias) -> product with a bias.
struct JoinBias : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::AddOp add,
                                PatternRewriter &rewriter) const override {
    Operation *product = add.getLhs().getDefiningOp();
    Value bias = add.getRhs();
    if (!product || !product->hasOneUse())
      return failure();
    if (auto linear = dyn_cast<nn::LinearOp>(product))
      return join(linear, bias, add, rewriter);
    auto conv = dyn_cast<nn::ConvOp>(product);
    auto column = bias.getDefiningOp<nn::ReshapeOp>();
    return conv && column ? join(conv, column.getInput(), add, rewriter)
                          : failure();
  }

private:
  template <typename OpT>
  static LogicalResult join(OpT product, Value bias, nn::AddOp add,
                            PatternRewriter &rewriter) {
    auto type = cast<RankedTensorType>(bias.getType());
    if (product.getBias() || type.getRank() != 1)
      return failure();
    constexpr bool isConv = std::is_same_v<OpT, nn::ConvOp>;
    auto out = nn::getShape(product.getResult());
    if (nn::getShape(bias)[0] != (isConv ? out[1] : out.back()) ||
        add.getType() != product.getResult().getType())
      return failure();
    // The bias may come after the product.
    rewriter.modifyOpInPlace(product, [&] {
      product->moveBefore(add);
      product.getBiasMutable().assign(bias);
    });
    rewriter.replaceOp(add, product.getResult());
    return success();
  }
};

struct FinishShardPass : shard::impl::FinishShardBase<FinishShardPass> {
  void runOnOperation() override {
    if (shard::getTensorParallel(getOperation()) <= 1)
      return;
    RewritePatternSet patterns(&getContext());
    patterns.add<JoinBias>(&getContext());
    for (Dialect *dialect : getContext().getLoadedDialects())
      dialect->getCanonicalizationPatterns(patterns);
    for (RegisteredOperationName op : getContext().getRegisteredOperations())
      if (isa<nn::NNDialect, dist::DistDialect>(op.getDialect()))
        op.getCanonicalizationPatterns(patterns, &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
