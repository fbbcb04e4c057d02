//===- StagedFabric.h - device buffers over host memory ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_STAGED_STAGEDFABRIC_H
#define DT_RUNTIME_COMM_STAGED_STAGEDFABRIC_H

#include "runtime/comm/Fabric.h"

namespace dt::rt {

/// Works on every device, also on host memory.
std::shared_ptr<Fabric> makeStagedFabric(Comm &comm);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_STAGED_STAGEDFABRIC_H
