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

/// Sizes as so much for the part and so much an item more. What an item is, is
/// said by how many of each dim that counts items it has.
class Sizes {
public:
  Sizes(dist::ModuleOp module,
        llvm::function_ref<double(nn::DimOp)> countOfItem);
  /// The part at its bounds is the item.
  explicit Sizes(dist::ModuleOp module);

  double ofNothing(const nn::DimExpr &size) const { return at(size, 0); }
  double ofItem(const nn::DimExpr &size) const {
    return at(size, 1) - at(size, 0);
  }
  double bytesOfItem(mlir::Type type) const;

private:
  /// With none or all of an item's own.
  double at(const nn::DimExpr &size, double share) const;

  llvm::StringMap<double> items, fixed;
};

/// What a rank holds of a module all the time, ZeRO's shares included.
planner::StateBytes getStateBytes(dist::ModuleOp module);

/// Residuals that a function returns.
double getResidualBytes(const Sizes &sizes, mlir::func::FuncOp function);
/// Inputs that backward functions read again.
double getInputBytes(dist::ModuleOp module, const Sizes &sizes);
/// Of both, what the weights' half reads: all, if there is no other half.
double getKeptToWeights(dist::ModuleOp module, const Sizes &sizes);
/// Gradients of outputs that the weights' half reads again.
double getGradientBytes(dist::ModuleOp module, const Sizes &sizes);
/// Outputs that no module takes and raw inputs that no backward reads: there is
/// one of each, however many microbatches are in flight.
double getPassingBytes(dist::ModuleOp module, const Sizes &sizes);
/// The most that lives at once inside one of the module's tasks. Places are not
/// given: what the allocator cannot fill comes on top. `whole`: as if the
/// halves of its backward were one, what one keeps for the other is inside.
double getScratchBytes(dist::ModuleOp module, const Sizes &sizes, bool whole);

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
