//===- VerifyApart.h - Items that do not depend on one another --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_VERIFYAPART_H
#define PASSES_MODULES_VERIFYAPART_H

#include "dialects/dist/DistOps.h"

namespace dt::modules {

/// Fails, with an error, if items of a batch depend on one another where losses
/// or other modules see it. Changes nothing.
llvm::LogicalResult verifyApart(dist::ModuleOp module);

} // namespace dt::modules

#endif // PASSES_MODULES_VERIFYAPART_H
