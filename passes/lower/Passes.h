//===- Passes.h - Passes of the lower phase ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_PASSES_H
#define PASSES_LOWER_PASSES_H

#include "dialects/rt/RTOps.h"

#include "mlir/Pass/Pass.h"

namespace dt::lower {

#define GEN_PASS_DECL
#include "passes/lower/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/lower/Passes.h.inc"

} // namespace dt::lower

#endif // PASSES_LOWER_PASSES_H
