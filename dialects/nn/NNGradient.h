//===- NNGradient.h - Building blocks of gradients --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What vector-Jacobian products have in common: arithmetic on gradients,
// numbers as scalar tensors that broadcast, sums back to the shape that was
// broadcast.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNGRADIENT_H
#define DIALECTS_NN_NNGRADIENT_H

#include "dialects/nn/NNOps.h"

namespace dt::nn {

/// What buildVjp takes and gives, an element an operand.
using Wanted = llvm::ArrayRef<bool>;
using Gradients = llvm::SmallVectorImpl<mlir::Value>;

class GradientBuilder {
public:
  GradientBuilder(mlir::OpBuilder &builder, mlir::Operation *op)
      : b(builder), loc(op->getLoc()) {}

  template <typename Op, typename... Args> Op make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }

  mlir::Value add(mlir::Value x, mlir::Value y) { return make<AddOp>(x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return make<SubOp>(x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return make<MulOp>(x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return make<DivOp>(x, y); }
  mlir::Value neg(mlir::Value x) { return make<NegOp>(x); }
  mlir::Value add(mlir::Value x, double y) { return add(x, number(x, y)); }
  mlir::Value sub(double x, mlir::Value y) { return sub(number(y, x), y); }
  mlir::Value mul(mlir::Value x, double y) { return mul(x, number(x, y)); }
  mlir::Value compare(Compare p, mlir::Value x, mlir::Value y) {
    return make<CmpOp>(p, x, y);
  }
  mlir::Value compare(Compare p, mlir::Value x, double y) {
    return compare(p, x, number(x, y));
  }
  mlir::Value select(mlir::Value c, mlir::Value x, mlir::Value y) {
    return make<WhereOp>(c, x, y);
  }
  /// x where the condition holds, 0 elsewhere.
  mlir::Value keepWhere(mlir::Value c, mlir::Value x) {
    return select(c, x, number(x, 0));
  }

  /// As float32 if it is a narrow float.
  mlir::Value widen(mlir::Value v);
  /// A scalar tensor with the element type of `like`.
  mlir::Value number(mlir::Value like, double v);
  /// A tensor of zeros; its dims may be symbolic.
  mlir::Value zeros(mlir::Type tensor);
  /// A size as a scalar tensor of `element` (float or integer).
  mlir::Value size(const DimExpr &expr, mlir::Type element);
  /// The integers first, first + step, … along a vector of `count` elements.
  mlir::Value sequence(const DimExpr &first, int64_t step,
                       const DimExpr &count);

  mlir::Value reshape(mlir::Value v, llvm::ArrayRef<DimExpr> shape);
  mlir::Value broadcast(mlir::Value v, llvm::ArrayRef<DimExpr> shape);
  mlir::Value transpose(mlir::Value v, llvm::ArrayRef<int64_t> permutation);
  mlir::Value sum(mlir::Value v, llvm::ArrayRef<int64_t> axes,
                  bool keepdims = false);
  /// The gradient of a value that was broadcast to the gradient's shape: sums
  /// over the axes that the value lacks or has as 1.
  mlir::Value sumTo(mlir::Value grad, mlir::Type target);
  /// Sums over all axes but the last ones that `target` has (a bias).
  mlir::Value sumRows(mlir::Value grad, mlir::Type target);
  /// Sums over all axes but that of channels, the second.
  mlir::Value sumChannels(mlir::Value grad);

  /// An nn.generate with an empty body; the builder is left inside it.
  GenerateOp openGenerate(mlir::RankedTensorType type);
  /// A size as an index, inside such a body.
  mlir::Value index(const DimExpr &expr);

  mlir::OpBuilder &b;
  mlir::Location loc;
};

/// The gradient of a cut-out: `grad` placed into zeros of type `whole`, element
/// i of each axis at first[i] + i * steps[i]. A first place that is no number
/// (a symbolic size) is handled by index.
mlir::Value placeBack(GradientBuilder &g, mlir::Value grad, mlir::Type whole,
                      llvm::ArrayRef<DimExpr> first,
                      llvm::ArrayRef<int64_t> steps);
/// The gradient of a placing: elements first, first + 1, … of one axis.
mlir::Value takeRange(GradientBuilder &g, mlir::Value whole, int64_t axis,
                      const DimExpr &first, const DimExpr &count);

} // namespace dt::nn

#endif // DIALECTS_NN_NNGRADIENT_H
