//===- NNScalar.cpp - Scalar bodies of elementwise operators ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One element of each operand in, one element of the result out, in arith and
// math ops. Kernels of every target are made of these bodies, so they keep to a
// small set of ops (listed in docs/architecture.md's lowering part) and choose
// forms that neither overflow nor cancel. Elements of unsigned tensors come and
// go as signless integers: the tensor's type says how they are meant.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNOps.h"

#include "mlir/IR/Matchers.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace dt::nn;

namespace {

/// Builds scalar expressions at one location.
class Scalars {
public:
  Scalars(OpBuilder &builder, Operation *op) : b(builder), loc(op->getLoc()) {}

  Value number(Type type, double v) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, v));
  }
  Value integer(Type type, int64_t v) {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, v));
  }
  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }

  Value add(Value x, Value y) { return make<arith::AddFOp>(x, y); }
  Value add(Value x, double y) { return add(x, number(x.getType(), y)); }
  Value sub(Value x, Value y) { return make<arith::SubFOp>(x, y); }
  Value sub(double x, Value y) { return sub(number(y.getType(), x), y); }
  Value mul(Value x, Value y) { return make<arith::MulFOp>(x, y); }
  Value mul(Value x, double y) { return mul(x, number(x.getType(), y)); }
  Value div(Value x, Value y) { return make<arith::DivFOp>(x, y); }
  Value div(double x, Value y) { return div(number(y.getType(), x), y); }
  Value neg(Value x) { return make<arith::NegFOp>(x); }
  Value exp(Value x) { return make<math::ExpOp>(x); }
  Value select(Value c, Value x, Value y) {
    return make<arith::SelectOp>(c, x, y);
  }
  Value compare(arith::CmpFPredicate p, Value x, Value y) {
    return make<arith::CmpFOp>(p, x, y);
  }
  Value compare(arith::CmpFPredicate p, Value x, double y) {
    return compare(p, x, number(x.getType(), y));
  }
  Value compare(arith::CmpIPredicate p, Value x, Value y) {
    return make<arith::CmpIOp>(p, x, y);
  }

  /// 1 / (1 + exp(-x)): exp overflows to infinity for very negative x, and the
  /// quotient is then 0, which is right.
  Value sigmoid(Value x) { return div(1.0, add(exp(neg(x)), 1.0)); }
  /// (1 + erf(x / sqrt 2)) / 2, the normal distribution function.
  Value normalCdf(Value x) {
    Value e = make<math::ErfOp>(mul(x, std::sqrt(0.5)));
    return mul(add(e, 1.0), 0.5);
  }
  /// tanh(sqrt(2/pi) * (x + 0.044715 x^3)) of the tanh form of GELU
  /// (Hendrycks & Gimpel 2016, section 2).
  Value geluTanh(Value x) {
    Value cube = mul(mul(mul(x, x), x), geluCubic);
    return make<math::TanhOp>(mul(add(x, cube), geluRoot));
  }

  static constexpr double geluCubic = 0.044715;
  static constexpr double geluRoot = 0.79788456080286535588; // sqrt(2 / pi)

  OpBuilder &b;
  Location loc;
};

} // namespace

static bool isUnsigned(Value tensor) {
  Type e = getElementTypeOrSelf(tensor.getType());
  return e.isUnsignedInteger() || e.isInteger(1);
}

/// The type in which elements of a tensor are computed.
static Type scalarType(Value tensor) {
  Type e = getElementTypeOrSelf(tensor.getType());
  if (e.isUnsignedInteger())
    return IntegerType::get(e.getContext(), e.getIntOrFloatBitWidth());
  return e;
}

/// The number that all elements of a tensor are, when it is known.
static std::optional<double> splatNumber(Value tensor) {
  DenseElementsAttr attr;
  if (!matchPattern(tensor, m_Constant(&attr)) || !attr.isSplat() ||
      !isa<FloatType>(attr.getElementType()))
    return std::nullopt;
  return attr.getSplatValue<APFloat>().convertToDouble();
}

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

