//===- Passes.h - Passes of the modules phase -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_PASSES_H
#define PASSES_MODULES_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "passes/Pipeline.h"

#include "mlir/Pass/Pass.h"

namespace dt::modules {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/modules/Passes.h.inc"
#include "passes/modules/Pipelines.h.inc"

} // namespace dt::modules

#endif // PASSES_MODULES_PASSES_H
