//===- Pipeline.h - The lower phase -----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// nn and dist in, rt out.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_PIPELINE_H
#define PASSES_LOWER_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace dt {

void buildLowerPipeline(mlir::OpPassManager &pm);
void registerLowerPasses();
/// How ops of nn and dist are lowered: without it the phase finds no way.
void registerLoweringModels(mlir::DialectRegistry &registry);

} // namespace dt

#endif // PASSES_LOWER_PIPELINE_H
