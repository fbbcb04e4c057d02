//===- Pipeline.h - The schedule phase  ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_PIPELINE_H
#define PASSES_SCHEDULE_PIPELINE_H

namespace mlir {
class OpPassManager;
}

namespace dt {

/// The step of a program with a plan, and its solution.
void buildSchedulePipeline(mlir::OpPassManager &pm);
/// Solutions of the problems that stand in the file.
void buildSolvePipeline(mlir::OpPassManager &pm);
void registerSchedulePasses();

} // namespace dt

#endif // PASSES_SCHEDULE_PIPELINE_H
