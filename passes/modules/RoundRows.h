//===- RoundRows.h - Rows that ranks can share out --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_ROUNDROWS_H
#define PASSES_MODULES_ROUNDROWS_H

#include "dialects/dist/DistOps.h"

namespace dt::modules {

/// Makes the sizes of a module with plan (`tp`, `cp`, `joined`) multiples of
/// what its ranks divide: of packed rows, and of items that joined replicas
/// share out. `check`: whether they may share out those that a dim counts; what
/// it fails for stays, and so does all behind it.
llvm::LogicalResult
roundRows(dist::ModuleOp module,
          llvm::function_ref<llvm::LogicalResult(nn::DimOp)> check);

} // namespace dt::modules

#endif // PASSES_MODULES_ROUNDROWS_H
