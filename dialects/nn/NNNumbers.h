//===- NNNumbers.h - Numbers that the graph itself knows --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNNUMBERS_H
#define DIALECTS_NN_NNNUMBERS_H

#include "dialects/nn/NNOps.h"

namespace dt::nn {

/// The number that all elements are.
std::optional<double> splatOf(mlir::Attribute value);
/// The same of a constant, through casts and views.
std::optional<double> splatOf(mlir::Value value);

/// The cast changes no number that a count can be.
bool keepsCounts(CastOp op);

/// The size that a scalar of a generate's region is, through casts.
std::optional<DimExpr> readSize(mlir::Value scalar);

/// Every term counts items of one kind: parts' sizes add up to the whole's.
bool isSumOverItems(const DimExpr &count,
                    llvm::function_ref<bool(llvm::StringRef)> isItem);

} // namespace dt::nn

#endif // DIALECTS_NN_NNNUMBERS_H
