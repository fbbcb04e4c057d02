//===- Packs.h - several elements of memory at once -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the compiler has found to begin at a multiple of a pack's bytes is read
// and written a pack at a time. A GPU has instructions for packs of 4, 8 and 16
// bytes.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_PACKS_H
#define DT_RUNTIME_DEVICE_CUDA_PACKS_H

#include "runtime/device/cuda/Cuda.h"

namespace dt::rt::cuda {

template <typename T, int size> struct alignas(size * sizeof(T)) Pack {
  T of[size];
};

/// `n` elements, a multiple of `size`.
template <int n, int size, typename T>
__device__ inline void loadPacks(T *to, const T *from) {
#pragma unroll
  for (int i = 0; i < n; i += size) {
    Pack<T, size> pack = *reinterpret_cast<const Pack<T, size> *>(from + i);
#pragma unroll
    for (int c = 0; c < size; ++c)
      to[i + c] = pack.of[c];
  }
}
template <int n, int size, typename T>
__device__ inline void storePacks(T *to, const T *from) {
#pragma unroll
  for (int i = 0; i < n; i += size) {
    Pack<T, size> pack;
#pragma unroll
    for (int c = 0; c < size; ++c)
      pack.of[c] = from[i + c];
    *reinterpret_cast<Pack<T, size> *>(to + i) = pack;
  }
}

} // namespace dt::rt::cuda

#endif // DT_RUNTIME_DEVICE_CUDA_PACKS_H
