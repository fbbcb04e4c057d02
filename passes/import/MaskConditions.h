//===- MaskConditions.h - Conditions that a mask is made of -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_MASKCONDITIONS_H
#define PASSES_IMPORT_MASKCONDITIONS_H

#include "dialects/nn/NNOps.h"

#include <optional>

namespace dt::import {

/// Axes of scores [b, h, t, s].
enum ScoreAxis : int { kNoAxis = -1, kBatch, kHead, kQuery, kKey };

/// A value that is broadcast to scores: which of their axes each of its dims
/// runs along; none where it has one element.
struct ScoreView {
  mlir::Value value;
  llvm::SmallVector<int> axes;

  /// A value whose last dims are those of the scores.
  static ScoreView of(mlir::Value value);
  bool runsAlong(int axis) const { return llvm::is_contained(axes, axis); }
  /// Without reshapes and broadcasts around it, as far as dims stay in order.
  ScoreView stripped() const;
  /// An operand of the elementwise operator that makes the value.
  ScoreView operand(mlir::Value operand) const;
  /// The size of an axis, 1 where the value does not run along it.
  nn::DimExpr sizeOf(int axis) const;
};

/// What a generated condition says of j - i: it lies in [least, most]; one of
/// them is null.
struct IndexBound {
  std::optional<nn::DimExpr> least, most;
};

/// One of the conditions that must hold for a key to be visible.
struct MaskCondition {
  ScoreView view;
  bool holds; ///< else its negation must
  /// Bounds that together say the same, if it is generated, or a table, and
  /// says no more.
  std::optional<llvm::SmallVector<IndexBound>> bounds;
};

/// The conditions of a bool mask, without those that are always true, of which
/// it says whether there were any.
struct MaskConditions {
  llvm::SmallVector<MaskCondition> all;
  bool dropped = false;
};
MaskConditions readConditions(mlir::Value mask);

} // namespace dt::import

#endif // PASSES_IMPORT_MASKCONDITIONS_H
