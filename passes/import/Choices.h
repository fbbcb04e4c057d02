//===- Choices.h - Which rows are multiplied by which experts ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_CHOICES_H
#define PASSES_IMPORT_CHOICES_H

#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace dt::import {

/// Numbers of experts as they were chosen, before reshapes and casts, to the
/// products of rows by them; in the function's order.
using Choices =
    llvm::MapVector<mlir::Value, llvm::SmallVector<nn::ExpertLinearOp>>;
Choices findExpertChoices(mlir::func::FuncOp function);

/// How many experts a choice is among.
int64_t countExperts(nn::ExpertLinearOp product);

/// Appends a result of that name.
void addResult(mlir::func::FuncOp function, mlir::Value value,
               llvm::StringRef name);

} // namespace dt::import

#endif // PASSES_IMPORT_CHOICES_H
