//===- Pipeline.h - The differentiate phase ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_DIFFERENTIATE_PIPELINE_H
#define PASSES_DIFFERENTIATE_PIPELINE_H

namespace mlir {
class OpPassManager;
}

namespace dt {

/// From modules with @forward to modules with @forward.fwd and @forward.bwd.
/// Anchors on the builtin module.
void buildDifferentiatePipeline(mlir::OpPassManager &pm);

void registerDifferentiatePasses();

} // namespace dt

#endif // PASSES_DIFFERENTIATE_PIPELINE_H
