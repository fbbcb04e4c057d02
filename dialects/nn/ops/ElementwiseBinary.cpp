//===- ElementwiseBinary.cpp - Elementwise ops that broadcast ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Operands broadcast; an operand's gradient is summed back to its shape.
// Folders never change a value in floating point: x + 0, x * 1, and splat
// arithmetic of constants.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNNumbers.h"
#include "dialects/nn/ops/Scalars.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace dt::nn;

//===----------------------------------------------------------------------===//
// What several operators have in common
//===----------------------------------------------------------------------===//

/// `kept` when `other` is a splat of `neutral` and does not widen the result.
template <typename Op>
static Value dropNeutral(Op op, Value kept, Attribute other, double neutral) {
  std::optional<double> splat = splatOf(other);
  if (splat && *splat == neutral && kept.getType() == op.getType())
    return kept;
  return {};
}

/// An operand beside a splat of `neutral`, which is of the right where order
/// matters; or f(a, b) of two float splats as a splat of the result's type.
template <typename Op, typename Operands>
static OpFoldResult foldArithmetic(Op op, Operands in, double neutral,
                                   function_ref<APFloat(APFloat, APFloat)> f) {
  if (Value v = dropNeutral(op, op.getLhs(), in.getRhs(), neutral))
    return v;
  if (op->template hasTrait<OpTrait::IsCommutative>())
    if (Value v = dropNeutral(op, op.getRhs(), in.getLhs(), neutral))
      return v;
  auto x = dyn_cast_or_null<DenseFPElementsAttr>(in.getLhs()),
       y = dyn_cast_or_null<DenseFPElementsAttr>(in.getRhs());
  auto type = cast<RankedTensorType>(op.getType());
  if (!x || !y || !x.isSplat() || !y.isSplat() || !type.hasStaticShape())
    return {};
  return DenseElementsAttr::get(type, f(x.template getSplatValue<APFloat>(),
                                        y.template getSplatValue<APFloat>()));
}

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

/// The number that all elements of a tensor are, when it is known.
static std::optional<double> splatNumber(Value tensor) {
  DenseElementsAttr attr;
  if (!matchPattern(tensor, m_Constant(&attr)) ||
      !isa<FloatType>(attr.getElementType()))
    return std::nullopt;
  return splatOf(attr);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

OpFoldResult AddOp::fold(FoldAdaptor in) {
  return foldArithmetic(*this, in, 0, std::plus<APFloat>());
}

Value AddOp::buildScalar(OpBuilder &b, ValueRange e) {
  return arithmetic<arith::AddFOp, arith::AddIOp>(b, *this, e);
}

LogicalResult AddOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  for (unsigned i : {0, 1})
    if (wanted[i])
      result[i] = g.sumTo(grads[0], getOperand(i).getType());
  return success();
}

OpFoldResult SubOp::fold(FoldAdaptor in) {
  return foldArithmetic(*this, in, 0, std::minus<APFloat>());
}

Value SubOp::buildScalar(OpBuilder &b, ValueRange e) {
  return arithmetic<arith::SubFOp, arith::SubIOp>(b, *this, e);
}

LogicalResult SubOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.sumTo(grads[0], getLhs().getType());
  if (wanted[1])
    result[1] = g.neg(g.sumTo(grads[0], getRhs().getType()));
  return success();
}

OpFoldResult MulOp::fold(FoldAdaptor in) {
  return foldArithmetic(*this, in, 1, std::multiplies<APFloat>());
}

Value MulOp::buildScalar(OpBuilder &b, ValueRange e) {
  return arithmetic<arith::MulFOp, arith::MulIOp>(b, *this, e);
}

LogicalResult MulOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.sumTo(g.mul(grads[0], getRhs()), getLhs().getType());
  if (wanted[1])
    result[1] = g.sumTo(g.mul(grads[0], getLhs()), getRhs().getType());
  return success();
}

OpFoldResult DivOp::fold(FoldAdaptor in) {
  return foldArithmetic(*this, in, 1, std::divides<APFloat>());
}

Value DivOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  if (isa<FloatType>(e[0].getType()))
    return s.div(e[0], e[1]);
  return signedInteger<arith::DivSIOp>(s, getLhs(), e[0], nonZero(s, e[1]));
}

LogicalResult DivOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  Value byDivisor = g.div(grads[0], getRhs());
  if (wanted[0])
    result[0] = g.sumTo(byDivisor, getLhs().getType());
  if (wanted[1])
    result[1] =
        g.sumTo(g.neg(g.mul(byDivisor, getResult())), getRhs().getType());
  return success();
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
                              Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    if (Value dx = powBase(g, *this, grads[0]))
      result[0] = g.sumTo(dx, getLhs().getType());
  if (wanted[1]) {
    // Where x is 0, 0 * log(0) is no number, but the power does not move.
    Value dy = g.mul(g.mul(grads[0], getResult()), g.make<LogOp>(getLhs()));
    Value still = g.make<AndOp>(g.compare(Compare::eq, getLhs(), 0),
                                g.compare(Compare::ge, getRhs(), 0));
    dy = g.select(still, g.number(dy, 0), dy);
    result[1] = g.sumTo(dy, getRhs().getType());
  }
  return success();
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

