//===- RTOps.h - Operators of the rt dialect --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTOPS_H
#define DIALECTS_RT_RTOPS_H

#include "dialects/dist/DistOps.h"
#include "dialects/dist/RankList.h"
#include "dialects/rt/RTDialect.h"

#include "llvm/ADT/MapVector.h"

namespace dt::rt {
constexpr int64_t kAlignment = 64; ///< bytes, of places in regions
} // namespace dt::rt

#define GET_OP_CLASSES
#include "dialects/rt/RTOps.h.inc"

namespace dt::rt {
/// The parameters that an rt.parameter or rt.gradient is the address of.
llvm::SmallVector<mlir::StringAttr> getJoined(mlir::Operation *op);
/// By parameter: the last op of a function that may touch its gradient, itself
/// or in what it calls.
llvm::MapVector<mlir::StringAttr, mlir::Operation *>
getLastGradientUses(FuncOp function);
} // namespace dt::rt

#endif // DIALECTS_RT_RTOPS_H
