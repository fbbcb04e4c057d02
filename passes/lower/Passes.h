//===- Passes.h - Passes of the lower phase ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_PASSES_H
#define PASSES_LOWER_PASSES_H

#include "dialects/rt/RTOps.h"
#include "passes/Pipeline.h"

#include "mlir/Pass/Pass.h"

namespace dt::lower {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/lower/Passes.h.inc"
#include "passes/lower/Pipelines.h.inc"

/// How ops of nn and dist are lowered: without it the phase finds no way.
void registerLoweringModels(mlir::DialectRegistry &registry);

} // namespace dt::lower

#endif // PASSES_LOWER_PASSES_H
