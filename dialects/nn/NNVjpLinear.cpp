//===- NNVjpLinear.cpp - Gradients of products and attention ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Linear, matmul, convolution, pooling, attention, rotary embedding.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNGradient.h"

#include <limits>

using namespace mlir;
using namespace dt::nn;

LogicalResult LinearOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 ArrayRef<bool> wanted,
                                 SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  Value dy = grads[0];
  // The same weight, read the other way round.
  if (wanted[0])
    result[0] = g.make<LinearOp>(dy, getWeight(), Value(), !getInOut());
  if (wanted[1])
    result[1] = g.make<LinearDwOp>(getInput(), dy, getInOut());
  if (getBias() && wanted[2])
    result[2] = g.sumRows(dy, getBias().getType());
  return success();
}

/// dB of C = op(A) op(B) as one product over all rows, when B has no leading
/// axes: summing a batch of products afterwards would write each of them.
static Value sharedRhsGrad(GradientBuilder &g, MatmulOp op, Value dy) {
  if (getShape(op.getRhs()).size() != 2 || op.getTransA() ||
      getShape(op.getLhs()).size() != getShape(dy).size())
    return {};
  return g.make<LinearDwOp>(op.getLhs(), dy, /*in_out=*/!op.getTransB());
}

LogicalResult MatmulOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 ArrayRef<bool> wanted,
                                 SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  Value a = getLhs(), b = getRhs(), dy = grads[0];
  bool ta = getTransA(), tb = getTransB();
  if (wanted[0]) {
    Value da = ta ? g.make<MatmulOp>(b, dy, tb, true).getResult()
                  : g.make<MatmulOp>(dy, b, false, !tb).getResult();
    result[0] = g.sumTo(da, a.getType());
  }
  if (wanted[1]) {
    Value db = sharedRhsGrad(g, *this, dy);
    if (!db)
      db = tb ? g.make<MatmulOp>(dy, a, true, ta).getResult()
              : g.make<MatmulOp>(a, dy, !ta, false).getResult();
    result[1] = g.sumTo(db, b.getType());
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Convolution and pooling
//===----------------------------------------------------------------------===//

LogicalResult ConvOp::buildVjp(OpBuilder &builder, ValueRange grads,
                               ArrayRef<bool> wanted,
                               SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  Value dy = grads[0];
  if (wanted[0])
    result[0] =
        g.make<ConvDxOp>(getInput().getType(), dy, getWeight(), getStrides(),
                         getPads(), getDilations(), getGroups());
  if (wanted[1])
    result[1] =
        g.make<ConvDwOp>(getWeight().getType(), getInput(), dy, getStrides(),
                         getPads(), getDilations(), getGroups());
  if (getBias() && wanted[2]) {
    SmallVector<int64_t> axes{0};
    axes.append(llvm::to_vector(llvm::seq<int64_t>(2, getShape(dy).size())));
    result[2] = g.sum(dy, axes);
  }
  return success();
}

LogicalResult ConvDxOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 ArrayRef<bool> wanted,
                                 SmallVectorImpl<Value> &result) {
  // As the transposed convolution: its gradient is the convolution.
  GradientBuilder g(builder, *this);
  Value dy = grads[0];
  if (wanted[0])
    result[0] = g.make<ConvOp>(dy, getWeight(), Value(), getStrides(),
                               getPads(), getDilations(), getGroups());
  if (wanted[1])
    result[1] =
        g.make<ConvDwOp>(getWeight().getType(), dy, getGrad(), getStrides(),
                         getPads(), getDilations(), getGroups());
  return success();
}

