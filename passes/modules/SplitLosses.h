//===- SplitLosses.h - A loss as quotients of sums --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_SPLITLOSSES_H
#define PASSES_MODULES_SPLITLOSSES_H

#include "passes/modules/ItemAxes.h"

namespace dt::modules {

/// weight * factors * numerator / denominator of a loss.
struct LossTerm {
  double weight = 1;
  /// Summed over all its axes it is a sum over items.
  mlir::Value numerator;
  /// Numbers by which the numerator is multiplied, that depend on no item (but
  /// may be learned).
  llvm::SmallVector<mlir::Value> factors;
  /// From raw inputs only. Null: `count` elements, or if that is 0 nothing (the loss is a plain sum).
  mlir::Value denominator;
  nn::DimExpr count = 0;
};

struct LossSplit {
  llvm::SmallVector<LossTerm> terms;
  /// Where it failed; null if it did not.
  mlir::Operation *culprit = nullptr;
  std::string reason;
};

/// Reads a value of one element as a sum of terms.
LossSplit splitLoss(mlir::Value loss, const ItemAnalysis &analysis);

} // namespace dt::modules

#endif // PASSES_MODULES_SPLITLOSSES_H
