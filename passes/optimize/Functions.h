//===- Functions.h - Results of functions that become one -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OPTIMIZE_FUNCTIONS_H
#define PASSES_OPTIMIZE_FUNCTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dt::optimize {

/// All calls of the function in the op around it.
llvm::SmallVector<mlir::func::CallOp> getCalls(mlir::func::FuncOp function);

/// Old results of a call, and the new one that stands for some of them.
using ReplaceResults =
    llvm::function_ref<void(mlir::ValueRange old, mlir::Value joined)>;

/// The function returns `joined` in place of its results `places`, at the first
/// of them, whose attributes it gets. For each call, `replace` takes all uses
/// from those of `places`.
void joinResults(mlir::func::FuncOp function, llvm::ArrayRef<unsigned> places,
                 mlir::Value joined, ReplaceResults replace);

} // namespace dt::optimize

#endif // PASSES_OPTIMIZE_FUNCTIONS_H
