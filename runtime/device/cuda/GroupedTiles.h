//===- GroupedTiles.h - tiles of products of grouped rows -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a block of Experts.cu multiplies: two tiles in shared memory, on tensor
// cores where the elements are narrow and the compiler is CUDA's. Elsewhere a
// thread sums its own elements, in the same order over the contracted axis.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_GROUPEDTILES_H
#define DT_RUNTIME_DEVICE_CUDA_GROUPEDTILES_H

#include "runtime/device/BFloat16.h"
#include "runtime/device/cuda/Packs.h"

#include <type_traits>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <mma.h>
#endif

namespace dt::rt::grouped {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kStep = 32; ///< of the contracted axis, a tile

/// Rows, and columns, of a block's result.
template <typename T> inline constexpr int kSide = 64;
template <> inline constexpr int kSide<bf16> = 128;

/// A matrix of which a tile has `kSide` places of one axis and kStep of the
/// contracted one, which is the inner one of memory if `contractsInner`. Zeros
/// outside.
template <typename T, bool contractsInner> struct Operand {
  static constexpr bool kContractsInner = contractsInner;
  static constexpr int kOuter = contractsInner ? kSide<T> : kStep;
  static constexpr int kInner = contractsInner ? kStep : kSide<T>;
  /// Rows begin at multiples of 16 bytes, in different banks.
  static constexpr int kPitch = kInner + 16 / int(sizeof(T));
  static constexpr int kShared = kOuter * kPitch;
  static constexpr int kPack = 16 / int(sizeof(T));

  const T *data;
  int64_t inner;              ///< elements of a row of memory
  int64_t outerEnd, innerEnd; ///< what lies outside is 0
  bool packed;                ///< rows are whole packs of 16 bytes

  /// Fills the tile from [outer, inner] on.
  __device__ void load(T *tile, int64_t outer, int64_t inner0) const {
    for (int i = threadIdx.x * kPack; i < kOuter * kInner;
         i += kThreads * kPack) {
      int row = i / kInner, column = i % kInner;
      int64_t r = outer + row, c = inner0 + column;
      T *to = tile + row * kPitch + column;
      using Pack = cuda::Pack<T, kPack>;
      if (packed && r < outerEnd && c + kPack <= innerEnd) {
        *reinterpret_cast<Pack *>(to) =
            *reinterpret_cast<const Pack *>(data + r * inner + c);
        continue;
      }
      for (int p = 0; p < kPack; ++p)
        to[p] =
            r < outerEnd && c + p < innerEnd ? data[r * inner + c + p] : T(0.f);
    }
  }
  /// Fills it with places from `place` on, and kStep of the contracted axis.
  __device__ void loadAt(T *tile, int64_t place, int64_t step) const {
    contractsInner ? load(tile, place, step) : load(tile, step, place);
  }
  static __device__ float at(const T *tile, int place, int step) {
    return float(contractsInner ? tile[place * kPitch + step]
                                : tile[step * kPitch + place]);
  }
};

/// Sums of a thread: a square of kEach by kEach elements, kThreads apart.
template <typename A, typename B, int side> class Sums {
  static constexpr int kThreadsAside = 16, kEach = side / kThreadsAside;
  float sum[kEach][kEach] = {};

  static __device__ int placeOf(int i, int thread) {
    return i * kThreadsAside + thread;
  }

public:
  static constexpr int kStaging = 0;

  template <typename T> __device__ void add(const T *a, const T *b) {
    int row = threadIdx.x / kThreadsAside, column = threadIdx.x % kThreadsAside;
    for (int step = 0; step < kStep; ++step) {
      float left[kEach], right[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        left[i] = A::at(a, placeOf(i, row), step);
        right[i] = B::at(b, placeOf(i, column), step);
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j)
          sum[i][j] += left[i] * right[j];
    }
  }
  /// Calls store(row, column, sum) for each element.
  template <typename Store> __device__ void give(float *, Store store) const {
    int row = threadIdx.x / kThreadsAside, column = threadIdx.x % kThreadsAside;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        store(placeOf(i, row), placeOf(j, column), sum[i][j]);
  }
};

#ifdef __CUDACC__
/// The same on tensor cores: a warp has 32 by 64 of 128 by 128 elements.
template <typename A, typename B> class TensorSums {
  static constexpr int kCore = 16, kRows = 2, kColumns = 4, kWarpsAcross = 2;
  template <typename Use, typename Layout>
  using Fragment =
      nvcuda::wmma::fragment<Use, kCore, kCore, kCore, __nv_bfloat16, Layout>;
  using LayoutA =
      std::conditional_t<A::kContractsInner, nvcuda::wmma::row_major,
                         nvcuda::wmma::col_major>;
  using LayoutB =
      std::conditional_t<B::kContractsInner, nvcuda::wmma::col_major,
                         nvcuda::wmma::row_major>;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kCore, kCore, kCore, float>
      sum[kRows][kColumns];

  static __device__ int firstRow() {
    return int(threadIdx.x / 32) / kWarpsAcross * kRows * kCore;
  }
  static __device__ int firstColumn() {
    return int(threadIdx.x / 32) % kWarpsAcross * kColumns * kCore;
  }
  template <typename Operand, typename Into>
  static __device__ void read(Into &fragment, const bf16 *tile, int place,
                              int step) {
    const bf16 *from =
        tile + (Operand::kContractsInner ? place * Operand::kPitch + step
                                         : step * Operand::kPitch + place);
    nvcuda::wmma::load_matrix_sync(
        fragment, reinterpret_cast<const __nv_bfloat16 *>(from),
        Operand::kPitch);
  }

public:
  static constexpr int kStaging = kWarps * kCore * kCore;

  __device__ TensorSums() {
    for (auto &row : sum)
      for (auto &fragment : row)
        nvcuda::wmma::fill_fragment(fragment, 0.f);
  }
  __device__ void add(const bf16 *a, const bf16 *b) {
#pragma unroll
    for (int step = 0; step < kStep; step += kCore) {
      Fragment<nvcuda::wmma::matrix_a, LayoutA> left[kRows];
      Fragment<nvcuda::wmma::matrix_b, LayoutB> right[kColumns];
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        read<A>(left[i], a, firstRow() + i * kCore, step);
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        read<B>(right[j], b, firstColumn() + j * kCore, step);
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
          nvcuda::wmma::mma_sync(sum[i][j], left[i], right[j], sum[i][j]);
    }
  }
  /// `staging`: kStaging floats that the block shares.
  template <typename Store>
  __device__ void give(float *staging, Store store) const {
    float *own = staging + threadIdx.x / 32 * kCore * kCore;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        nvcuda::wmma::store_matrix_sync(own, sum[i][j], kCore,
                                        nvcuda::wmma::mem_row_major);
        __syncwarp();
        for (int e = threadIdx.x % 32; e < kCore * kCore; e += 32)
          store(firstRow() + i * kCore + e / kCore,
                firstColumn() + j * kCore + e % kCore, own[e]);
        __syncwarp();
      }
  }
};

template <typename T, typename A, typename B>
using SumsOf = std::conditional_t<std::is_same_v<T, bf16>, TensorSums<A, B>,
                                  Sums<A, B, kSide<T>>>;
#else
template <typename T, typename A, typename B>
using SumsOf = Sums<A, B, kSide<T>>;
#endif

/// The sum over the contracted axis from `begin` to `end` of a's places from
/// `row` on by b's from `column` on, element by element to `store`.
template <typename T, typename A, typename B, typename Store>
__device__ void multiplyTile(const A &a, const B &b, int64_t row,
                             int64_t column, int64_t begin, int64_t end,
                             Store store) {
  using Sum = SumsOf<T, A, B>;
  alignas(16) __shared__ T left[A::kShared];
  alignas(16) __shared__ T right[B::kShared];
  __shared__ float staging[Sum::kStaging + 1];
  Sum sum;
  for (int64_t step = begin; step < end; step += kStep) {
    a.loadAt(left, row, step);
    b.loadAt(right, column, step);
    __syncthreads();
    sum.add(left, right);
    __syncthreads();
  }
  sum.give(staging, store);
}

} // namespace dt::rt::grouped

#endif // DT_RUNTIME_DEVICE_CUDA_GROUPEDTILES_H
