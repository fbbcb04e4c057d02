//===- SplitLosses.h - A loss as quotients of sums --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_SPLITLOSSES_H
#define PASSES_MODULES_SPLITLOSSES_H

#include "passes/modules/Denominator.h"
#include "passes/modules/ItemAxes.h"

namespace dt::modules {

/// What a term is multiplied with or divided by: a number that depends on no
/// item (but may be learned); or a condition without which (`unless`: with
/// which) it is 0.
struct LossStep {
  enum Kind { Times, Over, When, Unless };
  Kind kind;
  mlir::Value value;
};

/// weight * steps(numerator) / (max(denominator, atLeast) + plus) of a loss.
struct LossTerm {
  double weight = 1;
  /// Summed over all its axes it is a sum over items.
  mlir::Value numerator;
  llvm::SmallVector<LossStep> steps; ///< outermost first
  /// From raw inputs only; without a value and a count the loss is a plain sum.
  Denominator denominator;
  bool isDivided() const {
    return denominator.value || denominator.count != nn::DimExpr(0);
  }
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
