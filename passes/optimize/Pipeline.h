//===- Pipeline.h - The optimize phase --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OPTIMIZE_PIPELINE_H
#define PASSES_OPTIMIZE_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace dt {

void buildOptimizePipeline(mlir::OpPassManager &pm);
void registerOptimizePasses();

} // namespace dt

#endif // PASSES_OPTIMIZE_PIPELINE_H
