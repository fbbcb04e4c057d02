//===- NNVjpNorm.cpp - Gradients of norms and reductions --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Normalisation, softmax, reductions, losses.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNGradient.h"

using namespace mlir;
using namespace dt::nn;

//===----------------------------------------------------------------------===//
// Normalisation
//===----------------------------------------------------------------------===//

/// Puts a gradient at the place of an optional operand, when both exist.
static bool wants(OperandRange operand, ArrayRef<bool> wanted) {
  return !operand.empty() && wanted[operand.getBeginOperandIndex()];
}

LogicalResult LayerNormOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  Value x = getInput(), dy = grads[0];
  OperandRange scale = getODSOperands(1), bias = getODSOperands(2);
  if (wanted[0])
    result[0] =
        g.make<LayerNormDxOp>(x, getScale(), dy, getEpsAttr(), getAxesAttr());
  if (wants(scale, wanted))
    result[scale.getBeginOperandIndex()] =
        g.make<LayerNormDscaleOp>(x, dy, getEpsAttr(), getAxesAttr());
  if (wants(bias, wanted))
    result[bias.getBeginOperandIndex()] = g.sumRows(dy, getBias().getType());
  return success();
}

LogicalResult RmsNormOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                  ArrayRef<bool> wanted,
                                  SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  Value x = getInput(), dy = grads[0];
  if (wanted[0])
    result[0] =
        g.make<RmsNormDxOp>(x, getScale(), dy, getEpsAttr(), getAxesAttr());
  if (getScale() && wanted[1])
    result[1] = g.make<RmsNormDscaleOp>(x, dy, getEpsAttr(), getAxesAttr());
  return success();
}

LogicalResult GroupNormOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  Value x = getInput(), dy = grads[0];
  OperandRange scale = getODSOperands(1), bias = getODSOperands(2);
  if (wanted[0])
    result[0] =
        g.make<GroupNormDxOp>(x, getScale(), dy, getEpsAttr(), getGroupsAttr());
  if (wants(scale, wanted))
    result[scale.getBeginOperandIndex()] =
        g.make<GroupNormDscaleOp>(x, dy, getEpsAttr(), getGroupsAttr());
  if (wants(bias, wanted)) {
    SmallVector<int64_t> axes{0};
    axes.append(llvm::to_vector(llvm::seq<int64_t>(2, getShape(dy).size())));
    result[bias.getBeginOperandIndex()] = g.sum(dy, axes);
  }
  return success();
}

LogicalResult SoftmaxOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                  ArrayRef<bool> wanted,
                                  SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.make<SoftmaxGradOp>(getResult(), grads[0], getAxisAttr());
  return success();
}

LogicalResult LogSoftmaxOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                     ArrayRef<bool> wanted,
                                     SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.make<LogSoftmaxGradOp>(getResult(), grads[0], getAxisAttr());
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

namespace {
/// The shapes around a reduction.
struct Reduced {
  explicit Reduced(ReduceOp op) : input(getShape(op.getInput())), kept(input) {
    for (int64_t axis : op.getAxes()) {
      int64_t i = axis < 0 ? axis + static_cast<int64_t>(input.size()) : axis;
      count = count * input[i];
      kept[i] = DimExpr(1);
    }
  }
  Shape input, kept; ///< kept: reduced dims are 1
  DimExpr count = 1; ///< elements that make one result element
};
} // namespace

/// Product: y / x where no factor is 0; where one is, only that factor has a
/// gradient, the product of the others.
static Value productGrad(GradientBuilder &g, ReduceOp op, const Reduced &r,
                         Value dy) {
  Value x = op.getInput();
  Value isZero = g.compare(Compare::eq, x, 0);
  Value one = g.number(x, 1);
  Value others = g.select(isZero, one, x);
  Value product =
      g.make<ReduceOp>(ReduceKind::prod, others, op.getAxes(), true);
  Value ones = g.select(isZero, one, g.number(x, 0));
  ones = g.broadcast(ones, r.input);
  Value zeros = g.sum(ones, op.getAxes(), true);
  Value alone = g.keepWhere(g.compare(Compare::eq, zeros, 1), product);
  Value without =
      g.keepWhere(g.compare(Compare::eq, zeros, 0), g.div(product, others));
  return g.mul(dy, g.select(isZero, alone, without));
}

/// Largest or smallest: equal elements share the gradient (torch.amax).
static Value extremumGrad(GradientBuilder &g, ReduceOp op, const Reduced &r,
                          Value dy) {
  Value x = op.getInput();
  Value y = g.reshape(op.getResult(), r.kept);
  Value hit = g.compare(Compare::eq, x, y);
  Value ones =
      g.broadcast(g.select(hit, g.number(x, 1), g.number(x, 0)), r.input);
  Value share = g.div(dy, g.sum(ones, op.getAxes(), true));
  return g.mul(share, ones);
}

LogicalResult ReduceOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 ArrayRef<bool> wanted,
                                 SmallVectorImpl<Value> &result) {
  if (!wanted[0])
    return success();
  GradientBuilder g(builder, *this);
  Reduced r(*this);
  Value dy = g.reshape(grads[0], r.kept);
  switch (getKind()) {
  case ReduceKind::sum:
    result[0] = g.broadcast(dy, r.input);
    break;
  case ReduceKind::mean:
    if (auto n = r.count.asConstant())
      dy = g.mul(dy, *n ? 1.0 / *n : 0.0);
    else
      dy = g.div(dy, g.size(r.count, getElementTypeOrSelf(dy.getType())));
    result[0] = g.broadcast(dy, r.input);
    break;
  case ReduceKind::max:
  case ReduceKind::min:
    result[0] = extremumGrad(g, *this, r, dy);
    break;
  case ReduceKind::prod:
    result[0] = productGrad(g, *this, r, dy);
    break;
  }
  return success();
}

LogicalResult CumsumOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 ArrayRef<bool> wanted,
                                 SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] =
        g.make<CumsumOp>(grads[0], getAxis(), getExclusive(), !getReverse());
  return success();
}

LogicalResult CrossEntropyOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                       ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.make<CrossEntropyGradOp>(getLogits(), getLabels(), grads[0],
                                           getIgnoreIndexAttr());
  return success();
}
