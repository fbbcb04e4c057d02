//===- JoinedParameters.h - Parameters side by side, and who uses them ----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OPTIMIZE_JOINEDPARAMETERS_H
#define PASSES_OPTIMIZE_JOINEDPARAMETERS_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dt::optimize {

/// Parameters in the order in which they are to stand.
using Names = llvm::SmallVector<mlir::StringAttr>;

/// Which parameters of a module get places side by side. A parameter is in one
/// group at most; neighbours of a group may be joined without the others. A
/// layer function sees parameters as operands: it may join them if each of its
/// calls gives it parameters of a group.
class JoinedParameters {
public:
  explicit JoinedParameters(dist::ModuleOp module);

  /// What the values are, parameters by call of the function around them;
  /// nothing if one of them is something else in some call.
  llvm::SmallVector<Names> namesOfValues(llvm::ArrayRef<mlir::Value> values,
                                         unsigned depth = 0);
  /// Whose gradients the values are, and nothing else.
  llvm::SmallVector<Names> namesOfGradients(llvm::ArrayRef<mlir::Value> values,
                                            unsigned depth = 0);

  /// What parameters must have in common to stand side by side; null of those
  /// that must not.
  mlir::StringAttr getKind(mlir::StringAttr name);
  /// Where it stands among the module's.
  unsigned getOrder(mlir::StringAttr name) { return order.lookup(name); }
  /// Makes each list a group; says no, and changes nothing, if one cannot be.
  bool join(llvm::ArrayRef<Names> lists);

  /// The values of a group as one. Functions get another operand for it.
  mlir::Value joinValues(llvm::ArrayRef<mlir::Value> values);
  /// `joined` takes the place of the gradients, which lose their only use.
  void joinGradients(llvm::ArrayRef<mlir::Value> gradients, mlir::Value joined);
  /// Operands of functions that nobody uses any more.
  void eraseUnused();

private:
  mlir::Value joinReads(llvm::ArrayRef<mlir::Value> values);
  mlir::Value joinArguments(llvm::ArrayRef<mlir::Value> values);
  void joinResults(mlir::func::ReturnOp ret,
                   llvm::ArrayRef<mlir::Value> gradients, mlir::Value joined);
  void joinAccumulates(llvm::ArrayRef<mlir::Value> gradients,
                       mlir::Value joined);

  dist::ModuleOp module;
  llvm::DenseMap<mlir::StringAttr, nn::ParameterOp> parameters;
  llvm::DenseMap<mlir::StringAttr, unsigned> order;
  llvm::DenseSet<mlir::StringAttr> tied;
  /// By member.
  llvm::DenseMap<mlir::StringAttr, Names> groups;
  llvm::SmallVector<std::pair<llvm::SmallVector<mlir::Value>, mlir::Value>>
      joinedValues;
  llvm::SetVector<mlir::Value> replaced; ///< arguments
};

} // namespace dt::optimize

#endif // PASSES_OPTIMIZE_JOINEDPARAMETERS_H
