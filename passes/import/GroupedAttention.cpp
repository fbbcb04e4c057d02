//===- GroupedAttention.cpp - Heads that share keys, written out -*- C++ -*-==//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Scores.h"

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace {

/// Of scores [b, k, g, t, s].
struct Sizes {
  nn::DimExpr b, k, g, t, s;

  explicit Sizes(Value scores) {
    nn::Shape shape = nn::getShape(scores);
    b = shape[0], k = shape[1], g = shape[2], t = shape[3], s = shape[4];
  }
  nn::DimExpr heads() const { return k * g; }
};

/// A product whose left operand has an axis for groups, of its own or in one
/// with the queries, and whose right one is the same for a group.
struct GroupedProduct {
  Value left, right; ///< [b, k, g, t, x] or [b, k, g * t, x]; [b, k, y, x]
  bool transA, transB;
};

std::optional<GroupedProduct> matchProduct(nn::MatmulOp op, const Sizes &n) {
  if (!op)
    return std::nullopt;
  nn::Shape a = nn::getShape(op.getLhs()), b = nn::getShape(op.getRhs());
  bool apart = a.size() == 5;
  if (op.getTransA() || a.size() != b.size() || (a.size() != 4 && !apart) ||
      a[0] != n.b || a[1] != n.k || b[0] != n.b || b[1] != n.k)
    return std::nullopt;
  if (apart ? a[2] != n.g || a[3] != n.t || b[2] != nn::DimExpr(1)
            : a[2] != n.g * n.t)
    return std::nullopt;
  return GroupedProduct{op.getLhs(), op.getRhs(), op.getTransA(),
                        op.getTransB()};
}

Value reshape(PatternRewriter &rewriter, Location loc, Value v,
              const nn::Shape &shape) {
  return nn::ReshapeOp::create(
      rewriter, loc, nn::makeTensorType(shape, getElementTypeOrSelf(v)), v);
}

/// [b, h, t, d] -> [b, t, h, d].
Value headsInside(PatternRewriter &rewriter, Location loc, Value v) {
  constexpr int64_t kSwap[] = {0, 2, 1, 3};
  return nn::TransposeOp::create(rewriter, loc, v, kSwap);
}

/// Keys as [b, k, s, d] of a product with [b, k, (1,) d, s], values likewise.
Value toRows(PatternRewriter &rewriter, Location loc, Value v, bool turned) {
  nn::Shape shape = nn::getShape(v);
  if (shape.size() == 5) {
    shape.erase(shape.begin() + 2);
    v = reshape(rewriter, loc, v, shape);
  }
  return turned ? swapLast(rewriter, loc, v) : v;
}

LogicalResult raiseGrouped(nn::MatmulOp context, PatternRewriter &rewriter) {
  bool guarded = false;
  Value weights = context.getLhs();
  if (auto merged = weights.getDefiningOp<nn::ReshapeOp>())
    weights = merged.getInput();
  auto softmax = dropNanGuard(weights, guarded).getDefiningOp<nn::SoftmaxOp>();
  if (!softmax || nn::getRank(softmax) != 5 || softmax.getAxis() != 4)
    return failure();
  Sizes n(softmax);
  std::optional<Scores> scores = matchScores(softmax.getInput());
  if (!scores || !scores->mask.isUsable() || !scores->mask.isSameForHeads())
    return failure();
  Value made = scores->product;
  if (auto split = made.getDefiningOp<nn::ReshapeOp>())
    made = split.getInput();
  auto qk = matchProduct(made.getDefiningOp<nn::MatmulOp>(), n),
       pv = matchProduct(context, n);
  if (!qk || !pv)
    return failure();
  Location loc = context.getLoc();
  nn::DimExpr d = nn::getShape(qk->left).back();
  Value q = reshape(rewriter, loc, qk->left, {n.b, n.heads(), n.t, d}),
        k = toRows(rewriter, loc, qk->right, !qk->transB),
        v = toRows(rewriter, loc, pv->right, pv->transB);
  Value mask = scores->mask.build(rewriter, loc, 5, getElementTypeOrSelf(made));
  auto attention = nn::AttentionOp::create(
      rewriter, loc, headsInside(rewriter, loc, q),
      headsInside(rewriter, loc, k), headsInside(rewriter, loc, v), mask,
      Value(), Value(), APFloat(scores->scale), false,
      scores->mask.getEmptyRow(guarded), IntegerAttr(),
      scores->capAttr(rewriter), nn::StripesAttr(), nn::StripesAttr());
  rewriter.replaceOpWithNewOp<nn::ReshapeOp>(
      context, context.getType(),
      headsInside(rewriter, loc, attention.getResult()));
  return success();
}

} // namespace

void import::populateGroupedAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add(raiseGrouped);
}
