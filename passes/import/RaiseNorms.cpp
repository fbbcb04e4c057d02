//===- RaiseNorms.cpp - Recover RMS, layer and group norm -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Match.h"
#include "passes/import/Passes.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace dt::import {
#define GEN_PASS_DEF_RAISENORMS
#include "passes/import/Passes.h.inc"
} // namespace dt::import

namespace {

/// eps when `v` = mean over the last axis of x^2, plus a number; sets x.
std::optional<double> matchMeanSquarePlus(Value v, Value &x) {
  auto sum = matchWithSplat<nn::AddOp>(v);
  if (!sum)
    return std::nullopt;
  Value squares = matchMeanOfLast(sum->first);
  x = squares ? matchSquare(squares) : Value();
  return x ? std::optional<double>(sum->second) : std::nullopt;
}

/// The value whose reciprocal root is multiplied with (or which divides)
/// `other`: x * rsqrt(s), x / sqrt(s).
std::optional<std::pair<Value, Value>> matchTimesRsqrt(Operation *op) {
  if (isa<nn::MulOp>(op)) {
    auto pair = matchEither<nn::MulOp>(op->getResult(0), [](Value v) {
      return static_cast<bool>(matchRsqrt(v));
    });
    if (!pair)
      return std::nullopt;
    return std::make_pair(pair->second, matchRsqrt(pair->first));
  }
  auto div = dyn_cast<nn::DivOp>(op);
  auto root = div ? div.getRhs().getDefiningOp<nn::SqrtOp>() : nn::SqrtOp();
  if (!root)
    return std::nullopt;
  return std::make_pair(Value(div.getLhs()), Value(root.getInput()));
}

/// x * rsqrt(mean(x^2) + eps) -> rms_norm(x);
/// (y - mean(y)) * rsqrt(mean((y - mean(y))^2) + eps) -> layer_norm(y).
template <typename Op>
LogicalResult raisePlainNorm(Op op, PatternRewriter &rewriter) {
  auto parts = matchTimesRsqrt(op);
  Value x;
  std::optional<double> eps =
      parts ? matchMeanSquarePlus(parts->second, x) : std::nullopt;
  if (!eps || x != parts->first || x.getType() != op.getType())
    return failure();
  auto centred = x.getDefiningOp<nn::SubOp>();
  if (centred && matchMeanOfLast(centred.getRhs()) == centred.getLhs())
    rewriter.replaceOpWithNewOp<nn::LayerNormOp>(op, centred.getLhs(), Value(),
                                                 Value(), APFloat(*eps), 1);
  else
    rewriter.replaceOpWithNewOp<nn::RmsNormOp>(op, x, Value(), APFloat(*eps),
                                               1);
  return success();
}

/// norm(x) * w -> norm(x, w), where w has the shape of the last axes.
template <typename Norm>
LogicalResult scaleIntoNorm(nn::MulOp mul, PatternRewriter &rewriter) {
  auto pair = matchEither<nn::MulOp>(mul, [](Value v) {
    auto norm = v.getDefiningOp<Norm>();
    if (!norm || norm.getScale() || !norm->hasOneUse())
      return false;
    if constexpr (std::is_same_v<Norm, nn::LayerNormOp>)
      return !norm.getBias();
    return true;
  });
  if (!pair)
    return failure();
  auto norm = pair->first.template getDefiningOp<Norm>();
  nn::Shape x = nn::getShape(norm.getInput());
  if (nn::getShape(pair->second) !=
      nn::Shape(x.end() - norm.getAxes(), x.end()))
    return failure();
  if constexpr (std::is_same_v<Norm, nn::LayerNormOp>)
    rewriter.replaceOpWithNewOp<Norm>(mul, norm.getInput(), pair->second,
                                      Value(), norm.getEps(), norm.getAxes());
  else
    rewriter.replaceOpWithNewOp<Norm>(mul, norm.getInput(), pair->second,
                                      norm.getEps(), norm.getAxes());
  return success();
}

/// layer_norm(x, w) + b -> layer_norm(x, w, b)
LogicalResult biasIntoLayerNorm(nn::AddOp add, PatternRewriter &rewriter) {
  auto pair = matchEither<nn::AddOp>(add, [](Value v) {
    auto norm = v.getDefiningOp<nn::LayerNormOp>();
    return norm && norm.getScale() && !norm.getBias() && norm->hasOneUse();
  });
  if (!pair)
    return failure();
  auto norm = pair->first.getDefiningOp<nn::LayerNormOp>();
  if (pair->second.getType() != norm.getScale().getType())
    return failure();
  rewriter.replaceOpWithNewOp<nn::LayerNormOp>(add, norm.getInput(),
                                               norm.getScale(), pair->second,
                                               norm.getEps(), norm.getAxes());
  return success();
}

/// reshape(group_norm(reshape(x to [n, g, rest]), groups = g)) back to x's
/// shape: a group norm of x. Exporters write it around InstanceNormalization.
LogicalResult groupNormOfReshape(nn::ReshapeOp outer,
                                 PatternRewriter &rewriter) {
  auto norm = outer.getInput().getDefiningOp<nn::GroupNormOp>();
  auto inner =
      norm ? norm.getInput().getDefiningOp<nn::ReshapeOp>() : nn::ReshapeOp();
  if (!inner || inner.getInput().getType() != outer.getType())
    return failure();
  bool trivial = (!norm.getScale() || isSplat(norm.getScale(), 1.0)) &&
                 (!norm.getBias() || getSplat(norm.getBias()) == 0.0);
  nn::Shape x = nn::getShape(inner.getInput()),
            grouped = nn::getShape(norm.getInput());
  nn::DimExpr groups(static_cast<int64_t>(norm.getGroups()));
  if (!trivial || x.size() < 3 || grouped[1] != groups || x[0] != grouped[0] ||
      !x[1].exactDiv(groups))
    return failure();
  rewriter.replaceOpWithNewOp<nn::GroupNormOp>(outer, inner.getInput(), Value(),
                                               Value(), norm.getEps(),
                                               norm.getGroups());
  return success();
}

/// `v` as a per-channel value [c] of a tensor of rank `rank`, when its shape is
/// [c, 1, ...] or [1, c, 1, ...]; null otherwise.
Value perChannel(Value v, size_t rank, PatternRewriter &rewriter) {
  nn::Shape shape = nn::getShape(v);
  size_t channel = rank - 1 <= shape.size() ? shape.size() - (rank - 1) : 0;
  if (shape.size() + 1 < rank || shape.size() > rank)
    return {};
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != channel && shape[i] != nn::DimExpr(1))
      return {};
  auto type = nn::makeTensorType({shape[channel]}, getElementTypeOrSelf(v));
  if (auto reshape = v.getDefiningOp<nn::ReshapeOp>())
    if (reshape.getInput().getType() == type)
      return reshape.getInput();
  return nn::ReshapeOp::create(rewriter, v.getLoc(), type, v);
}

