//===- Scores.h - What stands between two products --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_SCORES_H
#define PASSES_IMPORT_SCORES_H

#include "passes/import/Masks.h"

#include <optional>

namespace dt::import {

/// What stands between the scores' product and the softmax.
struct Scores {
  mlir::Value product; ///< matmul(q, k^T), or a reshape of it to rank 5
  double scale = 1.0;
  std::optional<double> softCap; ///< of scaled scores, before masks
  MaskParts mask;

  /// The cap as an attribute; null where there is none.
  mlir::FloatAttr capAttr(mlir::Builder &builder) const {
    return softCap ? builder.getF64FloatAttr(*softCap) : mlir::FloatAttr();
  }
};

/// Peels masks, a soft cap and scales off `v` until a product; nothing if
/// something else is met.
std::optional<Scores> matchScores(mlir::Value v);

/// softmax's operand with the IsNaN guard that PyTorch's exporter writes
/// removed: where(isnan(p), 0, p).
mlir::Value dropNanGuard(mlir::Value v, bool &guarded);

/// v with its last two axes in the other order.
mlir::Value swapLast(mlir::PatternRewriter &rewriter, mlir::Location loc,
                     mlir::Value v);

/// Attention written out with an axis for the groups of query heads that share
/// a key head, [b, k, g, t, s]: by products that broadcast keys and values, or,
/// as einsum's, with groups and queries in one axis.
void populateGroupedAttentionPatterns(mlir::RewritePatternSet &patterns);

} // namespace dt::import

#endif // PASSES_IMPORT_SCORES_H
