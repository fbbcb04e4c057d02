//===- Passes.h - The stages phase  -------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_PASSES_H
#define PASSES_STAGES_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "passes/Pipeline.h"

#include "mlir/Pass/Pass.h"

namespace dt::stages {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/stages/Passes.h.inc"
#include "passes/stages/Pipelines.h.inc"

} // namespace dt::stages

#endif // PASSES_STAGES_PASSES_H
