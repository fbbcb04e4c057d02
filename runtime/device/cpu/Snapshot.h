//===- Snapshot.h - updates wait for who reads the state --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_SNAPSHOT_H
#define DT_RUNTIME_DEVICE_CPU_SNAPSHOT_H

namespace dt::rt::device {

/// Until the newest snapshot (Device.h) needs the state no more.
void awaitSnapshot();

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_CPU_SNAPSHOT_H
