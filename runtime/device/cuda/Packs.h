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

/// What a thread keeps of a row where registers do not suffice: so many
/// elements, then those that lie in the block's shared memory from `begin` on,
/// side by side with other threads'. Subscripts are to be constants once loops
/// are unrolled: `of` is registers then.
template <typename T, int registers, int threads> struct Kept {
  T of[registers > 0 ? registers : 1];
  T *begin;

  /// Of what stands from element `first` on.
  struct Rest {
    Kept &kept;
    int first;
    __device__ T &operator[](int k) const { return kept[first + k]; }
  };

  __device__ explicit Kept(void *shared)
      : begin(static_cast<T *>(shared) + threadIdx.x) {}
  __device__ T &operator[](int k) {
    return k < registers ? of[k] : begin[(k - registers) * threads];
  }
  __device__ Rest operator+(int first) { return {*this, first}; }
};

/// `n` elements, a multiple of `size`.
template <int n, int size, typename To, typename T>
__device__ inline void loadPacks(To &&to, const T *from) {
#pragma unroll
  for (int i = 0; i < n; i += size) {
    Pack<T, size> pack = *reinterpret_cast<const Pack<T, size> *>(from + i);
#pragma unroll
    for (int c = 0; c < size; ++c)
      to[i + c] = pack.of[c];
  }
}
template <int n, int size, typename T, typename From>
__device__ inline void storePacks(T *to, From &&from) {
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
