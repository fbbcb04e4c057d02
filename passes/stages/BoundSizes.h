//===- BoundSizes.h - FLOPs and bytes at the bounds of a part ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_BOUNDSIZES_H
#define PASSES_STAGES_BOUNDSIZES_H

#include "dialects/dist/DistOps.h"

namespace dt::stages {

/// Of ops, functions and tensors of one module; a function is looked at once.
class BoundSizes {
public:
  explicit BoundSizes(dist::ModuleOp module) : module(module) {}

  /// FLOPs of an op, with what it calls.
  double flopsOf(mlir::Operation *op);
  double flopsOf(mlir::func::FuncOp function);
  /// Bytes of a tensor, or any polynomial, at the bounds of the module's dims;
  /// 0 where a dim has none.
  double bytesOf(mlir::Type type);
  double atBounds(const nn::DimExpr &size);

private:
  dist::ModuleOp module;
  llvm::DenseMap<mlir::Operation *, double> functions;
};

/// A double as an integer of a scheduling problem.
int64_t toInteger(double ns);

} // namespace dt::stages

#endif // PASSES_STAGES_BOUNDSIZES_H
