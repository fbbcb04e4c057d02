//===- Masks.h - What an attention mask says --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_MASKS_H
#define PASSES_IMPORT_MASKS_H

#include "dialects/nn/NNOps.h"

namespace dt::import {

/// Whether a score that this number is added to, or is put for, cannot be seen
/// whatever it was: -inf, or so far down that floats of 32 bits drop any score
/// below 1e30 beside it. -1e4 and -1e9 are ordinary numbers. -65504 is one too,
/// but where `user`'s graph was in 16 bits: there it is the lowest float16.
bool hidesScores(double number, mlir::Operation *user);

/// The masks found between scores and softmax, from the softmax inwards.
class MaskParts {
public:
  /// Takes one mask off `scores` (add, where); true if it did.
  bool peel(mlir::Value &scores);
  /// None that a gradient must flow to.
  bool isUsable() const;
  /// None tells heads apart: of scores of rank 5, with heads on two axes.
  bool isSameForHeads() const;
  /// One value that broadcasts to [b, h, t, s], or null: a bool mask (true =
  /// visible) where that says all, else what is added. `rank`: of the scores,
  /// `element`: their type.
  mlir::Value build(mlir::PatternRewriter &rewriter, mlir::Location loc,
                    int64_t rank, mlir::Type element);
  /// What softmax makes of a query that `build`'s mask hides all keys from.
  /// `guarded`: behind it not-a-number becomes 0.
  nn::EmptyRow getEmptyRow(bool guarded) const;

private:
  /// Numbers that are added (`condition` null), or a condition: where it is
  /// not `visible`, `hidden` is added to scores or (`replaces`) put for them.
  struct Part {
    mlir::Value numbers, condition;
    bool visible = true, replaces = false;
    double hidden = 0;
  };
  static std::optional<Part> readWhere(nn::WhereOp where);
  static Part readAdded(mlir::Value mask);
  static mlir::Value visibleOf(mlir::PatternRewriter &rewriter,
                               mlir::Location loc, const Part &part);
  bool isBool() const;
  bool isInfinite() const;
  mlir::Value buildBool(mlir::PatternRewriter &rewriter,
                        mlir::Location loc) const;
  mlir::Value buildNumbers(mlir::PatternRewriter &rewriter, mlir::Location loc,
                           mlir::Type element) const;

  llvm::SmallVector<Part> parts;
};

} // namespace dt::import

#endif // PASSES_IMPORT_MASKS_H
