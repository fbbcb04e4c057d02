//===- JoinForward.h - Products of one input as one product ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OPTIMIZE_JOINFORWARD_H
#define PASSES_OPTIMIZE_JOINFORWARD_H

#include "passes/optimize/JoinedParameters.h"

namespace dt::optimize {

/// Products of one input become one product, its columns what they give.
void joinForward(JoinedParameters &parameters, mlir::Block &block);

} // namespace dt::optimize

#endif // PASSES_OPTIMIZE_JOINFORWARD_H
