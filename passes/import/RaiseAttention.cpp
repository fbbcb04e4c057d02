//===- RaiseAttention.cpp - Recover attention -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The core match turns `matmul - softmax - matmul` over [b, h, t, d] into
// nn.attention over [b, t, h, d] with transposes around it, which cancel
// against those that exporters write. Everything else is one pattern a
// neighbour.
//
//===----------------------------------------------------------------------===//

#include "passes/import/MaskNumbers.h"
#include "passes/import/MaskRules.h"
#include "passes/import/Masks.h"
#include "passes/import/Match.h"
#include "passes/import/Passes.h"
#include "passes/import/Rotary.h"
#include "passes/import/Scores.h"
#include "passes/import/SharedHeads.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace dt::import {
#define GEN_PASS_DEF_RAISEATTENTION
#include "passes/import/Passes.h.inc"
} // namespace dt::import

namespace {

constexpr int64_t kSwapHeads[] = {0, 2, 1, 3};

/// transpose(x * c) -> transpose(x) * c: the number travels towards attention.
LogicalResult splatThroughTranspose(nn::TransposeOp transpose,
                                    PatternRewriter &rewriter) {
  auto mul = transpose.getInput().getDefiningOp<nn::MulOp>();
  auto scaled = matchWithSplat<nn::MulOp>(transpose.getInput());
  if (!scaled || !mul->hasOneUse() ||
      !isa<FloatType>(mul.getType().getElementType()) ||
      scaled->first.getType() != mul.getType())
    return failure();
  Value moved = nn::TransposeOp::create(
      rewriter, transpose.getLoc(), scaled->first, transpose.getPermutation());
  Type element = mul.getType().getElementType();
  auto number =
      DenseElementsAttr::get(RankedTensorType::get({}, element),
                             rewriter.getFloatAttr(element, scaled->second));
  Value c = nn::ConstantOp::create(rewriter, transpose.getLoc(),
                                   number.getType(), number);
  rewriter.replaceOpWithNewOp<nn::MulOp>(transpose, moved, c);
  return success();
}

/// The guard around a softmax that stays one: where(isnan(p), 0, p). The
/// gradient of a row of not-a-number is none behind it either, so that a row of
/// -inf does not go through the softmax.
LogicalResult guardRows(nn::WhereOp where, PatternRewriter &rewriter) {
  bool guarded = false;
  auto softmax = dropNanGuard(where, guarded).getDefiningOp<nn::SoftmaxOp>();
  if (!guarded || !softmax)
    return failure();
  Location loc = where.getLoc();
  Value x = softmax.getInput(), zero = where.getLhs();
  Value top = nn::ReduceOp::create(rewriter, loc, nn::ReduceKind::max, x,
                                   static_cast<int64_t>(softmax.getAxis()),
                                   /*keepdims=*/true);
  Type element = getElementTypeOrSelf(x);
  auto least = DenseElementsAttr::get(
      RankedTensorType::get({}, element),
      rewriter.getFloatAttr(element, -std::numeric_limits<double>::infinity()));
  Value empty = nn::CmpOp::create(
      rewriter, loc, nn::Compare::eq, top,
      nn::ConstantOp::create(rewriter, loc, least.getType(), least));
  Value some = nn::WhereOp::create(rewriter, loc, empty, zero, x);
  Value p = nn::SoftmaxOp::create(rewriter, loc, some, softmax.getAxis());
  Value none = nn::OrOp::create(rewriter, loc, empty,
                                nn::IsNanOp::create(rewriter, loc, p));
  rewriter.replaceOpWithNewOp<nn::WhereOp>(where, none, zero, p);
  return success();
}

/// [b, h, t, d] -> [b, t, h, d]; [n, t, d] -> [n, t, 1, d].
Value toHeadsInside(PatternRewriter &rewriter, Location loc, Value v) {
  nn::Shape s = nn::getShape(v);
  if (s.size() == 4)
    return nn::TransposeOp::create(rewriter, loc, v, kSwapHeads);
  auto type = nn::makeTensorType({s[0], s[1], nn::DimExpr(1), s[2]},
                                 getElementTypeOrSelf(v));
  return nn::ReshapeOp::create(rewriter, loc, type, v);
}

/// Leading dims of both operands are equal (nothing is broadcast).
bool sameBatch(nn::MatmulOp op) {
  nn::Shape a = nn::getShape(op.getLhs()), b = nn::getShape(op.getRhs());
  return a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
}

LogicalResult raiseAttentionCore(nn::MatmulOp context,
                                 PatternRewriter &rewriter) {
  bool guarded = false;
  auto softmax =
      dropNanGuard(context.getLhs(), guarded).getDefiningOp<nn::SoftmaxOp>();
  int64_t rank = context.getType().getRank();
  if (!softmax || context.getTransA() || (rank != 3 && rank != 4) ||
      static_cast<int64_t>(softmax.getAxis()) != rank - 1)
    return failure();
  std::optional<Scores> scores = matchScores(softmax.getInput());
  if (!scores || !scores->mask.isUsable())
    return failure();
  auto product = scores->product.getDefiningOp<nn::MatmulOp>();
  Location loc = context.getLoc();
  if (!product || !sameBatch(product) || !sameBatch(context))
    return failure();
  Value q = product.getTransA() ? swapLast(rewriter, loc, product.getLhs())
                                : product.getLhs();
  Value k = product.getTransB() ? product.getRhs()
                                : swapLast(rewriter, loc, product.getRhs());
  Value v = context.getTransB() ? swapLast(rewriter, loc, context.getRhs())
                                : context.getRhs();
  Value mask =
      scores->mask.build(rewriter, loc, rank, getElementTypeOrSelf(product));
  nn::EmptyRow emptyRow = scores->mask.getEmptyRow(guarded);
  auto attention = nn::AttentionOp::create(
      rewriter, loc, toHeadsInside(rewriter, loc, q),
      toHeadsInside(rewriter, loc, k), toHeadsInside(rewriter, loc, v), mask,
      Value(), Value(), APFloat(scores->scale), false, emptyRow, IntegerAttr(),
      scores->capAttr(rewriter), nn::StripesAttr(), nn::StripesAttr());
  Value out = attention.getResult();
  if (rank == 4)
    rewriter.replaceOpWithNewOp<nn::TransposeOp>(context, out, kSwapHeads);
  else
    rewriter.replaceOpWithNewOp<nn::ReshapeOp>(context, context.getType(), out);
  return success();
}

/// attention(q * c, k) -> scale * c, for query and key.
LogicalResult absorbScale(nn::AttentionOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Value operand = op->getOperand(i);
    auto scaled = matchWithSplat<nn::MulOp>(operand);
    if (!scaled || scaled->first.getType() != operand.getType())
      continue;
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperand(i, scaled->first);
      op.setScale(APFloat(op.getScale().convertToDouble() * scaled->second));
    });
    return success();
  }
  return failure();
}

