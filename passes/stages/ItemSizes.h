//===- ItemSizes.h - What an item brings to a size --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Sizes of tensors, FLOPs and bytes are polynomials of a module's dims. Here
// they become the planner's figures: so much for an item, for each of its
// tokens and each 1 of its other measure, and for products of two of these
// (docs/sizes.md).
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_ITEMSIZES_H
#define PASSES_STAGES_ITEMSIZES_H

#include "dialects/dist/DistOps.h"
#include "passes/planner/describe/Model.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

namespace dt::stages {

/// Sizes as so much for the part and so much an item more, with its measures
/// and their products. What an item is, is said by how much of each dim that
/// counts items, or adds a measure of theirs up, it has.
class Sizes {
public:
  /// Of a dim: so much for an item, for each of its tokens, and for each 1 of
  /// its other measure.
  struct Share {
    double each = 0, token = 0, other = 0;
  };
  /// Of the largest item.
  struct Most {
    double tokens, other;
  };
  Sizes(dist::ModuleOp module, llvm::function_ref<Share(nn::DimOp)> shareOfItem,
        Most most);
  /// The part at its bounds is the item.
  explicit Sizes(dist::ModuleOp module);

  double ofNothing(const nn::DimExpr &size) const;
  planner::Linear ofItem(const nn::DimExpr &size) const;
  planner::Linear bytesOfItem(mlir::Type type) const;
  /// Of the largest item.
  double atMost(const planner::Linear &figure) const {
    return figure.at(planner::TokenSums::of(most.tokens, most.other));
  }

private:
  llvm::StringMap<Share> items;
  llvm::StringMap<double> fixed;
  Most most;
};

/// What the planner knows of how large items of a kind are. Tokens are the
/// first measure of the kind that the recipe declares (of samples the one of
/// that name), the other one is the second.
struct KindMeasures {
  dist::MeasureOp tokens, other; ///< null: there is none
};
KindMeasures getMeasures(mlir::ModuleOp program, mlir::StringRef kind);
/// Of the module's own kind those that any of its dims adds up. Further
/// measures of a kind are taken to grow with tokens.
KindMeasures getMeasures(dist::ModuleOp module);

/// An item of the module's own kind; samples have as many others as they may,
/// in proportion to their tokens where these are not always as many. A module
/// by samples may have no measure of theirs.
Sizes getSizesOfItem(dist::ModuleOp module);

/// The dim that says how many items of a kind, or how large ones, a module
/// works on; null: there is none with a bound.
nn::DimOp getMainDim(dist::ModuleOp module, llvm::StringRef kind);
/// Items of the largest size that a part has room for.
double countItems(nn::DimOp dim);

} // namespace dt::stages

#endif // PASSES_STAGES_ITEMSIZES_H