/// group_norm(x) * w[c,1,1] -> with scale; then + b[c,1,1] -> with bias.
template <typename Op>
LogicalResult affineIntoGroupNorm(Op op, PatternRewriter &rewriter) {
  constexpr bool scale = std::is_same_v<Op, nn::MulOp>;
  auto pair = matchEither<Op>(op, [&](Value v) {
    auto norm = v.template getDefiningOp<nn::GroupNormOp>();
    return norm && norm->hasOneUse() && !norm.getBias() &&
           v.getType() == op.getType() &&
           (scale ? !norm.getScale() : static_cast<bool>(norm.getScale()));
  });
  if (!pair)
    return failure();
  auto norm = pair->first.template getDefiningOp<nn::GroupNormOp>();
  nn::Shape x = nn::getShape(norm.getInput());
  nn::Shape factor = nn::getShape(pair->second);
  if (factor.size() + 1 < x.size() || nn::getNumElements(factor) != x[1])
    return failure();
  Value channel = perChannel(pair->second, x.size(), rewriter);
  if (!channel)
    return failure();
  rewriter.replaceOpWithNewOp<nn::GroupNormOp>(
      op, norm.getInput(), scale ? channel : Value(norm.getScale()),
      scale ? Value() : channel, norm.getEps(), norm.getGroups());
  return success();
}

//===----------------------------------------------------------------------===//
// Roots of sums that are norms
//===----------------------------------------------------------------------===//

