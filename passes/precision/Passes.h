//===- Passes.h - Passes of the precision phase -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PRECISION_PASSES_H
#define PASSES_PRECISION_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dt::precision {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/precision/Passes.h.inc"
#include "passes/precision/Pipelines.h.inc"

} // namespace dt::precision

#endif // PASSES_PRECISION_PASSES_H
