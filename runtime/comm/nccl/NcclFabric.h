//===- NcclFabric.h - device buffers over NCCL ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_NCCL_NCCLFABRIC_H
#define DT_RUNTIME_COMM_NCCL_NCCLFABRIC_H

#include "runtime/comm/Fabric.h"

namespace dt::rt {

/// Every rank has a device of its own. All ranks of `comm` call it.
std::shared_ptr<Fabric> makeNcclFabric(Comm &comm);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_NCCL_NCCLFABRIC_H
