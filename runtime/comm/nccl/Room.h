//===- Room.h - room for NCCL's kernels on the device -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_NCCL_ROOM_H
#define DT_RUNTIME_COMM_NCCL_ROOM_H

#include "runtime/comm/Comm.h"

namespace dt::rt {

/// What a kernel of NCCL may take on every rank, so that those of all streams
/// find room at once on the smallest device: docs/cuda-ranks.md ("Room on
/// the GPU"). With what NCCL's variables of the environment say instead. All
/// ranks call it. Throws CommonError if there is no room.
LinkShares findRoom(Comm &control, const LinkNeeds &needs);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_NCCL_ROOM_H
