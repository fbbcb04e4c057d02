//===- Passes.h - Passes of the optimize phase ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OPTIMIZE_PASSES_H
#define PASSES_OPTIMIZE_PASSES_H

#include "dialects/nn/NNOps.h"
#include "passes/Pipeline.h"

#include "mlir/Pass/Pass.h"

namespace dt::optimize {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/optimize/Passes.h.inc"
#include "passes/optimize/Pipelines.h.inc"

} // namespace dt::optimize

#endif // PASSES_OPTIMIZE_PASSES_H
