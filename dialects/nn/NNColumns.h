//===- NNColumns.h - Results that are columns of wider rows -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A concatenation costs nothing where those that make its parts write them to
// their columns of the whole. docs/joined-products.md.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNCOLUMNS_H
#define DIALECTS_NN_NNCOLUMNS_H

#include "dialects/nn/NNOps.h"

namespace dt::nn {

/// Where a value stands in a concatenation that is all that uses it. The whole
/// is rows of `pitch` elements. The value's dims from `axis` on are `offset`
/// and following elements of a row, those before it count rows.
struct Columns {
  ConcatOp concat;
  unsigned axis;
  DimExpr pitch, offset;
};

/// What the value is reshaped from, if nothing else uses that.
mlir::Value getMade(mlir::Value value);

/// Whether an op's lowering can write this result to columns.
bool canWriteColumns(mlir::OpResult result);

/// Nothing if the value has other uses, or its op cannot write it so.
std::optional<Columns> getColumns(mlir::OpResult result);

} // namespace dt::nn

#endif // DIALECTS_NN_NNCOLUMNS_H