/// A file in 16 bits has 1 / sqrt(d) rounded, as one number or, before query
/// and key, as its root twice.
LogicalResult unroundScale(nn::AttentionOp op, PatternRewriter &rewriter) {
  std::optional<int64_t> d = nn::getShape(op.getQuery()).back().asConstant();
  double scale = op.getScale().convertToDouble();
  double wanted = d && *d > 0 ? 1 / std::sqrt(double(*d)) : scale;
  if (!hasNarrowNumbers(op) || scale == wanted ||
      std::abs(scale - wanted) > 2 * kNarrowRounding * wanted)
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.setScale(APFloat(wanted)); });
  return success();
}

struct RaiseAttentionPass
    : import::impl::RaiseAttentionBase<RaiseAttentionPass> {
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet masks(context); // before an attention takes them in
    populateMaskNumberPatterns(masks);
    if (failed(applyPatternsGreedily(getOperation(), std::move(masks))))
      return signalPassFailure();
    RewritePatternSet patterns(context);
    patterns.add(splatThroughTranspose)
        .add(raiseAttentionCore)
        .add(absorbScale)
        .add(unroundScale)
        .add(absorbMaskRules);
    populateRotaryPatterns(patterns);
    populateSharedHeadsPatterns(patterns);
    populateGroupedAttentionPatterns(patterns);
    for (StringRef name : {nn::TransposeOp::getOperationName(),
                           nn::ReshapeOp::getOperationName()})
      RegisteredOperationName::lookup(name, context)
          ->getCanonicalizationPatterns(patterns, context);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    RewritePatternSet guards(context); // that no attention has taken in
    guards.add(guardRows);
    if (failed(applyPatternsGreedily(getOperation(), std::move(guards))))
      signalPassFailure();
  }
};
} // namespace