Value NegOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).neg(e[0]);
}
Value AbsOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::AbsFOp>(e[0]);
}
Value ExpOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).exp(e[0]);
}
Value LogOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::LogOp>(e[0]);
}
Value SqrtOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::SqrtOp>(e[0]);
}
Value RsqrtOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::RsqrtOp>(e[0]);
}
Value ReciprocalOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).div(1.0, e[0]);
}
Value SinOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::SinOp>(e[0]);
}
Value CosOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::CosOp>(e[0]);
}
Value TanOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::TanOp>(e[0]);
}
Value AsinOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::AsinOp>(e[0]);
}
Value AcosOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::AcosOp>(e[0]);
}
Value AtanOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::AtanOp>(e[0]);
}
Value SinhOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::SinhOp>(e[0]);
}
Value CoshOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::CoshOp>(e[0]);
}
Value TanhOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::TanhOp>(e[0]);
}
Value AsinhOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::AsinhOp>(e[0]);
}
Value AcoshOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::AcoshOp>(e[0]);
}
Value AtanhOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::AtanhOp>(e[0]);
}
Value ErfOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::ErfOp>(e[0]);
}
Value SigmoidOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).sigmoid(e[0]);
}
Value SiluOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  return s.div(e[0], s.add(s.exp(s.neg(e[0])), 1.0));
}

Value SoftplusOp::buildScalar(OpBuilder &b, ValueRange e) {
  // max(x, 0) + log1p(exp(-|x|)): the exponential is at most 1.
  Scalars s(b, *this);
  Value tail = s.make<math::Log1pOp>(s.exp(s.neg(s.make<math::AbsFOp>(e[0]))));
  Value zero = s.number(e[0].getType(), 0);
  return s.add(s.make<arith::MaximumFOp>(e[0], zero), tail);
}

Value ReluOp::buildScalar(OpBuilder &b, ValueRange e) {
  // Written so that not-a-number stays.
  Scalars s(b, *this);
  Value negative = s.compare(arith::CmpFPredicate::OLT, e[0], 0.0);
  return s.select(negative, s.number(e[0].getType(), 0), e[0]);
}

Value GeluOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  if (!getTanh())
    return s.mul(e[0], s.normalCdf(e[0]));
  return s.mul(s.mul(e[0], 0.5), s.add(s.geluTanh(e[0]), 1.0));
}

Value GeluGradOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  Value x = e[0], square = s.mul(x, x);
  if (!getTanh()) {
    // Phi(x) + x * phi(x)
    Value density = s.mul(s.exp(s.mul(square, -0.5)), 1 / std::sqrt(2 * M_PI));
    return s.mul(e[1], s.add(s.normalCdf(x), s.mul(x, density)));
  }
  Value t = s.geluTanh(x);
  Value inner = s.add(s.mul(square, 3 * Scalars::geluCubic * Scalars::geluRoot),
                      Scalars::geluRoot);
  Value slope = s.mul(s.mul(s.mul(x, 0.5), s.sub(1.0, s.mul(t, t))), inner);
  return s.mul(e[1], s.add(s.mul(s.add(t, 1.0), 0.5), slope));
}

Value SiluGradOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  Value g = s.sigmoid(e[0]);
  Value slope = s.add(s.mul(e[0], s.sub(1.0, g)), 1.0);
  return s.mul(e[1], s.mul(g, slope));
}

Value LeakyReluOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  Value positive = s.compare(arith::CmpFPredicate::OGE, e[0], 0.0);
  return s.select(positive, e[0], s.mul(e[0], getAlpha().convertToDouble()));
}

Value EluOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  double scale = getScale().convertToDouble();
  double alpha = getAlpha().convertToDouble() * scale;
  Value positive = s.compare(arith::CmpFPredicate::OGT, e[0], 0.0);
  Value below = s.mul(s.add(s.exp(e[0]), -1.0), alpha);
  return s.select(positive, scale == 1 ? e[0] : s.mul(e[0], scale), below);
}

