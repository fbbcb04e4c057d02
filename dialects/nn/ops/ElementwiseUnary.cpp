//===- ElementwiseUnary.cpp - Elementwise ops of one operand ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A new operator is one line here: its scalar body and its gradient. Gradients
// are written with nn ops, so that they fuse and shard as everything else.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNInference.h"
#include "dialects/nn/ops/Scalars.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace dt::nn;

//===----------------------------------------------------------------------===//
// Scalar bodies and gradients of several steps
//===----------------------------------------------------------------------===//

/// max(x, 0) + log1p(exp(-|x|)): the exponential is at most 1.
static Value softplus(Scalars &s, Value x) {
  Value tail = s.make<math::Log1pOp>(s.exp(s.neg(s.make<math::AbsFOp>(x))));
  Value zero = s.number(x.getType(), 0);
  return s.add(s.make<arith::MaximumFOp>(x, zero), tail);
}

/// Written so that not-a-number stays.
static Value relu(Scalars &s, Value x) {
  Value negative = s.compare(arith::CmpFPredicate::OLT, x, 0.0);
  return s.select(negative, s.number(x.getType(), 0), x);
}

static Value leakyRelu(Scalars &s, Value x, LeakyReluOp op) {
  Value positive = s.compare(arith::CmpFPredicate::OGE, x, 0.0);
  return s.select(positive, x, s.mul(x, op.getAlpha().convertToDouble()));
}

static Value elu(Scalars &s, Value x, EluOp op) {
  double scale = op.getScale().convertToDouble();
  double alpha = op.getAlpha().convertToDouble() * scale;
  Value positive = s.compare(arith::CmpFPredicate::OGT, x, 0.0);
  Value below = s.mul(s.add(s.exp(x), -1.0), alpha);
  return s.select(positive, scale == 1 ? x : s.mul(x, scale), below);
}

static Value hardSigmoid(Scalars &s, Value x, HardSigmoidOp op) {
  Type type = x.getType();
  Value line = s.add(s.mul(x, op.getAlpha().convertToDouble()),
                     op.getBeta().convertToDouble());
  Value above = s.make<arith::MaximumFOp>(line, s.number(type, 0));
  return s.make<arith::MinimumFOp>(above, s.number(type, 1));
}

/// Zeros and not-a-number are their own sign.
static Value sign(Scalars &s, Value x) {
  Type type = x.getType();
  Value negative = s.compare(arith::CmpFPredicate::OLT, x, 0.0);
  Value positive = s.compare(arith::CmpFPredicate::OGT, x, 0.0);
  Value below = s.select(negative, s.number(type, -1), x);
  return s.select(positive, s.number(type, 1), below);
}

static constexpr double kGeluCubic = 0.044715;
static constexpr double kGeluRoot = 0.79788456080286535588; // sqrt(2 / pi)

/// tanh(sqrt(2/pi) * (x + 0.044715 x^3)) of the tanh form of GELU
/// (Hendrycks & Gimpel 2016, section 2).
static Value geluTanh(Scalars &s, Value x) {
  Value cube = s.mul(s.mul(s.mul(x, x), x), kGeluCubic);
  return s.make<math::TanhOp>(s.mul(s.add(x, cube), kGeluRoot));
}

static Value gelu(Scalars &s, Value x, bool tanh) {
  if (!tanh)
    return s.mul(x, s.normalCdf(x));
  return s.mul(s.mul(x, 0.5), s.add(geluTanh(s, x), 1.0));
}

/// 1 - x^2, exact to rounding beside -1 and 1 too.
static Value oneMinusSquare(GradientBuilder &g, Value x) {
  return g.mul(g.sub(1, x), g.add(x, 1));
}

static Value eluGrad(GradientBuilder &g, Value x, Value dy, EluOp op) {
  double scale = op.getScale().convertToDouble();
  double alpha = op.getAlpha().convertToDouble() * scale;
  Value above = scale == 1 ? dy : g.mul(dy, scale);
  Value below = g.mul(g.mul(dy, alpha), g.make<ExpOp>(x));
  return g.select(g.compare(Compare::gt, x, 0), above, below);
}

static Value hardSigmoidGrad(GradientBuilder &g, Value y, Value dy,
                             HardSigmoidOp op) {
  Value inside =
      g.make<AndOp>(g.compare(Compare::gt, y, 0), g.compare(Compare::lt, y, 1));
  return g.keepWhere(inside, g.mul(dy, op.getAlpha().convertToDouble()));
}

//===----------------------------------------------------------------------===//
// An operator a line
//===----------------------------------------------------------------------===//

/// The scalar body: an expression of the builder `s` and the element `x`.
#define SCALAR(Op, body)                                                       \
  Value Op::buildScalar(OpBuilder &builder, ValueRange elements) {             \
    [[maybe_unused]] Scalars s(builder, *this);                                \
    Value x = elements[0];                                                     \
    return body;                                                               \
  }

