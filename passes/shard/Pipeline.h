//===- Pipeline.h - The shard phase -----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_PIPELINE_H
#define PASSES_SHARD_PIPELINE_H

#include "llvm/ADT/StringRef.h"

namespace mlir {
class DialectRegistry;
class OpPassManager;
} // namespace mlir

namespace dt {

/// On nn.parameter, read by the phase: "rows" (its first dim is cut, if it can
/// be) or "whole".
inline constexpr llvm::StringLiteral kCutHintAttr = "dist.cut_hint";

/// Right before it: each module is cut by itself, but copies of one parameter
/// must be alike.
void buildAgreeTies(mlir::OpPassManager &pm);
/// From whole functions to those of one rank, where a module has `dist.tp`.
/// Anchors on the builtin module.
void buildShardPipeline(mlir::OpPassManager &pm);

void registerShardPasses();
/// What ops of other dialects tell the partitioner.
void registerShardModels(mlir::DialectRegistry &registry);

} // namespace dt

#endif // PASSES_SHARD_PIPELINE_H
