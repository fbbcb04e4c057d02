//===- MessagePlan.h - which blocks a rank's messages need ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// docs/memory.md#messages. From the tables alone, so that the
// compiler knows what a program allocates; sizes that the batch decides are
// those of the largest parts.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_MESSAGEPLAN_H
#define DT_RUNTIME_STEP_MESSAGEPLAN_H

#include "runtime/comm/MessageBlocks.h"
#include "runtime/state/Ownership.h"

namespace dt::rt {

/// Of the rank whose placement it is. `carrier`: Fabric::carrier(). Throws
/// Error if the ends of an edge count different items.
MessageBlocks planMessages(const ProgramInfo &program,
                           const Placement &placement,
                           const Ownership &ownership, Carrier carrier);

/// What a step's inputs take on their way to the device, with its wishes.
struct UploadSize {
  size_t bytes = 0, copies = 0;
};
UploadSize uploadsOf(const ProgramInfo &program, int rank);

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_MESSAGEPLAN_H