/// The same, and the gradient: an expression of the builder `g`, the operand
/// `x`, the result `y` and its gradient `dy`.
#define SMOOTH(Op, body, gradient)                                             \
  SCALAR(Op, body)                                                             \
  LogicalResult Op::buildVjp(OpBuilder &builder, ValueRange grads,             \
                             ArrayRef<bool> wanted,                            \
                             SmallVectorImpl<Value> &result) {                 \
    if (!wanted[0])                                                            \
      return success();                                                        \
    GradientBuilder g(builder, *this);                                         \
    [[maybe_unused]] Value x = getInput(), y = getResult(), dy = grads[0];     \
    result[0] = gradient;                                                      \
    return success();                                                          \
  }

SMOOTH(NegOp, s.neg(x), g.neg(dy))
SMOOTH(AbsOp, s.make<math::AbsFOp>(x), g.mul(dy, g.make<SignOp>(x)))
SMOOTH(ExpOp, s.exp(x), g.mul(dy, y))
SMOOTH(LogOp, s.make<math::LogOp>(x), g.div(dy, x))
SMOOTH(SqrtOp, s.make<math::SqrtOp>(x), g.div(g.mul(dy, 0.5), y))
SMOOTH(RsqrtOp, s.make<math::RsqrtOp>(x),
       g.mul(g.mul(dy, -0.5), g.mul(y, g.mul(y, y))))
SMOOTH(ReciprocalOp, s.div(1.0, x), g.neg(g.mul(dy, g.mul(y, y))))
SMOOTH(SinOp, s.make<math::SinOp>(x), g.mul(dy, g.make<CosOp>(x)))
SMOOTH(CosOp, s.make<math::CosOp>(x), g.neg(g.mul(dy, g.make<SinOp>(x))))
SMOOTH(TanOp, s.make<math::TanOp>(x), g.mul(dy, g.add(g.mul(y, y), 1)))
SMOOTH(AsinOp, s.make<math::AsinOp>(x),
       g.mul(dy, g.make<RsqrtOp>(oneMinusSquare(g, x))))
SMOOTH(AcosOp, s.make<math::AcosOp>(x),
       g.neg(g.mul(dy, g.make<RsqrtOp>(oneMinusSquare(g, x)))))
SMOOTH(AtanOp, s.make<math::AtanOp>(x), g.div(dy, g.add(g.mul(x, x), 1)))
SMOOTH(SinhOp, s.make<math::SinhOp>(x), g.mul(dy, g.make<CoshOp>(x)))
SMOOTH(CoshOp, s.make<math::CoshOp>(x), g.mul(dy, g.make<SinhOp>(x)))
SMOOTH(TanhOp, s.make<math::TanhOp>(x), g.mul(dy, g.sub(1, g.mul(y, y))))
SMOOTH(AsinhOp, s.make<math::AsinhOp>(x),
       g.mul(dy, g.make<RsqrtOp>(g.add(g.mul(x, x), 1))))
SMOOTH(AcoshOp, s.make<math::AcoshOp>(x),
       g.mul(dy, g.make<RsqrtOp>(g.mul(g.add(x, -1), g.add(x, 1)))))
SMOOTH(AtanhOp, s.make<math::AtanhOp>(x), g.div(dy, oneMinusSquare(g, x)))
SMOOTH(ErfOp, s.make<math::ErfOp>(x),
       g.mul(g.mul(dy, 2 / std::sqrt(M_PI)), g.make<ExpOp>(g.neg(g.mul(x, x)))))
SMOOTH(SigmoidOp, s.sigmoid(x), g.mul(dy, g.mul(y, g.sub(1, y))))
SMOOTH(SiluOp, s.div(x, s.add(s.exp(s.neg(x)), 1.0)), g.make<SiluGradOp>(x, dy))
SMOOTH(SoftplusOp, softplus(s, x), g.mul(dy, g.make<SigmoidOp>(x)))
SMOOTH(ReluOp, relu(s, x), g.keepWhere(g.compare(Compare::gt, x, 0), dy))
SMOOTH(GeluOp, gelu(s, x, getTanh()), g.make<GeluGradOp>(x, dy, getTanh()))
SMOOTH(LeakyReluOp, leakyRelu(s, x, *this),
       g.select(g.compare(Compare::gt, x, 0), dy,
                g.mul(dy, getAlpha().convertToDouble())))
SMOOTH(EluOp, elu(s, x, *this), eluGrad(g, x, dy, *this))
SMOOTH(HardSigmoidOp, hardSigmoid(s, x, *this),
       hardSigmoidGrad(g, y, dy, *this))

SCALAR(StopGradientOp, x)
SCALAR(FloorOp, s.make<math::FloorOp>(x))
SCALAR(CeilOp, s.make<math::CeilOp>(x))
SCALAR(RoundOp, s.make<math::RoundEvenOp>(x))
SCALAR(SignOp, sign(s, x))
SCALAR(IsNanOp, s.compare(arith::CmpFPredicate::UNO, x, x))
SCALAR(IsInfOp, s.compare(arith::CmpFPredicate::OEQ, s.make<math::AbsFOp>(x),
                          std::numeric_limits<double>::infinity()))
