//===- Pipeline.h - The outline phase  ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OUTLINE_PIPELINE_H
#define PASSES_OUTLINE_PIPELINE_H

namespace mlir {
class OpPassManager;
}

namespace dt {

/// Equal layers become functions. Runs after the modules phase, whose analyses
/// look at straight-line functions.
void buildOutlinePipeline(mlir::OpPassManager &pm);
void registerOutlinePasses();

} // namespace dt

#endif // PASSES_OUTLINE_PIPELINE_H