LogicalResult PoolOp::buildVjp(OpBuilder &builder, ValueRange grads,
                               ArrayRef<bool> wanted,
                               SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.make<PoolDxOp>(getKind(), getInput(), grads[0], getKernel(),
                                 getStrides(), getPads(), getDilations());
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// [b, t, h, d] -> [b, k, h/k, t, d]: heads before rows, in groups of those
/// that use one KV head.
static Value groupedHeads(GradientBuilder &g, Value v, const DimExpr &kvHeads) {
  Value byHead = g.transpose(v, {0, 2, 1, 3});
  Shape s = getShape(byHead);
  auto group = s[1].exactDiv(kvHeads);
  return g.reshape(byHead, {s[0], kvHeads, *group, s[2], s[3]});
}

/// true where query i sees key j: j <= i + s - t, as a [t, s] tensor.
static Value causalMask(GradientBuilder &g, const DimExpr &t,
                        const DimExpr &s) {
  OpBuilder::InsertionGuard guard(g.b);
  auto op = g.make<GenerateOp>(makeTensorType({t, s}, g.b.getI1Type()));
  Type index = g.b.getIndexType();
  Block *body =
      g.b.createBlock(&op.getBody(), {}, {index, index}, {g.loc, g.loc});
  Value i = body->getArgument(0), j = body->getArgument(1);
  DimExpr offset = s - t;
  if (auto c = offset.asConstant(); !c || *c) {
    Value o =
        c ? g.make<arith::ConstantOp>(g.b.getIndexAttr(*c)).getResult()
          : g.make<SizeOp>(index, g.b.getStringAttr(offset.str())).getResult();
    i = g.make<arith::AddIOp>(i, o);
  }
  Value seen = g.make<arith::CmpIOp>(arith::CmpIPredicate::sle, j, i);
  g.make<YieldOp>(seen);
  return op;
}

/// Gradient of an additive mask (a learned bias on the scores): that of the
/// scores themselves, P * (dP - rowsum(dO * O)), written out. Only trained
/// masks need it, so it stays out of attention_grad.
static Value maskGrad(GradientBuilder &g, AttentionOp op, Value dy) {
  Shape q = getShape(op.getQuery()), k = getShape(op.getKey());
  Shape full{q[0], q[2], q[1], k[1]};
  Value gq = groupedHeads(g, op.getQuery(), k[2]);
  Value gk = groupedHeads(g, op.getKey(), k[2]);
  Value gv = groupedHeads(g, op.getValue(), k[2]);
  Value gdy = groupedHeads(g, dy, k[2]);
  Value scores = g.mul(g.make<MatmulOp>(gq, gk, false, true),
                       op.getScale().convertToDouble());
  scores = g.add(g.reshape(scores, full), op.getMask());
  if (op.getCausal()) {
    double none = -std::numeric_limits<double>::infinity();
    scores = g.select(causalMask(g, full[2], full[3]), scores,
                      g.number(scores, none));
  }
  Shape row{full[0], full[1], full[2], DimExpr(1)};
  Value lse = g.reshape(op.getLse(), row);
  Value p = g.make<ExpOp>(g.sub(scores, lse));
  // A row that sees nothing has lse = -inf, and no gradient.
  Value seen =
      g.compare(Compare::gt, lse, -std::numeric_limits<double>::infinity());
  p = g.select(seen, p, g.number(p, 0));
  Value dp = g.reshape(g.make<MatmulOp>(gdy, gv, false, true), full);
  Value dot = g.sum(g.mul(dy, op.getResult()), {3});
  Value delta = g.reshape(g.transpose(dot, {0, 2, 1}), row);
  return g.sumTo(g.mul(p, g.sub(dp, delta)), op.getMask().getType());
}

LogicalResult AttentionOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (grads[1])
    return emitOpError("has no gradient for its log-sum-exp result");
  Value dy = grads[0];
  if (!dy)
    return success();
  if (wanted[0] || wanted[1] || wanted[2]) {
    auto grad = g.make<AttentionGradOp>(
        getQuery(), getKey(), getValue(), getMask(), getResult(), getLse(), dy,
        getScaleAttr(), getCausalAttr(), getEmptyRowAttr());
    for (unsigned i = 0; i < 3; ++i)
      if (wanted[i])
        result[i] = grad->getResult(i);
  }
  if (getMask() && wanted[3])
    result[3] = maskGrad(g, *this, dy);
  return success();
}

LogicalResult RotaryOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 ArrayRef<bool> wanted,
                                 SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[1] || wanted[2])
    return emitOpError("has no gradient for its angles (trained rotary "
                       "frequencies are not supported)");
  if (wanted[0])
    result[0] = g.make<RotaryOp>(grads[0], getCos(), getSin(), getStyle(),
                                 !getInverse());
  return success();
}