SCALAR(NotOp, s.make<arith::XOrIOp>(x, s.integer(x.getType(), 1)))
#undef SMOOTH
#undef SCALAR

//===----------------------------------------------------------------------===//
// Gradients that are operators, a folder
//===----------------------------------------------------------------------===//

Value GeluGradOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  Value x = e[0], square = s.mul(x, x);
  if (!getTanh()) {
    // Phi(x) + x * phi(x)
    Value density = s.mul(s.exp(s.mul(square, -0.5)), 1 / std::sqrt(2 * M_PI));
    return s.mul(e[1], s.add(s.normalCdf(x), s.mul(x, density)));
  }
  Value t = geluTanh(s, x);
  Value inner = s.add(s.mul(square, 3 * kGeluCubic * kGeluRoot), kGeluRoot);
  Value slope = s.mul(s.mul(s.mul(x, 0.5), s.sub(1.0, s.mul(t, t))), inner);
  return s.mul(e[1], s.add(s.mul(s.add(t, 1.0), 0.5), slope));
}

Value SiluGradOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  Value g = s.sigmoid(e[0]);
  Value slope = s.add(s.mul(e[0], s.sub(1.0, g)), 1.0);
  return s.mul(e[1], s.mul(g, slope));
}

OpFoldResult NegOp::fold(FoldAdaptor) {
  if (auto inner = getInput().getDefiningOp<NegOp>())
    return inner.getInput();
  return {};
}

//===----------------------------------------------------------------------===//
// cast
//===----------------------------------------------------------------------===//

LogicalResult CastOp::verify() {
  if (getShape(getInput()) != getShape(getResult()))
    return emitOpError("must keep the shape");
  return success();
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  // Widened and narrowed again.
  auto inner = getInput().getDefiningOp<CastOp>();
  if (inner && inner.getInput().getType() == getType() && isNarrow(getType()) &&
      elementOf(getInput()).isF32())
    return inner.getInput();
  return {};
}

static Value floatToFloat(Scalars &s, Value x, FloatType to) {
  unsigned from = cast<FloatType>(x.getType()).getWidth();
  if (to.getWidth() > from)
    return s.make<arith::ExtFOp>(to, x);
  return s.make<arith::TruncFOp>(to, x);
}

static Value floatToInteger(Scalars &s, Value x, IntegerType to) {
  if (to.getWidth() >= 32)
    return s.make<arith::FPToSIOp>(to, x);
  Value wide = s.make<arith::FPToSIOp>(s.b.getI32Type(), x);
  return s.make<arith::TruncIOp>(to, wide);
}

static Value integerToFloat(Scalars &s, Value x, bool isUnsignedSource,
                            FloatType to) {
  if (x.getType().isInteger(1))
    return s.select(x, s.number(to, 1), s.number(to, 0));
  if (isUnsignedSource)
    x = s.make<arith::ExtUIOp>(s.b.getI32Type(), x);
  return s.make<arith::SIToFPOp>(to, x);
}

static Value integerToInteger(Scalars &s, Value x, bool isUnsignedSource,
                              IntegerType to) {
  unsigned from = x.getType().getIntOrFloatBitWidth();
  if (to.getWidth() < from)
    return s.make<arith::TruncIOp>(to, x);
  if (isUnsignedSource)
    return s.make<arith::ExtUIOp>(to, x);
  return s.make<arith::ExtSIOp>(to, x);
}

Value CastOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  Value x = e[0];
  Type to = scalarOf(getResult());
  if (x.getType() == to)
    return x;
  bool fromFloat = isa<FloatType>(x.getType());
  if (to.isInteger(1)) {
    if (fromFloat)
      return s.compare(arith::CmpFPredicate::UNE, x, 0.0);
    Value zero = s.integer(x.getType(), 0);
    return s.compare(arith::CmpIPredicate::ne, x, zero);
  }
  if (auto f = dyn_cast<FloatType>(to))
    return fromFloat ? floatToFloat(s, x, f)
                     : integerToFloat(s, x, isUnsigned(getInput()), f);
  auto i = cast<IntegerType>(to);
  return fromFloat ? floatToInteger(s, x, i)
                   : integerToInteger(s, x, isUnsigned(getInput()), i);
}

LogicalResult CastOp::buildVjp(OpBuilder &builder, ValueRange grads,
                               Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0] && isa<FloatType>(getElementTypeOrSelf(getInput().getType())))
    result[0] = g.make<CastOp>(getInput().getType(), grads[0]);
  return success();
}

/// As an integer the number of a row stays one.
ItemState CastOp::inferItems(ItemStates operands, const ItemContext &) {
  ItemState result = elementwiseItems(*this, operands);
  if (result.is(ItemState::PerItem) &&
      getElementTypeOrSelf(getType()).isIntOrIndex()) {
    result.isOwnNumber = operands[0].isOwnNumber;
    result.leadsWithOwnNumber = operands[0].leadsWithOwnNumber;
  }
  return result;
}
