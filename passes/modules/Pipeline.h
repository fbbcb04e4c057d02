//===- Pipeline.h - The modules phase ---------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_PIPELINE_H
#define PASSES_MODULES_PIPELINE_H

namespace mlir {
class OpPassManager;
}

namespace dt {

/// From modules as the recipe has them to modules that can be run a part at a
/// time. Anchors on the builtin module. Works on straight-line functions, so it
/// runs before layers are outlined.
void buildModulesPipeline(mlir::OpPassManager &pm);

/// What changes once a plan is known, which names the modules that are there
/// now: replicas cut the batch too.
void buildModulesUnderPlan(mlir::OpPassManager &pm);

void registerModulesPasses();

} // namespace dt

#endif // PASSES_MODULES_PIPELINE_H
