//===- Pipeline.h - The schedule phase --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_PIPELINE_H
#define PASSES_SCHEDULE_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace dt {

void buildSchedulePipeline(mlir::OpPassManager &pm);
void registerSchedulePasses();

} // namespace dt

#endif // PASSES_SCHEDULE_PIPELINE_H
