//===- Launch.h - what generated CUDA sources use ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_LAUNCH_H
#define DT_RUNTIME_DEVICE_CUDA_LAUNCH_H

#include "runtime/data/IndexCheck.h"
#include "runtime/device/cuda/Cuda.h"

#include <cmath>

namespace dt::rt {

namespace cuda {

/// Device copy of a table of constants, made once; complete when this returns,
/// whatever stream reads it. Null: a table without elements.
const void *constantBytes(const void *host, size_t bytes);
template <typename T> const T *constant(const T *host, size_t bytes) {
  return static_cast<const T *>(constantBytes(host, bytes));
}

/// Blocks for points, of which a block has so many.
inline unsigned gridFor(int64_t points, int64_t perBlock = 256) {
  return points < 1 ? 1 : unsigned((points + perBlock - 1) / perBlock);
}

/// A block for each square of 32 by 32 of `rows` by `columns` points, `others`
/// times.
inline unsigned gridForSquares(int64_t others, int64_t rows, int64_t columns) {
  int64_t squares = others * ((rows + 31) / 32) * ((columns + 31) / 32);
  return unsigned(squares < 1 ? 1 : squares);
}

template <typename T> __global__ void fillKernel(T *to, T value, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x)
    to[i] = value;
}

/// The record lies in host memory that the device sees; the first to come
/// writes it.
template <typename T>
__global__ void checkKernel(const T *indices, int64_t n, IndexCheck check,
                            Fault *fault) {
  int64_t low = check.wrap && !check.local ? -check.extent : 0;
  int64_t begin = check.per > 0 ? check.per - 1 : check.offset;
  int64_t step = check.per > 0 ? check.per : check.stride;
  int64_t i = begin + (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) * step;
  for (; i < n; i += int64_t(gridDim.x) * blockDim.x * step) {
    int64_t v = indices[i] + check.base;
    bool right = check.per > 0 ? v + 1 == check.extent * ((i + 1) / check.per)
                               : (v >= low && v < check.extent) ||
                                     (check.ignores && v == check.ignored);
    if (right || atomicCAS_system(&fault->found, 0, 1))
      continue;
    fault->check = check;
    fault->value = v;
    fault->place = i;
  }
}

} // namespace cuda

/// Event `number` of the module that runs is where the stream is now, until it
/// is recorded again. It is made once.
void recordEvent(unsigned number, void *stream);
/// What the stream gets from now on comes after the event.
void waitForEvent(unsigned number, void *stream);

/// As runtime/device/cpu/Check.h; the record is written when the stream gets
/// there.
template <typename T>
void checkIndices(const T *indices, int64_t n, const IndexCheck &check,
                  Fault *fault, void *stream) {
  if (fault && n > 0)
    cuda::launch("check of indices", cuda::checkKernel<T>, cuda::blocksFor(n),
                 256, 0, stream, indices, n, check, fault);
}

template <typename T> void fill(T *to, T value, int64_t n, void *stream) {
  if (n > 0)
    cuda::launch("fill", cuda::fillKernel<T>, cuda::blocksFor(n), 256, 0,
                 stream, cuda::out(to, n), value, n);
}

template <typename T> void copy(T *to, const T *from, int64_t n, void *stream) {
  if (n > 0 && !cuda::rehearsing)
    cuda::check(cudaMemcpyAsync(to, from, n * sizeof(T),
                                cudaMemcpyDeviceToDevice,
                                static_cast<cudaStream_t>(stream)),
                "cudaMemcpy");
}

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CUDA_LAUNCH_H