Value HardSigmoidOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  Type type = e[0].getType();
  Value line = s.add(s.mul(e[0], getAlpha().convertToDouble()),
                     getBeta().convertToDouble());
  Value above = s.make<arith::MaximumFOp>(line, s.number(type, 0));
  return s.make<arith::MinimumFOp>(above, s.number(type, 1));
}

Value StopGradientOp::buildScalar(OpBuilder &, ValueRange e) { return e[0]; }
Value FloorOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::FloorOp>(e[0]);
}
Value CeilOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::CeilOp>(e[0]);
}
Value RoundOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<math::RoundEvenOp>(e[0]);
}

Value SignOp::buildScalar(OpBuilder &b, ValueRange e) {
  // Zeros and not-a-number are their own sign.
  Scalars s(b, *this);
  Type type = e[0].getType();
  Value negative = s.compare(arith::CmpFPredicate::OLT, e[0], 0.0);
  Value positive = s.compare(arith::CmpFPredicate::OGT, e[0], 0.0);
  Value below = s.select(negative, s.number(type, -1), e[0]);
  return s.select(positive, s.number(type, 1), below);
}

Value IsNanOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).compare(arith::CmpFPredicate::UNO, e[0], e[0]);
}
Value IsInfOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  return s.compare(arith::CmpFPredicate::OEQ, s.make<math::AbsFOp>(e[0]),
                   std::numeric_limits<double>::infinity());
}
Value NotOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  return s.make<arith::XOrIOp>(e[0], s.integer(b.getI1Type(), 1));
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

/// One op for floats, another for integers.
template <typename FloatOp, typename IntOp>
static Value arithmetic(OpBuilder &b, Operation *op, ValueRange e) {
  Scalars s(b, op);
  if (isa<FloatType>(e[0].getType()))
    return s.make<FloatOp>(e[0], e[1]);
  return s.make<IntOp>(e[0], e[1]);
}

/// Integer ops whose result depends on the sign: small unsigned numbers are
/// widened, so that targets need the signed op only.
template <typename IntOp>
static Value signedInteger(Scalars &s, Value operand, Value x, Value y) {
  if (!isUnsigned(operand))
    return s.make<IntOp>(x, y);
  Type type = x.getType(), wide = s.b.getI32Type();
  Value r = s.make<IntOp>(s.make<arith::ExtUIOp>(wide, x),
                          s.make<arith::ExtUIOp>(wide, y));
  return s.make<arith::TruncIOp>(type, r);
}

/// A divisor that is never 0: a program must not trap on data.
static Value nonZero(Scalars &s, Value y) {
  Value zero = s.integer(y.getType(), 0);
  Value isZero = s.compare(arith::CmpIPredicate::eq, y, zero);
  return s.select(isZero, s.integer(y.getType(), 1), y);
}

Value AddOp::buildScalar(OpBuilder &b, ValueRange e) {
  return arithmetic<arith::AddFOp, arith::AddIOp>(b, *this, e);
}
Value SubOp::buildScalar(OpBuilder &b, ValueRange e) {
  return arithmetic<arith::SubFOp, arith::SubIOp>(b, *this, e);
}
Value MulOp::buildScalar(OpBuilder &b, ValueRange e) {
  return arithmetic<arith::MulFOp, arith::MulIOp>(b, *this, e);
}

Value DivOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  if (isa<FloatType>(e[0].getType()))
    return s.div(e[0], e[1]);
  return signedInteger<arith::DivSIOp>(s, getLhs(), e[0], nonZero(s, e[1]));
}

