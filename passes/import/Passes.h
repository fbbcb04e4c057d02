//===- Passes.h - The import phase --------------------------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_PASSES_H
#define PASSES_IMPORT_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dt::import {

#define GEN_PASS_DECL
#include "passes/import/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/import/Passes.h.inc"

/// Everything from the importer's output to raised, outlined nn IR. Anchors on
/// the module op; function passes reach functions inside dist.module.
void buildImportPipeline(mlir::OpPassManager &pm);

} // namespace dt::import

#endif // PASSES_IMPORT_PASSES_H
