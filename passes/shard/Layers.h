//===- Layers.h - Layer functions and the calls of them ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_LAYERS_H
#define PASSES_SHARD_LAYERS_H

#include "passes/shard/ShardProblem.h"

namespace dt::shard {

/// A layer as its callers see it.
struct Layer {
  Pair pair;
  Links links;
  /// Forward results that somebody but the backward function uses.
  llvm::SmallVector<bool> outputs;
};

/// Layers that a module function calls: what is a parameter, what a residual,
/// whose gradient a result is, all read off the calls.
std::vector<Layer> findLayers(const ShardProblem &whole);

/// The type that goes from layer to layer: of the first result of floats that
/// an argument has, too, which is no parameter.
mlir::RankedTensorType getStream(const Layer &layer);

/// Of rows so many that there are always a multiple of them: all, the tokens of
/// each of a batch's samples ([batch * tokens]), or what packed rows are
/// rounded up to a multiple of.
std::optional<int64_t> getTokens(const nn::DimExpr &rows);
/// Where a stream of tokens is cut for sequence or context parallelism: the
/// last dim before the features, or the first one where samples are shared out.
/// Nothing if the ranks do not divide it.
std::optional<Cut> getTokenCut(mlir::RankedTensorType stream, const Axis &axis);

} // namespace dt::shard

#endif // PASSES_SHARD_LAYERS_H
