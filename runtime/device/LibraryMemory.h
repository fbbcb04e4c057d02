//===- LibraryMemory.h - what libraries take of a GPU -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Said once: to the runtime, and to the compiler's --emit=memory. What is an
// estimate says so.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_LIBRARYMEMORY_H
#define DT_RUNTIME_DEVICE_LIBRARYMEMORY_H

#include <cstdint>

namespace dt::rt {

/// Bytes that products of cuBLASLt work in.
constexpr int64_t kProductWorkspace = int64_t(32) << 20;
/// At most that a plan of cuDNN works in (DT_CUDNN_WORKSPACE says another).
constexpr int64_t kMostPlanWorkspace = int64_t(1) << 30;
/// Estimate, of H100s: CUDA's context, with the kernels of all libraries.
constexpr int64_t kContextBytes = int64_t(500) << 20;

/// Estimate: what NCCL receives into, of a peer and thread block (NCCL 2.28.9,
/// init.cc, computeBuffSizes: the buffers of its three protocols, LL, LL128 and
/// simple). Of a collective that is the neighbour in a ring.
constexpr int64_t kLinkBuffer =
    8 * 512 * 8 * 16 + 120 * 640 * 8 * 8 + (4 << 20);
/// Multiprocessors of the GPU that estimates are for: an H100.
constexpr int kUsualMultiprocessors = 132;

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_LIBRARYMEMORY_H
