//===- NNLimits.h - Dims that a table bounds --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A graph may read the first n rows of a table (positions) where n is a dim.
// The importer takes for granted that the table has that many rows and says so
// on the nn.dim; whoever gives the dim its bound must keep to it, because the
// rows are then read without a check.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNLIMITS_H
#define DIALECTS_NN_NNLIMITS_H

#include "dialects/nn/NNOps.h"

namespace dt::nn {

/// On an nn.dim: the largest value for which the graph means anything.
inline constexpr llvm::StringLiteral kDimLimitAttr = "nn.limit";
/// Beside it: which node says so, as text for errors.
inline constexpr llvm::StringLiteral kDimLimitedByAttr = "nn.limited_by";

/// On a gather whose table is one rank's block of rows, so that its indices
/// count from the block's begin and give zeros outside of it. A dictionary of
/// integers: `extent` of the whole, the block's `chunk`, and the axis, `over`
/// ranks with `stride`; `within`: such cuts of the block, of the block within
/// it, and so on. `wrap` (unit): negative ones have been counted from the end;
/// `ignored`: what the index in the whole may be besides; `what`: "classes of
/// cross_entropy", if not the rows of this op. A padded table that is not cut,
/// and a cross_entropy over padded classes, are one block of their own.
inline constexpr llvm::StringLiteral kBlockAttr = "nn.block";

/// On a gather or gather_elements (unit): indices are a raw input of the module
/// as it is, token ids or labels; none is meant to count from the end.
inline constexpr llvm::StringLiteral kFromStartAttr = "nn.from_start";

/// An error at `loc` if the dim's bound is above its limit.
llvm::LogicalResult verifyLimit(DimOp dim, mlir::Location loc);

} // namespace dt::nn

#endif // DIALECTS_NN_NNLIMITS_H
