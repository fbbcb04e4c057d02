//===- HostDevice.h - functions of host and device --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_HOSTDEVICE_H
#define DT_RUNTIME_HOSTDEVICE_H

/// Stands before functions that all targets compute with: compiled as CUDA they
/// are the device's, too.
#ifdef __CUDACC__
#define DT_HOST_DEVICE __host__ __device__
#else
#define DT_HOST_DEVICE
#endif

#endif // DT_RUNTIME_HOSTDEVICE_H
