//===- SavedSet.h - What one half keeps for the other -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// When a function is cut in two, what the second half uses of the first is an
// argument, a value that the first half returns, or computed again. The choice
// is local: going forward through the values that are used, a value is computed
// again if that keeps fewer bytes than the value has (a norm of a kept value, a
// mask), and kept itself otherwise (a residual stream: its sum costs as much as
// its parts). Minimum cuts (Chen et al. 2016; PyTorch's partitioner) decide the
// same on layers and cost more.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_DIFFERENTIATE_SAVEDSET_H
#define PASSES_DIFFERENTIATE_SAVEDSET_H

#include "passes/differentiate/Activity.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <functional>

namespace dt::differentiate {

using OrderedValues = llvm::SetVector<mlir::Value>;

class SavedSet {
public:
  /// `canRecompute`: whether an op may run in both halves. `always`: those that
  /// may always do, however much that keeps.
  SavedSet(mlir::func::FuncOp function,
           std::function<bool(mlir::Operation *)> canRecompute,
           bool always = false)
      : function(function), mayRecompute(std::move(canRecompute)),
        always(always) {}

  /// Decides for the values of the first half that the second one uses.
  void choose(const OrderedValues &required);
  /// Arguments that it needs.
  bool needs(mlir::BlockArgument argument) const {
    return arguments.contains(argument);
  }
  /// Values that the first half must return.
  bool keeps(mlir::Value value) const { return kept.contains(value); }

private:
  bool isFree(mlir::Operation *op) const;
  bool canRecompute(mlir::Operation *op) const;
  int64_t bytes(mlir::Value v);
  void chooseFor(mlir::Value v);
  void findLeaves(mlir::Value v, OrderedValues &leaves, ValueSet &seen) const;
  void findInputs(mlir::Value v, ValueSet &seen);

  mlir::func::FuncOp function;
  std::function<bool(mlir::Operation *)> mayRecompute;
  bool always;
  ValueSet saved;
  ValueSet arguments, kept;
};

/// The second half's copy of a value of the first, made where it is first used
/// so that it lives no longer than it must. `mapping` knows arguments and kept
/// values.
mlir::Value materialise(mlir::Value v, mlir::OpBuilder &builder,
                        mlir::IRMapping &mapping);

} // namespace dt::differentiate

#endif // PASSES_DIFFERENTIATE_SAVEDSET_H
