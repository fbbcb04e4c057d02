//===- NcclFabric.h - device buffers over NCCL ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_NCCL_NCCLFABRIC_H
#define DT_RUNTIME_COMM_NCCL_NCCLFABRIC_H

#include "runtime/comm/Fabric.h"

namespace dt::rt {

/// Every rank has a device of its own. All ranks of `comm` call it. Throws
/// CommonError where some device has no room for kernels of all streams.
std::shared_ptr<Fabric> makeNcclFabric(Comm &comm, const LinkNeeds &needs);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_NCCL_NCCLFABRIC_H
