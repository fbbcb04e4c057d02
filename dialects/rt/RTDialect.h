//===- RTDialect.h - The rt dialect and its buffer type ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTDIALECT_H
#define DIALECTS_RT_RTDIALECT_H

#include "dialects/dist/RuntimeEnums.h"
#include "dialects/nn/NNDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include "dialects/rt/RTDialect.h.inc"
#include "dialects/rt/RTEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/rt/RTTypes.h.inc"

namespace dt::rt {

/// The type that scalar code uses for an element of a buffer: unsigned integers
/// are signless, the ops say how they are meant; floats of 16 bits are f32.
mlir::Type getScalarType(mlir::Type element);

} // namespace dt::rt

#endif // DIALECTS_RT_RTDIALECT_H
