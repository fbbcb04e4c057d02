//===- Scalars.h - Writes scalar bodies of elementwise ops ------*- C++ -*-===//
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

#ifndef DIALECTS_NN_OPS_SCALARS_H
#define DIALECTS_NN_OPS_SCALARS_H

#include "dialects/nn/NNOps.h"

#include <cmath>

namespace dt::nn {

/// Builds scalar expressions at one location.
class Scalars {
public:
  using Value = mlir::Value;

  Scalars(mlir::OpBuilder &builder, mlir::Operation *op)
      : b(builder), loc(op->getLoc()) {}

  Value number(mlir::Type type, double v) {
    return mlir::arith::ConstantOp::create(b, loc, b.getFloatAttr(type, v));
  }
  Value integer(mlir::Type type, int64_t v) {
    return mlir::arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, v));
  }
  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }

  Value add(Value x, Value y) { return make<mlir::arith::AddFOp>(x, y); }
  Value add(Value x, double y) { return add(x, number(x.getType(), y)); }
  Value sub(Value x, Value y) { return make<mlir::arith::SubFOp>(x, y); }
  Value sub(double x, Value y) { return sub(number(y.getType(), x), y); }
  Value mul(Value x, Value y) { return make<mlir::arith::MulFOp>(x, y); }
  Value mul(Value x, double y) { return mul(x, number(x.getType(), y)); }
  Value div(Value x, Value y) { return make<mlir::arith::DivFOp>(x, y); }
  Value div(double x, Value y) { return div(number(y.getType(), x), y); }
  Value neg(Value x) { return make<mlir::arith::NegFOp>(x); }
  Value exp(Value x) { return make<mlir::math::ExpOp>(x); }
  Value select(Value c, Value x, Value y) {
    return make<mlir::arith::SelectOp>(c, x, y);
  }
  Value compare(mlir::arith::CmpFPredicate p, Value x, Value y) {
    return make<mlir::arith::CmpFOp>(p, x, y);
  }
  Value compare(mlir::arith::CmpFPredicate p, Value x, double y) {
    return compare(p, x, number(x.getType(), y));
  }
  Value compare(mlir::arith::CmpIPredicate p, Value x, Value y) {
    return make<mlir::arith::CmpIOp>(p, x, y);
  }

  /// 1 / (1 + exp(-x)): exp overflows to infinity for very negative x, and the
  /// quotient is then 0, which is right.
  Value sigmoid(Value x) { return div(1.0, add(exp(neg(x)), 1.0)); }
  /// (1 + erf(x / sqrt 2)) / 2, the normal distribution function.
  Value normalCdf(Value x) {
    Value e = make<mlir::math::ErfOp>(mul(x, std::sqrt(0.5)));
    return mul(add(e, 1.0), 0.5);
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
};

/// Whether elements are meant without a sign.
inline bool isUnsigned(mlir::Value tensor) {
  mlir::Type e = mlir::getElementTypeOrSelf(tensor.getType());
  return e.isUnsignedInteger() || e.isInteger(1);
}

} // namespace dt::nn

#endif // DIALECTS_NN_OPS_SCALARS_H
