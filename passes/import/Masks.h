//===- Masks.h - What an attention mask says --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_MASKS_H
#define PASSES_IMPORT_MASKS_H

#include "dialects/nn/NNOps.h"

namespace dt::import {

/// The masks found between scores and softmax. Bool masks (true = visible) and
/// additive ones are not mixed.
class MaskParts {
public:
  /// Takes one mask off `scores` (add, where); true if it did.
  bool peel(mlir::Value &scores);
  /// All of one kind, and none that a gradient must flow to.
  bool isUsable() const;
  /// Hidden scores are -inf rather than a large negative number.
  bool isInfinite() const { return infinite; }
  /// One value that broadcasts to [b, h, t, s], or null. `rank`: of the scores.
  mlir::Value build(mlir::PatternRewriter &rewriter, mlir::Location loc,
                    int64_t rank);

private:
  struct BoolMask {
    mlir::Value condition;
    bool visible; ///< what `true` means
  };
  bool addBool(mlir::Value condition, bool visible, double hiddenScore);

  llvm::SmallVector<BoolMask> bools;
  llvm::SmallVector<mlir::Value> additive;
  bool infinite = false;
};

enum class MaskMeaning { Data, AllVisible, Causal };

/// Reads a bool mask [.., t, s] whose last two indices are (query i, key j).
/// Causal: `j <= i + offset` everywhere, `rest` what else must hold (null:
/// nothing). AllVisible: constantly true. Data: none of these.
MaskMeaning readMask(mlir::Value mask, const nn::DimExpr &offset,
                     mlir::Value &rest);

} // namespace dt::import

#endif // PASSES_IMPORT_MASKS_H
