//===- Pipeline.h - Passes in order -----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PIPELINE_H
#define PASSES_PIPELINE_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/ErrorHandling.h"

namespace dt {

/// Appends passes in MLIR's textual form; they must have been registered.
inline void addPasses(mlir::OpPassManager &pm, llvm::StringRef passes) {
  if (mlir::failed(mlir::parsePassPipeline(passes, pm)))
    llvm::report_fatal_error("no pipeline: " + llvm::Twine(passes));
}

} // namespace dt

#endif // PASSES_PIPELINE_H
