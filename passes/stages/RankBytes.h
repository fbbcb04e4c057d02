//===- RankBytes.h - Predicted bytes of a rank ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_RANKBYTES_H
#define PASSES_STAGES_RANKBYTES_H

#include "passes/stages/NominalCosts.h"

namespace dt::stages {

/// What a rank holds of a module all the time, in bytes: its part of the
/// parameters, gradients of those that train, and optimizer state, which ZeRO
/// shares out over replicas.
struct StateBytes {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  int64_t total() const { return parameters + gradients + optimizer; }
};
StateBytes getStateBytes(dist::ModuleOp module);

/// What a microbatch of a module takes in the rank's arena, in bytes at the
/// bounds of ragged dims: inputs, outputs, residuals, gradients of edges of all
/// its pieces.
double getSlotBytes(dist::ModuleOp module, NominalCosts &costs);

} // namespace dt::stages

#endif // PASSES_STAGES_RANKBYTES_H
