//===- NNLimits.h - Dims that a table bounds --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A graph may read the first n rows of a table (positions) where n is a dim.
// The importer takes for granted that the table has that many rows and says so
// on the nn.dim (`limit`); whoever gives the dim its bound must keep to it,
// because the rows are then read without a check.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNLIMITS_H
#define DIALECTS_NN_NNLIMITS_H

#include "dialects/nn/NNOps.h"

namespace dt::nn {

/// An error at `loc` if the dim's bound is above its limit.
llvm::LogicalResult verifyLimit(DimOp dim, mlir::Location loc);

} // namespace dt::nn

#endif // DIALECTS_NN_NNLIMITS_H
