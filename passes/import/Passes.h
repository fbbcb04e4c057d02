//===- Passes.h - The import phase ------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_PASSES_H
#define PASSES_IMPORT_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dt::import {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/import/Passes.h.inc"
#include "passes/import/Pipelines.h.inc"
} // namespace dt::import

#endif // PASSES_IMPORT_PASSES_H
