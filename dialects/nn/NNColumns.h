//===- NNColumns.h - Results that are columns of wider rows -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A concatenation costs nothing where those that make its parts write them to
// their columns of the whole, and a slice nothing where those that use it read
// columns. docs/joined-products.md.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNCOLUMNS_H
#define DIALECTS_NN_NNCOLUMNS_H

#include "dialects/nn/NNOps.h"

namespace dt::nn {

/// Where a value stands in another, the whole, which is rows of `pitch`
/// elements. The value's dims from `axis` on are `offset` and following
/// elements of a row, those before it count rows.
struct Columns {
  mlir::Value whole;
  unsigned axis;
  DimExpr pitch, offset;
};

/// What the value is reshaped from, if nothing else uses that.
mlir::Value getMade(mlir::Value value);

/// Whether an op's lowering can write this result to columns.
bool canWriteColumns(mlir::OpResult result);

/// Columns of a concatenation that is all that uses the result. Nothing if it
/// has other uses, or its op cannot write it so.
std::optional<Columns> getColumns(mlir::OpResult result);

/// Whether the slice takes columns of several rows: steps of 1 along one axis,
/// all of others.
bool isColumns(SliceOp slice);

/// What a slice of columns, or what is reshaped from one, is columns of.
std::optional<Columns> getReadColumns(mlir::Value value);

/// Whether all that uses the slice reads columns where they are, so that nobody
/// needs a tensor of them. Of `other` uses somebody else takes care.
bool isReadInPlace(
    SliceOp slice, llvm::function_ref<bool(mlir::OpOperand &)> other =
                       [](mlir::OpOperand &) { return false; });

} // namespace dt::nn

#endif // DIALECTS_NN_NNCOLUMNS_H
