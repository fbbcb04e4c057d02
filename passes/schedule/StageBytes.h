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
#include "passes/stages/ItemSizes.h"

namespace dt::schedule {

/// What a rank holds of a module all the time, ZeRO's shares included.
planner::StateBytes getStateBytes(dist::ModuleOp module);

/// Residuals that a function returns.
planner::Linear getResidualBytes(const stages::Sizes &sizes,
                                 mlir::func::FuncOp function);
/// Inputs that backward functions read again.
planner::Linear getInputBytes(dist::ModuleOp module,
                              const stages::Sizes &sizes);
/// Of both, what the weights' half reads: all, if there is no other half.
planner::Linear getKeptToWeights(dist::ModuleOp module,
                                 const stages::Sizes &sizes);
/// Gradients of outputs that the weights' half reads again.
planner::Linear getGradientBytes(dist::ModuleOp module,
                                 const stages::Sizes &sizes);
/// Outputs that no module takes and raw inputs that no backward reads: there is
/// one of each, however many microbatches are in flight.
planner::Linear getPassingBytes(dist::ModuleOp module,
                                const stages::Sizes &sizes);
/// The most that lives at once inside one of the module's tasks, for the
/// largest item. Places are not given: what the allocator cannot fill comes on
/// top. `whole`: as if the halves of its backward were one, what one keeps for
/// the other is inside.
planner::Linear getScratchBytes(dist::ModuleOp module,
                                const stages::Sizes &sizes, bool whole);
/// The same inside of one of its layers, a backward in one piece.
planner::Linear getLayerScratchBytes(dist::ModuleOp module,
                                     const stages::Sizes &sizes);

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
