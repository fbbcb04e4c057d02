//===- Activity.h - What varies and what counts -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The two halves of activity analysis (Griewank & Walther, Evaluating
// Derivatives, section 6.2): a value varies if it depends on something that
// wants a gradient, and counts if a result with a gradient depends on it. Only
// values that do both get gradients. Functions are straight-line, so one sweep
// each suffices; calls are answered from the callee, memoised.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_DIFFERENTIATE_ACTIVITY_H
#define PASSES_DIFFERENTIATE_ACTIVITY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseSet.h"
#include <map>

namespace dt::differentiate {

using Flags = llvm::SmallVector<bool>;
using ValueSet = llvm::DenseSet<mlir::Value>;

/// A tensor of floats: anything else has no gradient.
bool isDifferentiable(mlir::Value value);
/// A read of a parameter that trains.
bool isTrainedRead(mlir::Operation *op, mlir::SymbolTableCollection &tables);
mlir::func::FuncOp getCallee(mlir::func::CallOp call,
                             mlir::SymbolTableCollection &tables);

class Activity {
public:
  explicit Activity(mlir::SymbolTableCollection &tables) : tables(tables) {}

  /// Values that depend on a trained read or on an argument flagged in `args`.
  ValueSet variedValues(mlir::func::FuncOp function, llvm::ArrayRef<bool> args);
  /// Values on which a result flagged in `results` depends smoothly.
  ValueSet countingValues(mlir::func::FuncOp function,
                          llvm::ArrayRef<bool> results);
  Flags variedResults(mlir::func::FuncOp function, llvm::ArrayRef<bool> args);
  Flags countingArguments(mlir::func::FuncOp function,
                          llvm::ArrayRef<bool> results);

private:
  using Memo = std::map<std::pair<mlir::Operation *, Flags>, Flags>;
  Flags operandsThatCount(mlir::Operation *op, const ValueSet &counting);
  Flags resultsThatVary(mlir::Operation *op, const ValueSet &varied);

  mlir::SymbolTableCollection &tables;
  Memo varied, counting;
};

} // namespace dt::differentiate

#endif // PASSES_DIFFERENTIATE_ACTIVITY_H
