//===- Reduce.h - Reductions of generated CUDA kernels ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Threads combine what they hold in fixed trees: the order follows from their
// number and from sizes alone, so results are the same bits each run, on every
// GPU.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_REDUCE_H
#define DT_RUNTIME_DEVICE_CUDA_REDUCE_H

#include "runtime/device/Scalar.h"
#include "runtime/device/cuda/Cuda.h"
#include "runtime/device/cuda/vecmath.h"

#include <algorithm>
#include <type_traits>

namespace dt::rt::cuda {

// How two values become one, by the name of the op in arith.
#define DT_COMBINE(NAME, VALUE)                                                \
  struct NAME {                                                                \
    template <typename T> static __device__ T of(T a, T b) { return VALUE; }   \
  }
DT_COMBINE(Add, T(a + b));
DT_COMBINE(Mul, T(a *b));
DT_COMBINE(Or, T(a | b));
DT_COMBINE(And, T(a &b));
DT_COMBINE(Max, (a > b ? a : b));
DT_COMBINE(Min, (a < b ? a : b));
DT_COMBINE(MaxUnsigned,
           (std::make_unsigned_t<T>(a) > std::make_unsigned_t<T>(b) ? a : b));
DT_COMBINE(MinUnsigned,
           (std::make_unsigned_t<T>(a) < std::make_unsigned_t<T>(b) ? a : b));
DT_COMBINE(Maximum, dt::rt::maximum(a, b));
DT_COMBINE(Minimum, dt::rt::minimum(a, b));
DT_COMBINE(MaxNum, dt::rt::maxnum(a, b));
DT_COMBINE(MinNum, dt::rt::minnum(a, b));
#undef DT_COMBINE

constexpr unsigned kWarp = 32, kAllLanes = 0xFFFFFFFF;

/// Values below four bytes travel as an int.
template <typename T>
using Shuffled = std::conditional_t<(sizeof(T) < 4), int, T>;

/// All lanes of a warp call this, and all get what their values make.
template <typename Combine, typename T> __device__ T reduceWarp(T value) {
  for (unsigned half = kWarp / 2; half > 0; half /= 2)
    value = Combine::template of<T>(
        value, T(__shfl_down_sync(kAllLanes, Shuffled<T>(value), half)));
  // A lane's own tree may see +0 and -0, or NaNs, in another order.
  return T(__shfl_sync(kAllLanes, Shuffled<T>(value), 0));
}

/// The same for a block of `threads`, a multiple of 32.
template <typename Combine, unsigned threads, typename T>
__device__ T reduceBlock(T value) {
  if constexpr (threads == kWarp)
    return reduceWarp<Combine>(value);
  __shared__ T part[threads / kWarp];
  value = reduceWarp<Combine>(value);
  if (threadIdx.x % kWarp == 0)
    part[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = part[0];
  for (unsigned i = 1; i < threads / kWarp; ++i)
    value = Combine::template of<T>(value, part[i]);
  __syncthreads(); // part is used again
  return value;
}

// A sum of exponentials of differences to a number, and the sum to another one;
// it is 0 as long as the number is -inf, or none (what a lane starts with).
template <typename T> __device__ T finiteOr0(T value) {
  return value > T(-INFINITY) ? value : T(0);
}
template <typename T> __device__ T rescale(T sum, T before, T now) {
  return before > T(-INFINITY) ? T(sum * dt::rt::exp(before - now)) : sum;
}

/// Which lanes of a warp say so, a bit each. All lanes call this.
__device__ inline unsigned lanesWith(bool yes) {
#ifdef __CUDA_ARCH__
  return __ballot_sync(kAllLanes, yes);
#else
  return unsigned(reduceWarp<Or>(int(yes ? 1u << threadIdx.x % kWarp : 0u)));
#endif
}
/// How many bits are set.
__device__ inline int countBits(unsigned bits) {
#ifdef __CUDA_ARCH__
  return __popc(bits);
#else
  return __builtin_popcount(bits);
#endif
}
/// Of how many of a block's threads before this one it is so, and of `all` in
/// the block. All threads call this; they are a multiple of 32.
template <unsigned threads> __device__ int countBefore(bool yes, int &all) {
  __shared__ int found[threads / kWarp];
  unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  unsigned lanes = lanesWith(yes);
  if (lane == 0)
    found[warp] = countBits(lanes);
  __syncthreads();
  int before = countBits(lanes & ((1u << lane) - 1));
  all = 0;
  for (unsigned w = 0; w < threads / kWarp; ++w) {
    before += w < warp ? found[w] : 0;
    all += found[w];
  }
  __syncthreads(); // found is used again
  return before;
}
/// The number of the lowest bit that is set; one is.
__device__ inline int lowestBit(unsigned bits) {
#ifdef __CUDA_ARCH__
  return __ffs(int(bits)) - 1;
#else
  return __builtin_ctz(bits);
#endif
}

/// Rows of a block's threads that work on the same 32 columns.
constexpr unsigned kTiles = 8;

/// Every tile gets what the tiles' values of its column make.
template <typename Combine, typename T> __device__ T reduceTiles(T value) {
  __shared__ T part[kTiles * kWarp];
  part[threadIdx.x] = value;
  __syncthreads();
  value = part[threadIdx.x % kWarp];
  for (unsigned i = 1; i < kTiles; ++i)
    value =
        Combine::template of<T>(value, part[i * kWarp + threadIdx.x % kWarp]);
  __syncthreads(); // part is used again
  return value;
}

/// A reduction in parts: part p of `parts` has every parts-th piece of the
/// loop. With several parts each leaves its value in `values`, at [part,
/// place], and a second launch combines these: it is `last`.
struct Parts {
  void *values;
  int64_t places;  ///< columns, or points
  unsigned blocks; ///< of one part
  unsigned parts;
  bool last;
};

/// Blocks that parts have together, at most: several for each SM.
constexpr int64_t kPartBlocks = 1024;

/// Parts by sizes alone. `grain`: iterations that a part has at least.
inline Parts partsFor(int64_t places, unsigned blocks, int64_t trips,
                      int64_t grain) {
  int64_t parts = std::min(trips / grain, kPartBlocks / int64_t(blocks));
  return {nullptr, places, blocks, unsigned(std::max<int64_t>(parts, 1)),
          false};
}

/// Starts a kernel whose last parameter is its Parts, twice if there are
/// several. A block has `perBlock` places at most. Scratch is for any number of
/// parts: fewer places can have more of them, and nothing grows in a step.
template <typename T, typename... Parameters, typename... Arguments>
void launchParts(const char *name, void (*kernel)(Parameters...), Parts parts,
                 unsigned threads, int64_t perBlock, void *stream,
                 Arguments... arguments) {
  parts.values = scratch(3, size_t(kPartBlocks * perBlock) * sizeof(T));
  launch(name, kernel, parts.blocks * parts.parts, threads, 0, stream,
         arguments..., parts);
  if (parts.parts == 1)
    return;
  parts.last = true;
  launch(name, kernel, parts.blocks, threads, 0, stream, arguments..., parts);
}

/// Blocks of 256 threads: 32 columns, or `vector` times as many, by kTiles
/// rows.
template <typename T, int vector, typename... Parameters, typename... Arguments>
void launchColumns(const char *name, void (*kernel)(Parameters...),
                   int64_t columns, int64_t rows, void *stream,
                   Arguments... arguments) {
  constexpr int64_t kColumns = kWarp * vector;
  auto blocks =
      unsigned(std::max<int64_t>((columns + kColumns - 1) / kColumns, 1));
  launchParts<T>(name, kernel, partsFor(columns, blocks, rows, 4 * kTiles),
                 kTiles * kWarp, kColumns, stream, arguments...);
}

/// Few points, of blocks of 256 threads.
template <typename T, typename... Parameters, typename... Arguments>
void launchPoints(const char *name, void (*kernel)(Parameters...),
                  int64_t points, int64_t trips, void *stream,
                  Arguments... arguments) {
  auto blocks = unsigned(std::max<int64_t>(points, 1));
  launchParts<T>(name, kernel, partsFor(points, blocks, trips, 2048), 256, 1,
                 stream, arguments...);
}

} // namespace dt::rt::cuda

#endif // DT_RUNTIME_DEVICE_CUDA_REDUCE_H
