//===- NNVjp.cpp - Gradients of elementwise operators -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Written with nn ops, so that gradients fuse and shard as everything else.
// Where an operand was broadcast, its gradient is summed back.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNGradient.h"

#include "mlir/IR/Matchers.h"
#include <cmath>

using namespace mlir;
using namespace dt::nn;

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

/// 1 - x^2, exact to rounding beside -1 and 1 too.
static Value oneMinusSquare(GradientBuilder &g, Value x) {
  return g.mul(g.sub(1, x), g.add(x, 1));
}

/// Defines buildVjp of an op with one operand: an expression of the builder
/// `g`, the operand `x`, the result `y` and its gradient `dy`.
#define UNARY_VJP(Op, expression)                                              \
  LogicalResult Op::buildVjp(OpBuilder &builder, ValueRange grads,             \
                             ArrayRef<bool> wanted,                            \
                             SmallVectorImpl<Value> &result) {                 \
    if (!wanted[0])                                                            \
      return success();                                                        \
    GradientBuilder g(builder, *this);                                         \
    [[maybe_unused]] Value x = getInput(), y = getResult(), dy = grads[0];     \
    result[0] = expression;                                                    \
    return success();                                                          \
  }

UNARY_VJP(NegOp, g.neg(dy))
UNARY_VJP(AbsOp, g.mul(dy, g.make<SignOp>(x)))
UNARY_VJP(ExpOp, g.mul(dy, y))
UNARY_VJP(LogOp, g.div(dy, x))
UNARY_VJP(SqrtOp, g.div(g.mul(dy, 0.5), y))
UNARY_VJP(RsqrtOp, g.mul(g.mul(dy, -0.5), g.mul(y, g.mul(y, y))))
UNARY_VJP(ReciprocalOp, g.neg(g.mul(dy, g.mul(y, y))))
UNARY_VJP(SinOp, g.mul(dy, g.make<CosOp>(x)))
UNARY_VJP(CosOp, g.neg(g.mul(dy, g.make<SinOp>(x))))
UNARY_VJP(TanOp, g.mul(dy, g.add(g.mul(y, y), 1)))
UNARY_VJP(AsinOp, g.mul(dy, g.make<RsqrtOp>(oneMinusSquare(g, x))))
UNARY_VJP(AcosOp, g.neg(g.mul(dy, g.make<RsqrtOp>(oneMinusSquare(g, x)))))
UNARY_VJP(AtanOp, g.div(dy, g.add(g.mul(x, x), 1)))
UNARY_VJP(SinhOp, g.mul(dy, g.make<CoshOp>(x)))
UNARY_VJP(CoshOp, g.mul(dy, g.make<SinhOp>(x)))
UNARY_VJP(TanhOp, g.mul(dy, g.sub(1, g.mul(y, y))))
UNARY_VJP(AsinhOp, g.mul(dy, g.make<RsqrtOp>(g.add(g.mul(x, x), 1))))
UNARY_VJP(AcoshOp, g.mul(dy, g.make<RsqrtOp>(g.mul(g.add(x, -1), g.add(x, 1)))))
UNARY_VJP(AtanhOp, g.div(dy, oneMinusSquare(g, x)))
UNARY_VJP(ErfOp, g.mul(g.mul(dy, 2 / std::sqrt(M_PI)),
                       g.make<ExpOp>(g.neg(g.mul(x, x)))))
UNARY_VJP(SigmoidOp, g.mul(dy, g.mul(y, g.sub(1, y))))
UNARY_VJP(SiluOp, g.make<SiluGradOp>(x, dy))
UNARY_VJP(SoftplusOp, g.mul(dy, g.make<SigmoidOp>(x)))
UNARY_VJP(ReluOp, g.keepWhere(g.compare(Compare::gt, x, 0), dy))
UNARY_VJP(GeluOp, g.make<GeluGradOp>(x, dy, getTanh()))
UNARY_VJP(LeakyReluOp, g.select(g.compare(Compare::gt, x, 0), dy,
                                g.mul(dy, getAlpha().convertToDouble())))
#undef UNARY_VJP

LogicalResult EluOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &result) {
  if (!wanted[0])
    return success();
  GradientBuilder g(builder, *this);
  double scale = getScale().convertToDouble();
  double alpha = getAlpha().convertToDouble() * scale;
  Value x = getInput(), dy = grads[0];
  Value above = scale == 1 ? dy : g.mul(dy, scale);
  Value below = g.mul(g.mul(dy, alpha), g.make<ExpOp>(x));
  result[0] = g.select(g.compare(Compare::gt, x, 0), above, below);
  return success();
}

LogicalResult HardSigmoidOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                      ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &result) {
  if (!wanted[0])
    return success();
  GradientBuilder g(builder, *this);
  Value inside = g.make<AndOp>(g.compare(Compare::gt, getResult(), 0),
                               g.compare(Compare::lt, getResult(), 1));
  result[0] =
      g.keepWhere(inside, g.mul(grads[0], getAlpha().convertToDouble()));
  return success();
}

