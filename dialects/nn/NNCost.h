//===- NNCost.h - What operators cost, and may round ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Floating-point operations are polynomials of the module's symbols; a
// multiply-add counts 2. Products are exact. Norms, softmax and losses count
// operations an element, with exp as one: they are bound by memory anyway.
//
// Products, norms and reductions take narrow operands and sum in 32 bits.
// Gradients of parameters, statistics and losses are not narrowed: they are
// summed further.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNCOST_H
#define DIALECTS_NN_NNCOST_H

#include "dialects/nn/NNOps.h"

namespace dt::nn {

/// How many elements a tensor has.
inline DimExpr elements(mlir::Value tensor) {
  return getNumElements(getShape(tensor));
}
/// A number of operations for each of them.
inline DimExpr perElement(mlir::Value tensor, int64_t operations) {
  return elements(tensor) * DimExpr(operations);
}

/// Narrow operands and results, sums in full.
PrecisionRule sumsInFull(mlir::Operation *op);
/// Narrow operands; what is summed up stays full.
PrecisionRule sumsUp(mlir::Operation *op);

} // namespace dt::nn

#endif // DIALECTS_NN_NNCOST_H