/// x - n y, with a whole number n that small changes leave as it is.
LogicalResult ModOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              Wanted wanted, Gradients &result) {
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

template <typename FloatOp, typename IntOp>
static Value extremum(OpBuilder &b, Operation *op, ValueRange e) {
  Scalars s(b, op);
  if (isa<FloatType>(e[0].getType()))
    return s.make<FloatOp>(e[0], e[1]);
  return signedInteger<IntOp>(s, op->getOperand(0), e[0], e[1]);
}

/// Equal operands share the gradient as torch.maximum's do; one that is clamped
/// to a bound has none there, as torch.clamp's.
static void extremumVjp(Operation *op, bool bound, Compare better,
                        Compare betterOrEqual, OpBuilder &builder, Value dy,
                        Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, op);
  for (unsigned i : {0, 1}) {
    if (!wanted[i])
      continue;
    Value mine = op->getOperand(i), other = op->getOperand(1 - i);
    Value grad;
    if (bound) {
      Compare mineWins = i == 0 ? better : betterOrEqual;
      grad = g.keepWhere(g.compare(mineWins, mine, other), dy);
    } else {
      Value tie = g.compare(Compare::eq, mine, other);
      Value rest = g.keepWhere(g.compare(better, mine, other), dy);
      grad = g.select(tie, g.mul(dy, 0.5), rest);
    }
    result[i] = g.sumTo(grad, mine.getType());
  }
}

Value MaxOp::buildScalar(OpBuilder &b, ValueRange e) {
  return extremum<arith::MaximumFOp, arith::MaxSIOp>(b, *this, e);
}

LogicalResult MaxOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              Wanted wanted, Gradients &result) {
  extremumVjp(*this, getBound(), Compare::gt, Compare::ge, builder, grads[0],
              wanted, result);
  return success();
}

Value MinOp::buildScalar(OpBuilder &b, ValueRange e) {
  return extremum<arith::MinimumFOp, arith::MinSIOp>(b, *this, e);
}

LogicalResult MinOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              Wanted wanted, Gradients &result) {
  extremumVjp(*this, getBound(), Compare::lt, Compare::le, builder, grads[0],
              wanted, result);
  return success();
}

//===----------------------------------------------------------------------===//
// binary_cross_entropy
//===----------------------------------------------------------------------===//

/// Logarithms are at least this, and x (1 - x) below its gradient.
static constexpr double kLeastLog = -100, kLeastSlope = 1e-12;

/// (y - 1) log(1 - x) - y log(x)
Value BinaryCrossEntropyOp::buildScalar(OpBuilder &b, ValueRange e) {
  Scalars s(b, *this);
  Value x = e[0], y = e[1], least = s.number(x.getType(), kLeastLog);
  Value yes = s.make<arith::MaximumFOp>(s.make<math::LogOp>(x), least);
  Value no = s.make<arith::MaximumFOp>(s.make<math::Log1pOp>(s.neg(x)), least);
  return s.sub(s.mul(s.add(y, -1.0), no), s.mul(y, yes));
}

LogicalResult BinaryCrossEntropyOp::buildVjp(OpBuilder &builder,
                                             ValueRange grads, Wanted wanted,
                                             Gradients &result) {
  GradientBuilder g(builder, *this);
  Value x = getInput(), y = getTarget(), dy = grads[0];
  if (wanted[0]) {
    Value slope = g.mul(x, g.sub(1, x));
    slope = g.make<MaxOp>(slope, g.number(x, kLeastSlope));
    result[0] = g.sumTo(g.div(g.mul(dy, g.sub(x, y)), slope), x.getType());
  }
  if (wanted[1]) {
    Value odds = g.sub(g.make<LogOp>(g.sub(1, x)), g.make<LogOp>(x));
    result[1] = g.sumTo(g.mul(dy, odds), y.getType());
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Truth values
//===----------------------------------------------------------------------===//

Value AndOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<arith::AndIOp>(e[0], e[1]);
}
Value OrOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<arith::OrIOp>(e[0], e[1]);
}
Value XorOp::buildScalar(OpBuilder &b, ValueRange e) {
  return Scalars(b, *this).make<arith::XOrIOp>(e[0], e[1]);
}

LogicalResult CmpOp::inferReturnTypes(MLIRContext *, MaybeLoc loc, Adaptor op,
                                      Types &out) {
  if (failed(sameElements(loc, op.getOperands())))
    return failure();
  Type i1 = IntegerType::get(op.getLhs().getContext(), 1);
  return inferBroadcast(loc, op.getOperands(), i1, out);
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

LogicalResult WhereOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  Value dy = grads[0], c = getCondition();
  if (wanted[1])
    result[1] = g.sumTo(g.keepWhere(c, dy), getLhs().getType());
  if (wanted[2])
    result[2] = g.sumTo(g.select(c, g.number(dy, 0), dy), getRhs().getType());
  return success();
}
