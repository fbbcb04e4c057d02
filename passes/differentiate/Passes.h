//===- Passes.h - The differentiate phase -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_DIFFERENTIATE_PASSES_H
#define PASSES_DIFFERENTIATE_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNNames.h"
#include "dialects/nn/NNOps.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dt::differentiate {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/differentiate/Passes.h.inc"
#include "passes/differentiate/Pipelines.h.inc"

} // namespace dt::differentiate

#endif // PASSES_DIFFERENTIATE_PASSES_H
