//===- Materialize.h - Symbolic tensors as IR -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_IMPORT_MATERIALIZE_H
#define MODELS_FRONTEND_IMPORT_MATERIALIZE_H

#include "models/frontend/symbolic/SymbolicTensor.h"

#include "mlir/IR/Builders.h"

namespace dt::models {

mlir::Type toMlir(mlir::MLIRContext *context, symbolic::Element element);
/// Nothing for element types that symbolic tensors do not have.
std::optional<symbolic::Element> toSymbolic(mlir::Type element);

/// Emits `t`: a literal as nn.constant, everything else as nn.generate. What is
/// computed has size 1 along dims that the element does not depend on; unless
/// `compact`, nn.broadcast repeats it to t's shape.
mlir::Value materialize(mlir::OpBuilder &builder, mlir::Location loc,
                        const symbolic::SymbolicTensor &t, bool compact);

} // namespace dt::models

#endif // MODELS_FRONTEND_IMPORT_MATERIALIZE_H
