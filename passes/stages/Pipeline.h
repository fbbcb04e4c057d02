//===- Pipeline.h - The stages phase  -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_PIPELINE_H
#define PASSES_STAGES_PIPELINE_H

namespace mlir {
class OpPassManager;
}

namespace dt {

/// Nothing happens to modules without a plan.
void buildStagesPipeline(mlir::OpPassManager &pm);
void registerStagesPasses();

} // namespace dt

#endif // PASSES_STAGES_PIPELINE_H
