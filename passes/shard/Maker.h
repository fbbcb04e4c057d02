//===- Maker.h - Builds ops of local forms ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_MAKER_H
#define PASSES_SHARD_MAKER_H

#include "passes/shard/ShardProblem.h"

namespace dt::shard {

/// Builds elementwise ops at one place.
class Maker {
public:
  Maker(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::Value scalar(mlir::TypedAttr value) {
    auto type = mlir::RankedTensorType::get({}, value.getType());
    return nn::ConstantOp::create(
        builder, loc, type,
        mlir::DenseElementsAttr::get(type, mlir::Attribute(value)));
  }
  mlir::Value integer(int64_t value, mlir::Type element) {
    return scalar(mlir::IntegerAttr::get(element, value));
  }
  mlir::Value number(double value, mlir::Type element) {
    return scalar(mlir::FloatAttr::get(element, value));
  }
  template <typename OpT> mlir::Value make(mlir::Value a, mlir::Value b) {
    return OpT::create(builder, loc, a, b).getResult();
  }
  mlir::Value compare(nn::Compare predicate, mlir::Value a, mlir::Value b) {
    return nn::CmpOp::create(builder, loc, predicate, a, b);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return nn::WhereOp::create(builder, loc, condition, a, b);
  }
  mlir::Value cast(mlir::Value v, mlir::Type element) {
    mlir::Type type = nn::withElementType(v.getType(), element);
    if (type == v.getType())
      return v;
    return nn::CastOp::create(builder, loc, type, v);
  }
  /// [rows] -> [rows, 1]
  mlir::Value column(mlir::Value v) {
    nn::Shape shape = nn::getShape(v);
    shape.push_back(nn::DimExpr(1));
    return nn::ReshapeOp::create(
        builder, loc, nn::makeTensorType(shape, mlir::getElementTypeOrSelf(v)),
        v);
  }
  mlir::Value like(mlir::Value v, mlir::Type type) {
    return nn::ReshapeOp::create(builder, loc, type, v);
  }
  mlir::Value allReduce(rt::Reduction kind, mlir::Value v, const Axis &axis) {
    return dist::AllReduceOp::create(builder, loc, v.getType(), kind, v,
                                     axis.over, axis.stride);
  }
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace dt::shard

#endif // PASSES_SHARD_MAKER_H
