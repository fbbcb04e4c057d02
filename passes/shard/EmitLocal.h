//===- EmitLocal.h - Functions with the shapes of one rank ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_EMITLOCAL_H
#define PASSES_SHARD_EMITLOCAL_H

#include "passes/shard/LayoutSearch.h"

namespace dt::shard {

/// Rewrites the program's functions in place as the solution says; calls must
/// have been emitted before. Returns the layouts at their boundaries.
/// An error where something needs rows of other ranks' experts.
mlir::FailureOr<LayerLayouts> emitLocal(ShardProblem &program,
                                        const CostModel &model,
                                        const LayoutChoice &solution,
                                        const Axis &axis);

/// `layout` of a tensor of that shape with one more cut; no layout: whole.
dist::LayoutAttr addCut(mlir::Attribute layout, mlir::RankedTensorType type,
                        const Cut &cut, const Axis &axis);
/// The type of a rank's part.
mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                 const Layout &layout, const Axis &axis);

} // namespace dt::shard

#endif // PASSES_SHARD_EMITLOCAL_H
