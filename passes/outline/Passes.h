//===- Passes.h - The outline phase  ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OUTLINE_PASSES_H
#define PASSES_OUTLINE_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dt::outline {

#define GEN_PASS_DECL
#include "passes/outline/Passes.h.inc"

} // namespace dt::outline

#endif // PASSES_OUTLINE_PASSES_H
