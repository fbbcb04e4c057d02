//===- CheckPadding.h - Rows that are no item's -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_CHECKPADDING_H
#define PASSES_MODULES_CHECKPADDING_H

#include "dialects/dist/DistOps.h"

namespace dt::modules {

/// Whether parts of some module have rows behind those of the last item, since
/// these are rounded up to a multiple (docs/sizes.md).
bool hasPadding(mlir::ModuleOp program);

/// Such rows are computed like others and must reach none of them. Fails, with
/// an error, if the module writes or reads by their numbers what may not be
/// there for them.
llvm::LogicalResult checkPadding(dist::ModuleOp module);

} // namespace dt::modules

#endif // PASSES_MODULES_CHECKPADDING_H
