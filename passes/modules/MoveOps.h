//===- MoveOps.h - Part of a module becomes one of its own ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Where a module is cut is one question (CutContrastive, FindModules); what
// follows from it, edges, inputs, parameters, losses, names, is another and the
// same for all cuts.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_MOVEOPS_H
#define PASSES_MODULES_MOVEOPS_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "llvm/ADT/SetVector.h"

namespace dt::modules {

/// Ops of a module's @forward that a new module gets.
struct MovedOps {
  llvm::SetVector<mlir::Operation *> owned;  ///< leave the module
  llvm::SetVector<mlir::Operation *> copied; ///< both compute them

  bool contains(mlir::Operation *op) const {
    return owned.contains(op) || copied.contains(op);
  }
};

/// Moves ops of `module` to a new module `name`, whose origin is that of
/// `module` and which stands beside it: before it if it is `upstream`. What
/// crosses becomes a dist.edge, named as the output that it is or "cut.<n>";
/// raw inputs and parameters go where they are used (tied if on both sides),
/// losses where their numerator is. Operands of copied ops must be moved, or be
/// inputs, or values that the module hands over; no value may go round (from
/// the new module to the old and back).
dist::ModuleOp moveToNewModule(dist::ModuleOp module, const MovedOps &ops,
                               llvm::StringRef name, bool upstream);

/// `wish`, or with the first number behind it that makes it no symbol of
/// `program`.
std::string freeModuleName(mlir::ModuleOp program, llvm::StringRef wish);

/// True if `op` depends on no input of its function.
bool isIndependent(mlir::Operation *op);

} // namespace dt::modules

#endif // PASSES_MODULES_MOVEOPS_H