LogicalResult CastOp::buildVjp(OpBuilder &builder, ValueRange grads,
                               ArrayRef<bool> wanted,
                               SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0] && isa<FloatType>(getElementTypeOrSelf(getInput().getType())))
    result[0] = g.make<CastOp>(getInput().getType(), grads[0]);
  return success();
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

LogicalResult AddOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  for (unsigned i : {0, 1})
    if (wanted[i])
      result[i] = g.sumTo(grads[0], getOperand(i).getType());
  return success();
}

LogicalResult SubOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.sumTo(grads[0], getLhs().getType());
  if (wanted[1])
    result[1] = g.neg(g.sumTo(grads[0], getRhs().getType()));
  return success();
}

LogicalResult MulOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.sumTo(g.mul(grads[0], getRhs()), getLhs().getType());
  if (wanted[1])
    result[1] = g.sumTo(g.mul(grads[0], getLhs()), getRhs().getType());
  return success();
}

LogicalResult DivOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  Value byDivisor = g.div(grads[0], getRhs());
  if (wanted[0])
    result[0] = g.sumTo(byDivisor, getLhs().getType());
  if (wanted[1])
    result[1] =
        g.sumTo(g.neg(g.mul(byDivisor, getResult())), getRhs().getType());
  return success();
}

/// The number that a constant tensor repeats.
static std::optional<double> splatNumber(Value v) {
  DenseElementsAttr attr;
  if (!matchPattern(v, m_Constant(&attr)) || !attr.isSplat() ||
      !isa<FloatType>(attr.getElementType()))
    return std::nullopt;
  return attr.getSplatValue<APFloat>().convertToDouble();
}

/// dy * y * x^(y - 1), and 0 where y is 0 (also where x is 0, as PyTorch).
static Value powBase(GradientBuilder &g, PowOp op, Value dy) {
  Value x = op.getLhs(), y = op.getRhs();
  if (auto number = splatNumber(y)) {
    if (*number == 0)
      return {};
    if (*number == 1)
      return dy;
    Value slope = x;
    if (*number != 2)
      slope = g.make<PowOp>(x, g.number(x, *number - 1));
    return g.mul(g.mul(dy, *number), slope);
  }
  Value slope = g.mul(g.mul(dy, y), g.make<PowOp>(x, g.add(y, -1.0)));
  return g.select(g.compare(Compare::eq, y, 0), g.number(slope, 0), slope);
}

LogicalResult PowOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    if (Value dx = powBase(g, *this, grads[0]))
      result[0] = g.sumTo(dx, getLhs().getType());
  if (wanted[1]) {
    // log(x) exists for x > 0 only.
    Value dy = g.mul(g.mul(grads[0], getResult()), g.make<LogOp>(getLhs()));
    Value exists = g.compare(Compare::gt, getLhs(), 0);
    result[1] = g.sumTo(g.keepWhere(exists, dy), getRhs().getType());
  }
  return success();
}

/// x - n y, with a whole number n that small changes leave as it is.
LogicalResult ModOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.sumTo(grads[0], getLhs().getType());
  if (wanted[1]) {
    Value taken = g.make<SubOp>(getLhs(), getResult());
    Value n = g.make<RoundOp>(g.div(taken, getRhs()));
    result[1] = g.sumTo(g.neg(g.mul(grads[0], n)), getRhs().getType());
  }
  return success();
}

/// max and min. Equal operands share the gradient as torch.maximum's do; beside
/// a constant (a clamp) the other operand takes all of it, as torch.clamp's.
static void extremumVjp(Operation *op, Compare better, Compare betterOrEqual,
                        OpBuilder &builder, Value dy, ArrayRef<bool> wanted,
                        SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, op);
  for (unsigned i : {0, 1}) {
    if (!wanted[i])
      continue;
    Value mine = op->getOperand(i), other = op->getOperand(1 - i);
    Value grad;
    if (splatNumber(other)) {
      grad = g.keepWhere(g.compare(betterOrEqual, mine, other), dy);
    } else {
      Value tie = g.compare(Compare::eq, mine, other);
      Value rest = g.keepWhere(g.compare(better, mine, other), dy);
      grad = g.select(tie, g.mul(dy, 0.5), rest);
    }
    result[i] = g.sumTo(grad, mine.getType());
  }
}

LogicalResult MaxOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &result) {
  extremumVjp(*this, Compare::gt, Compare::ge, builder, grads[0], wanted,
              result);
  return success();
}

LogicalResult MinOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &result) {
  extremumVjp(*this, Compare::lt, Compare::le, builder, grads[0], wanted,
              result);
  return success();
}

LogicalResult WhereOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                ArrayRef<bool> wanted,
                                SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  Value dy = grads[0], c = getCondition();
  if (wanted[1])
    result[1] = g.sumTo(g.keepWhere(c, dy), getLhs().getType());
  if (wanted[2])
    result[2] = g.sumTo(g.select(c, g.number(dy, 0), dy), getRhs().getType());
  return success();
}
