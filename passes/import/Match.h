//===- Match.h - Looking at nn values when raising --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_MATCH_H
#define PASSES_IMPORT_MATCH_H

#include "dialects/nn/NNOps.h"

#include <optional>
#include <utility>

namespace dt::import {

/// The number that every element of `v` is, seen through broadcast, reshape and
/// cast (which is carried out).
std::optional<double> getSplat(mlir::Value v);

/// Whether `v` is that number as its file can hold it: rounded to the type of
/// the constant, and of casts behind it. Nothing that is merely close.
bool isSplat(mlir::Value v, double number);

/// By how much, relative to it, rounding to the constant's type may have moved
/// the number that `v` is; 0 for integers and for what is no splat.
double getSplatRounding(mlir::Value v);

/// Whether numbers in the file of `op`'s graph are rounded to 16 bits.
bool hasNarrowNumbers(mlir::Operation *op);
/// By how much, relative to it, rounding to bfloat16 may move a number.
inline constexpr double kNarrowRounding = 0x1p-8;

/// `v` = other op number, in either order for commutative ops: the other
/// operand and the number.
template <typename Op>
std::optional<std::pair<mlir::Value, double>> matchWithSplat(mlir::Value v) {
  auto op = v.getDefiningOp<Op>();
  if (!op)
    return std::nullopt;
  if (std::optional<double> c = getSplat(op.getRhs()))
    return std::make_pair(mlir::Value(op.getLhs()), *c);
  if (op->template hasTrait<mlir::OpTrait::IsCommutative>())
    if (std::optional<double> c = getSplat(op.getLhs()))
      return std::make_pair(mlir::Value(op.getRhs()), *c);
  return std::nullopt;
}

/// `v` = op(x, y) with x satisfying `pick`: (x, y), trying both orders.
template <typename Op, typename Pick>
std::optional<std::pair<mlir::Value, mlir::Value>> matchEither(mlir::Value v,
                                                               Pick pick) {
  auto op = v.getDefiningOp<Op>();
  if (!op)
    return std::nullopt;
  mlir::Value a = op.getLhs(), b = op.getRhs();
  if (pick(a))
    return std::make_pair(a, b);
  if (pick(b))
    return std::make_pair(b, a);
  return std::nullopt;
}

/// x when `v` is x * x or x ^ 2.
mlir::Value matchSquare(mlir::Value v);

/// x when `v` is 1 / sqrt(x) in any spelling.
mlir::Value matchRsqrt(mlir::Value v);

/// A mean over exactly the last axis, kept as 1: its input.
mlir::Value matchMeanOfLast(mlir::Value v);

/// Whether a value depends on a trained parameter or on a float argument of its
/// function, i.e. may need a gradient.
bool mayNeedGradient(mlir::Value v);

} // namespace dt::import

#endif // PASSES_IMPORT_MATCH_H
