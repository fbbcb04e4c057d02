//===- GroupedTiles.h - tiles of products of grouped rows -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a block of Experts.cu multiplies: two tiles in shared memory, on tensor
// cores where the elements are narrow, else each thread its own elements. The
// next tiles are copied meanwhile.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_GROUPEDTILES_H
#define DT_RUNTIME_DEVICE_CUDA_GROUPEDTILES_H

#include "runtime/device/cuda/TensorCores.h"

#include <type_traits>

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
  using Element = T;
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

  /// Begins to fill the tile from [outer, inner] on.
  __device__ void load(T *tile, int64_t outer, int64_t inner0) const {
    for (int i = threadIdx.x * kPack; i < kOuter * kInner;
         i += kThreads * kPack) {
      int row = i / kInner, column = i % kInner;
      int64_t r = outer + row, c = inner0 + column;
      T *to = tile + row * kPitch + column;
      if (packed) {
        bool isThere = r < outerEnd && c < innerEnd;
        tensor::copyPack(to, isThere ? data + r * inner + c : data, isThere);
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
  static __device__ const T *find(const T *tile, int place, int step) {
    return tile +
           (contractsInner ? place * kPitch + step : step * kPitch + place);
  }
  static __device__ float at(const T *tile, int place, int step) {
    return float(*find(tile, place, step));
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
  template <typename Store> __device__ void give(Store store) const {
    int row = threadIdx.x / kThreadsAside, column = threadIdx.x % kThreadsAside;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        store(placeOf(i, row), placeOf(j, column), sum[i][j]);
  }
};

/// The same of narrow operands: a warp has 64 by 32 of 128 by 128 elements.
template <typename A, typename B> class TensorSums {
  static constexpr int kRows = 4, kColumns = 4, kWarpsAcross = 4;
  tensor::Sums sum[kRows][kColumns];

  static __device__ int firstRow() {
    return int(threadIdx.x) / 32 / kWarpsAcross * kRows * tensor::kRows;
  }
  static __device__ int firstColumn() {
    return int(threadIdx.x) / 32 % kWarpsAcross * kColumns * tensor::kWide;
  }

public:
  __device__ void add(const bf16 *a, const bf16 *b) {
#pragma unroll
    for (int step = 0; step < kStep; step += tensor::kDeep) {
      tensor::Left left[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const bf16 *at = A::find(a, firstRow() + i * tensor::kRows, step);
        left[i] = A::kContractsInner ? tensor::loadLeft(at, A::kPitch)
                                     : tensor::loadTurnedLeft(at, A::kPitch);
      }
#pragma unroll
      for (int j = 0; j < kColumns; j += 2) {
        const bf16 *at = B::find(b, firstColumn() + j * tensor::kWide, step);
        tensor::Right right[2];
        B::kContractsInner ? tensor::loadRights(right, at, B::kPitch)
                           : tensor::loadTurnedRights(right, at, B::kPitch);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          tensor::multiply(sum[i][j], left[i], right[0]);
          tensor::multiply(sum[i][j + 1], left[i], right[1]);
        }
      }
    }
  }
  template <typename Store> __device__ void give(Store store) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          store(firstRow() + i * tensor::kRows + tensor::rowOf(e),
                firstColumn() + j * tensor::kWide + tensor::columnOf(e),
                sum[i][j].at[e]);
  }
};

template <typename T, typename A, typename B>
using SumsOf = std::conditional_t<std::is_same_v<T, bf16>, TensorSums<A, B>,
                                  Sums<A, B, kSide<T>>>;

/// Tiles that are there or on their way.
inline constexpr int kStages = 4;

/// Dynamic shared memory of multiplyTile.
template <typename A, typename B> constexpr size_t sharedBytes() {
  return kStages * (A::kShared + B::kShared) * sizeof(typename A::Element);
}

/// The sum over the contracted axis from `begin` to `end` of a's places from
/// `row` on by b's from `column` on, element by element to `store`.
template <typename T, typename A, typename B, typename Store>
__device__ void multiplyTile(const A &a, const B &b, int64_t row,
                             int64_t column, int64_t begin, int64_t end,
                             Store store) {
  DT_DYNAMIC_SHARED(T, left);
  T *right = left + kStages * A::kShared;
  auto load = [&](int64_t step, int stage) {
    if (step < end) {
      a.loadAt(left + stage * A::kShared, row, step);
      b.loadAt(right + stage * B::kShared, column, step);
    }
    tensor::endGroup();
  };
  for (int stage = 0; stage < kStages - 1; ++stage)
    load(begin + stage * kStep, stage);
  SumsOf<T, A, B> sum;
  int stage = 0;
  for (int64_t step = begin; step < end; step += kStep) {
    tensor::awaitGroups<kStages - 2>();
    __syncthreads(); // also: all have read the tile before
    load(step + (kStages - 1) * kStep, (stage + kStages - 1) % kStages);
    sum.add(left + stage * A::kShared, right + stage * B::kShared);
    stage = (stage + 1) % kStages;
  }
  sum.give(store);
}

} // namespace dt::rt::grouped

#endif // DT_RUNTIME_DEVICE_CUDA_GROUPEDTILES_H
