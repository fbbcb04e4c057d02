//===- StageBytes.h - What a stage holds of a rank's memory -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Read off functions as the phase optimize leaves them, by the rules by which
// the phase lower gives buffers places (lower/StepPlan.cpp). All bytes are at
// the sizes that are given: of an item, or of a part at its bounds.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_STAGEBYTES_H
#define PASSES_SCHEDULE_STAGEBYTES_H

#include "dialects/dist/DistOps.h"
#include "passes/planner/cost/Cost.h"

#include "llvm/ADT/STLFunctionalExtras.h"

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

/// What a rank holds of a module all the time, ZeRO's shares included.
planner::StateBytes getStateBytes(dist::ModuleOp module);

/// Residuals that a function returns.
planner::Linear getResidualBytes(const Sizes &sizes,
                                 mlir::func::FuncOp function);
/// Inputs that backward functions read again.
planner::Linear getInputBytes(dist::ModuleOp module, const Sizes &sizes);
/// Of both, what the weights' half reads: all, if there is no other half.
planner::Linear getKeptToWeights(dist::ModuleOp module, const Sizes &sizes);
/// Gradients of outputs that the weights' half reads again.
planner::Linear getGradientBytes(dist::ModuleOp module, const Sizes &sizes);
/// Outputs that no module takes and raw inputs that no backward reads: there is
/// one of each, however many microbatches are in flight.
planner::Linear getPassingBytes(dist::ModuleOp module, const Sizes &sizes);
/// The most that lives at once inside one of the module's tasks, for the
/// largest item. Places are not given: what the allocator cannot fill comes on
/// top. `whole`: as if the halves of its backward were one, what one keeps for
/// the other is inside.
planner::Linear getScratchBytes(dist::ModuleOp module, const Sizes &sizes,
                                bool whole);

/// What a microbatch has from its forward on, all its pieces, by kind of slot
/// (runtime/Enums.h, SlotKind): what is kept, what goes to other modules, and
/// the gradients of that.
struct SlotBytes {
  double early = 0, whole = 0, late = 0;
  double all() const { return early + whole + late; }
};
SlotBytes getSlotBytes(dist::ModuleOp module);

} // namespace dt::schedule

#endif // PASSES_SCHEDULE_STAGEBYTES_H
