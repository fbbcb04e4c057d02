//===- Passes.h - The outline phase  ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OUTLINE_PASSES_H
#define PASSES_OUTLINE_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dt::outline {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/outline/Passes.h.inc"
#include "passes/outline/Pipelines.h.inc"

} // namespace dt::outline

#endif // PASSES_OUTLINE_PASSES_H
