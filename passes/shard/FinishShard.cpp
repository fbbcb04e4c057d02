//===- FinishShard.cpp - Biases and saved tensors, cut ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Passes.h"
#include "passes/shard/SavedSlices.h"
#include "passes/shard/ShardProblem.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <map>

using namespace mlir;
using namespace dt;

namespace dt::shard {
#define GEN_PASS_DEF_FINISHSHARD
#include "passes/shard/Passes.h.inc"
} // namespace dt::shard

namespace {

template <typename OpT>
LogicalResult join(OpT product, Value bias, nn::AddOp add,
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

/// add(product, bias) -> product with a bias.
LogicalResult joinBias(nn::AddOp add, PatternRewriter &rewriter) {
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

/// A copy of the function that returns the first results only.
func::FuncOp cutResults(func::FuncOp function, unsigned count) {
  auto copy = function.clone();
  StringRef name = function.getName();
  name.consume_back(".fwd");
  copy.setName(name);
  auto ret = cast<func::ReturnOp>(copy.front().getTerminator());
  ret->setOperands(SmallVector<Value>(ret->getOperands().take_front(count)));
  SmallVector<DictionaryAttr> attributes;
  copy.getAllResultAttrs(attributes);
  attributes.resize(count, DictionaryAttr::get(function.getContext()));
  copy.setFunctionType(
      FunctionType::get(function.getContext(), function.getArgumentTypes(),
                        function.getResultTypes().take_front(count)));
  copy.setAllResultAttrs(attributes);
  return copy;
}

/// Calls of layers whose residuals nobody takes (PrepareShard made them).
void dropUnusedResults(dist::ModuleOp module) {
  SymbolTable symbols(module);
  std::map<std::pair<std::string, unsigned>, func::FuncOp> copies;
  SmallVector<func::CallOp> calls;
  module.walk([&](func::CallOp call) { calls.push_back(call); });
  for (func::CallOp call : calls) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    unsigned used = call.getNumResults();
    while (used > 0 && call.getResult(used - 1).use_empty())
      --used;
    dist::ForwardOp link = callee ? dist::getLink(callee) : dist::ForwardOp();
    if (!link || link.getForward() != callee.getName() || used == 0 ||
        used == call.getNumResults())
      continue;
    func::FuncOp &copy = copies[{callee.getName().str(), used}];
    if (!copy) {
      copy = cutResults(callee, used);
      symbols.insert(copy);
    }
    OpBuilder builder(call);
    auto shorter =
        func::CallOp::create(builder, call.getLoc(), copy, call.getOperands());
    for (unsigned i = 0; i < used; ++i)
      call.getResult(i).replaceAllUsesWith(shorter.getResult(i));
    call.erase();
  }
}

struct FinishShardPass : shard::impl::FinishShardBase<FinishShardPass> {
  void runOnOperation() override {
    if (!shard::isSharded(getOperation()))
      return;
    dropUnusedResults(getOperation());
    RewritePatternSet patterns(&getContext());
    patterns.add(joinBias);
    for (Dialect *dialect : getContext().getLoadedDialects())
      dialect->getCanonicalizationPatterns(patterns);
    for (RegisteredOperationName op : getContext().getRegisteredOperations())
      if (isa<nn::NNDialect, dist::DistDialect>(op.getDialect()) ||
          op.hasInterface<nn::ShardingOpInterface>())
        op.getCanonicalizationPatterns(patterns, &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    shard::saveSlices(getOperation());
  }
};

} // namespace