Value PowOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  Type type = e[0].getType();
  if (!isa<FloatType>(type)) {
    auto toFloat = [&](Value v) {
      return s.make<arith::SIToFPOp>(b.getF64Type(), v);
    };
    Value r = s.make<math::PowFOp>(toFloat(e[0]), toFloat(e[1]));
    return s.make<arith::FPToSIOp>(type, r);
  }
  // Exponents that need no pow, as PyTorch has them.
  std::optional<double> y = splatNumber(getRhs());
  if (y == 1.0)
    return e[0];
  if (y == 2.0)
    return s.mul(e[0], e[0]);
  if (y == 3.0)
    return s.mul(s.mul(e[0], e[0]), e[0]);
  if (y == 0.5)
    return s.make<math::SqrtOp>(e[0]);
  if (y == -0.5)
    return s.make<math::RsqrtOp>(e[0]);
  if (y == -1.0)
    return s.div(1.0, e[0]);
  return s.make<math::PowFOp>(e[0], e[1]);
}

Value MaxOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  if (isa<FloatType>(e[0].getType()))
    return s.make<arith::MaximumFOp>(e[0], e[1]);
  return signedInteger<arith::MaxSIOp>(s, getLhs(), e[0], e[1]);
}
Value MinOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  if (isa<FloatType>(e[0].getType()))
    return s.make<arith::MinimumFOp>(e[0], e[1]);
  return signedInteger<arith::MinSIOp>(s, getLhs(), e[0], e[1]);
}

Value ModOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  Value x = e[0], y = e[1];
  if (isa<FloatType>(x.getType())) {
    if (getFmod())
      return s.make<arith::RemFOp>(x, y);
    return s.sub(x, s.mul(s.make<math::FloorOp>(s.div(x, y)), y));
  }
  y = nonZero(s, y);
  Value r = signedInteger<arith::RemSIOp>(s, getLhs(), x, y);
  if (getFmod() || isUnsigned(getLhs()))
    return r;
  // The remainder has the dividend's sign; move it to the divisor's.
  Value zero = s.integer(x.getType(), 0);
  Value differs =
      s.compare(arith::CmpIPredicate::slt, s.make<arith::XOrIOp>(r, y), zero);
  Value some = s.compare(arith::CmpIPredicate::ne, r, zero);
  return s.select(s.make<arith::AndIOp>(differs, some),
                  s.make<arith::AddIOp>(r, y), r);
}

Value AndOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<arith::AndIOp>(e[0], e[1]);
}
Value OrOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<arith::OrIOp>(e[0], e[1]);
}
Value XorOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<arith::XOrIOp>(e[0], e[1]);
}

Value CmpOp::buildScalar(OpBuilder &b, ValueRange e) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  static constexpr F floats[] = {F::OEQ, F::UNE, F::OLT,
                                 F::OLE, F::OGT, F::OGE};
  static constexpr I integers[] = {I::eq,  I::ne,  I::slt,
                                   I::sle, I::sgt, I::sge};
  static constexpr I unsignedIntegers[] = {I::eq,  I::ne,  I::ult,
                                           I::ule, I::ugt, I::uge};
  Scalars s(b, *this);
  auto index = static_cast<unsigned>(getPredicate());
  if (isa<FloatType>(e[0].getType()))
    return s.compare(floats[index], e[0], e[1]);
  I p = isUnsigned(getLhs()) ? unsignedIntegers[index] : integers[index];
  return s.compare(p, e[0], e[1]);
}

Value WhereOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).select(e[0], e[1], e[2]);
}

//===----------------------------------------------------------------------===//
// Cast
//===----------------------------------------------------------------------===//

static Value floatToFloat(Scalars &s, Value x, FloatType to) {
  unsigned from = cast<FloatType>(x.getType()).getWidth();
  if (to.getWidth() > from)
    return s.make<arith::ExtFOp>(to, x);
  if (to.getWidth() < from)
    return s.make<arith::TruncFOp>(to, x);
  // f16 and bf16: neither contains the other.
  return s.make<arith::TruncFOp>(to,
                                 s.make<arith::ExtFOp>(s.b.getF32Type(), x));
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
  Type to = scalarType(getResult());
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
