//===- ItemSizes.h - What an item brings to a size --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Sizes of tensors, FLOPs and bytes are polynomials of a module's dims. Here
// they become the planner's figures: so much for an item, for each of its
// tokens, and for the square of these (docs/sizes.md).
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_ITEMSIZES_H
#define PASSES_SCHEDULE_ITEMSIZES_H

#include "dialects/dist/DistOps.h"
#include "passes/planner/describe/Model.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

namespace dt::schedule {

/// Sizes as so much for the part and so much an item more, with its tokens and
/// their square. What an item is, is said by how much of each dim that counts
/// items, or adds a measure of theirs up, it has.
class Sizes {
public:
  /// Of a dim: so much for an item, and so much for each of its tokens.
  struct Share {
    double each = 0, token = 0;
  };
  /// `most`: tokens of the largest item.
  Sizes(dist::ModuleOp module, llvm::function_ref<Share(nn::DimOp)> shareOfItem,
        double most = 1);
  /// The part at its bounds is the item.
  explicit Sizes(dist::ModuleOp module);

  double ofNothing(const nn::DimExpr &size) const;
  planner::Linear ofItem(const nn::DimExpr &size) const;
  planner::Linear bytesOfItem(mlir::Type type) const;
  /// Of the largest item.
  double atMost(const planner::Linear &figure) const {
    return figure.at(planner::TokenSums::of(most));
  }

private:
  llvm::StringMap<Share> items;
  llvm::StringMap<double> fixed;
  double most = 1;
};

/// An item of the module's own kind; samples have as many others as they may,
/// in proportion to their tokens where these are not always as many. Tokens are
/// the first measure of the kind that the recipe declares; others are in
/// proportion to it. A module by samples may have no measure of theirs.
Sizes getSizesOfItem(dist::ModuleOp module);
/// The measure that tokens of a kind's items are; null: they are all alike. For
/// a module: of its own kind, if any of its dims adds one of the kind up.
dist::MeasureOp getTokens(mlir::ModuleOp program, mlir::StringRef kind);
dist::MeasureOp getTokens(dist::ModuleOp module);

/// The dim that says how many items of a kind, or how large ones, a module
/// works on; null: there is none with a bound.
nn::DimOp getMainDim(dist::ModuleOp module, llvm::StringRef kind);
/// Items of the largest size that a part has room for.
double countItems(nn::DimOp dim);

} // namespace dt::schedule

#endif // PASSES_SCHEDULE_ITEMSIZES_H
