//===- Launch.h - what generated CUDA sources use ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_CUDA_LAUNCH_H
#define DT_RUNTIME_CUDA_LAUNCH_H

#include "runtime/cuda/Cuda.h"

#include <cmath>

namespace dt::rt {

namespace cuda {

/// Device copy of a table of constants, made once; complete when this returns, whatever stream reads it.
const void *constantBytes(const void *host, size_t bytes);
template <typename T, size_t N> const T *constant(const T (&host)[N]) {
  return static_cast<const T *>(constantBytes(host, sizeof host));
}

/// Blocks of 256 threads, one thread a point.
inline unsigned gridFor(int64_t points) { return points < 1 ? 1 : unsigned((points + 255) / 256); }

template <typename T> __global__ void fillKernel(T *to, T value, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x)
    to[i] = value;
}

} // namespace cuda

template <typename T> void fill(T *to, T value, int64_t n, void *stream) {
  if (n > 0)
    cuda::launch("fill", cuda::fillKernel<T>, cuda::blocksFor(n), 256, 0, stream, to, value, n);
}

template <typename T> void copy(T *to, const T *from, int64_t n, void *stream) {
  if (n > 0)
    cuda::check(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)),
                "cudaMemcpy");
}

} // namespace dt::rt

#endif // DT_RUNTIME_CUDA_LAUNCH_H