/// f(v) where v is not 0, and 0 where it is, without the infinite slope that f
/// has there.
Value guarded(PatternRewriter &rewriter, Value v,
              function_ref<Value(Value)> f) {
  Location loc = v.getLoc();
  Type element = getElementTypeOrSelf(v);
  auto number = [&](double x) -> Value {
    auto value = DenseElementsAttr::get(RankedTensorType::get({}, element),
                                        rewriter.getFloatAttr(element, x));
    return nn::ConstantOp::create(rewriter, loc, value.getType(), value);
  };
  Value zero = number(0);
  Value none =
      nn::CmpOp::create(rewriter, loc, nn::Compare::eq, v, zero).getResult();
  Value some = nn::WhereOp::create(rewriter, loc, none, number(1), v);
  return nn::WhereOp::create(rewriter, loc, none, zero, f(some));
}

/// What `v` is a mean or sum of.
Value matchSum(Value v, ArrayRef<nn::ReduceKind> kinds) {
  auto reduce = v.getDefiningOp<nn::ReduceOp>();
  return reduce && llvm::is_contained(kinds, reduce.getKind())
             ? Value(reduce.getInput())
             : Value();
}

/// Whether `v` is a mean of (x - mean(x))^2, times a number.
bool isVariance(Value v) {
  using K = nn::ReduceKind;
  for (auto scaled = matchWithSplat<nn::MulOp>(v); scaled;
       scaled = matchWithSplat<nn::MulOp>(v))
    v = scaled->first;
  if (auto scaled = matchWithSplat<nn::DivOp>(v))
    v = scaled->first;
  Value squares = matchSum(v, {K::mean, K::sum});
  Value centred = squares ? matchSquare(squares) : Value();
  auto sub = centred ? centred.getDefiningOp<nn::SubOp>() : nn::SubOp();
  return sub && matchSum(sub.getRhs(), {K::mean}) == sub.getLhs();
}

/// sqrt(variance): PyTorch's std of equal elements has no gradient.
LogicalResult guardDeviation(nn::SqrtOp root, PatternRewriter &rewriter) {
  if (!isVariance(root.getInput()))
    return failure();
  Value y = guarded(rewriter, root.getInput(), [&](Value v) -> Value {
    return nn::SqrtOp::create(rewriter, root.getLoc(), v);
  });
  rewriter.replaceOp(root, y);
  return success();
}

/// (sum |x|^p)^(1/p): PyTorch's norm of zeros has no gradient, nor has a zero
/// among others, whatever p is.
LogicalResult guardNorm(nn::PowOp root, PatternRewriter &rewriter) {
  Value sum = root.getLhs();
  Value powers = matchSum(sum, {nn::ReduceKind::sum});
  auto power = powers ? powers.getDefiningOp<nn::PowOp>() : nn::PowOp();
  if (!power || !power.getLhs().getDefiningOp<nn::AbsOp>())
    return failure();
  std::optional<double> p = getSplat(power.getRhs()),
                        q = getSplat(root.getRhs());
  if (!p || !q || *p <= 0 || std::abs(*p * *q - 1) > 1e-6)
    return failure();
  auto to = [&](Value exponent) {
    return [&rewriter, exponent](Value v) -> Value {
      return nn::PowOp::create(rewriter, v.getLoc(), v, exponent);
    };
  };
  if (*p < 1) {
    auto reduce = sum.getDefiningOp<nn::ReduceOp>();
    Value inner = guarded(rewriter, power.getLhs(), to(power.getRhs()));
    sum = nn::ReduceOp::create(rewriter, sum.getLoc(), nn::ReduceKind::sum,
                               inner, reduce.getAxes(), reduce.getKeepdims());
  }
  rewriter.replaceOp(root, guarded(rewriter, sum, to(root.getRhs())));
  return success();
}

struct RaiseNormsPass : import::impl::RaiseNormsBase<RaiseNormsPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add(raisePlainNorm<nn::MulOp>)
        .add(raisePlainNorm<nn::DivOp>)
        .add(scaleIntoNorm<nn::RmsNormOp>)
        .add(scaleIntoNorm<nn::LayerNormOp>)
        .add(biasIntoLayerNorm)
        .add(groupNormOfReshape)
        .add(affineIntoGroupNorm<nn::MulOp>)
        .add(affineIntoGroupNorm<nn::AddOp>)
        .add(guardDeviation)
        .add(guardNorm);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
