//===- RaiseLosses.cpp - Recover cross-entropy ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Match.h"
#include "passes/import/Passes.h"

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace dt::import {
#define GEN_PASS_DEF_RAISELOSSES
#include "passes/import/Passes.h.inc"
} // namespace dt::import

namespace {

Value throughReshapes(Value v) {
  while (auto reshape = v.getDefiningOp<nn::ReshapeOp>())
    v = reshape.getInput();
  return v;
}

/// The ignored label when `v` is 1 where labels != ignore and 0 elsewhere.
std::optional<double> matchValid(Value v, Value labels) {
  v = throughReshapes(v);
  if (auto c = v.getDefiningOp<nn::CastOp>())
    v = throughReshapes(c.getInput());
  bool negated = false;
  if (auto n = v.getDefiningOp<nn::NotOp>()) {
    negated = true;
    v = n.getInput();
  }
  auto cmp = v.getDefiningOp<nn::CmpOp>();
  auto wanted = negated ? nn::Compare::eq : nn::Compare::ne;
  if (!cmp || cmp.getPredicate() != wanted ||
      throughReshapes(cmp.getLhs()) != labels)
    return std::nullopt;
  return getSplat(cmp.getRhs());
}

/// gather_elements(log_softmax(x), clamp(labels)) * (labels != ignore) ->
/// -cross_entropy. The clamp may be max(labels, 0) or a where(valid, labels,
/// 0).
struct CrossEntropy : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp mul,
                                PatternRewriter &rewriter) const override {
    auto pair = matchEither<nn::MulOp>(mul, [](Value v) {
      return throughReshapes(v).getDefiningOp<nn::GatherElementsOp>() !=
             nullptr;
    });
    if (!pair)
      return failure();
    auto gather =
        throughReshapes(pair->first).getDefiningOp<nn::GatherElementsOp>();
    auto logs = gather.getInput().getDefiningOp<nn::LogSoftmaxOp>();
    int64_t last = gather.getInput().getType().getRank() - 1;
    if (!logs || static_cast<int64_t>(gather.getAxis()) != last ||
        static_cast<int64_t>(logs.getAxis()) != last)
      return failure();
    Value index = throughReshapes(gather.getIndices()), labels;
    if (auto clamp = matchWithSplat<nn::MaxOp>(index))
      labels = clamp->second == 0 ? throughReshapes(clamp->first) : Value();
    else if (auto where = index.getDefiningOp<nn::WhereOp>())
      labels = getSplat(where.getRhs()) == 0.0 ? throughReshapes(where.getLhs())
                                               : Value();
    std::optional<double> ignore =
        labels ? matchValid(pair->second, labels) : std::nullopt;
    nn::Shape rows = nn::getShape(logs.getInput());
    rows.pop_back();
    // A label below zero other than the ignored one would be clamped by the
    // graph and ignored by us: both are outside what the loss is defined for.
    if (!ignore || *ignore >= 0 || nn::getShape(labels) != rows ||
        nn::getNumElements(nn::getShape(mul.getResult())) !=
            nn::getNumElements(rows))
      return failure();
    Value loss =
        nn::CrossEntropyOp::create(rewriter, mul.getLoc(), logs.getInput(),
                                   labels, static_cast<int64_t>(*ignore));
    Value negative = nn::NegOp::create(rewriter, mul.getLoc(), loss);
    rewriter.replaceOpWithNewOp<nn::ReshapeOp>(mul, mul.getType(), negative);
    return success();
  }
};

struct RaiseLossesPass : import::impl::RaiseLossesBase<RaiseLossesPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<CrossEntropy>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
