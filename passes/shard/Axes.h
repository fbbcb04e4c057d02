//===- Axes.h - Axes of ranks that a module is cut over ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_AXES_H
#define PASSES_SHARD_AXES_H

#include "passes/shard/Layers.h"

namespace dt::shard {

/// Functions that are called from outside and have something to cut.
llvm::SmallVector<Pair> findPairs(dist::ModuleOp module);

/// The tensor-parallel group; with `ep` the axis of experts first, the major
/// one.
llvm::SmallVector<Axis> getGroup(dist::ModuleOp module);

/// 4 -> 4, or 2 x 2 where the module's functions fit that better: major axis
/// first.
llvm::SmallVector<Axis> splitAxis(dist::ModuleOp module, const Axis &whole);

/// Ranks (j, c, t) of a replica stand at (j * cp + c) * tp + t. Where they
/// share out experts, neighbours do, on an axis of their own inside of the
/// others'. Joined replicas come first: of packed rows, too, they have their
/// tokens. Keys go round where one axis cuts all tokens.
llvm::SmallVector<Axis> getContextAxes(dist::ModuleOp module);

/// Stages whose attention does not say how tokens go round cut them as the
/// others of their unit do: sets `token_block`.
void shareTokenBlocks(mlir::ModuleOp program);

} // namespace dt::shard

#endif // PASSES_SHARD_AXES_H
