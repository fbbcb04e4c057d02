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

/// Of a kind of elements: rows, and columns, of a block's result; how much of
/// the contracted axis is a tile; tiles that are there or on their way.
template <typename T> struct Sizes {
  static constexpr int kSide = 64, kStep = 32, kStages = 2;
};
template <> struct Sizes<bf16> {
  static constexpr int kSide = 128, kStep = 64, kStages = 3;
};
template <typename T> inline constexpr int kSide = Sizes<T>::kSide;
template <typename T> inline constexpr int kStep = Sizes<T>::kStep;

/// A tile in shared memory, of `outer` by `inner` elements as memory has them.
template <typename T, int outer, int inner> struct Tile {
  static constexpr int kOuter = outer, kInner = inner;
  static constexpr int kPitch = inner + 4; ///< of floats
  static constexpr int kSize =
      std::is_same_v<T, bf16> ? outer * inner : outer * kPitch;
  T *at;

  /// tensor::swizzle says which element.
  __device__ T *find(int row, int column, int r, int c) const {
    if constexpr (std::is_same_v<T, bf16>)
      return at + tensor::swizzle<inner>(row, column, r, c);
    else
      return at + (row + r) * kPitch + column + c;
  }
};

/// A matrix of which a tile has kSide places of one axis and kStep of the
/// contracted one, which is the inner one of memory if `contractsInner`. Zeros
/// outside.
template <typename T, bool contractsInner> struct Operand {
  using Element = T;
  static constexpr bool kContractsInner = contractsInner;
  using Shared = std::conditional_t<contractsInner, Tile<T, kSide<T>, kStep<T>>,
                                    Tile<T, kStep<T>, kSide<T>>>;

  const T *data;
  int inner;              ///< elements of a row of memory
  int outerEnd, innerEnd; ///< what lies outside is 0
  bool packed;            ///< rows are whole packs of 16 bytes

  static __device__ float at(const Shared &tile, int place, int step) {
    return float(contractsInner ? *tile.find(place, step, 0, 0)
                                : *tile.find(step, place, 0, 0));
  }
};

/// Copies tiles of an operand, one behind another along the contracted axis.
template <typename Operand> class Copier {
  using T = typename Operand::Element;
  using Shared = typename Operand::Shared;
  static constexpr int kPack = 16 / int(sizeof(T));
  static constexpr int kPacks = Shared::kInner / kPack; ///< of a row
  static constexpr int kRows = kThreads / kPacks;       ///< at a time
  static constexpr int kCopies = Shared::kOuter / kRows;
  static_assert(kThreads % kPacks == 0 && Shared::kOuter % kRows == 0);

  const Operand &from;
  int outer, inner; ///< this thread's first element of the next tile
  const T *data;

public:
  /// The first tile has places from `place` on, and the contracted axis from
  /// `step` on.
  __device__ Copier(const Operand &from, int64_t place, int64_t step)
      : from(from), outer(int(threadIdx.x) / kPacks),
        inner(int(threadIdx.x) % kPacks * kPack) {
    outer += int(Operand::kContractsInner ? place : step);
    inner += int(Operand::kContractsInner ? step : place);
    data = from.data + int64_t(outer) * from.inner + inner;
  }
  __device__ void copy(const Shared &tile) {
    int row = int(threadIdx.x) / kPacks,
        column = int(threadIdx.x) % kPacks * kPack;
    bool inside = inner < from.innerEnd;
    const T *at = data;
#pragma unroll
    for (int i = 0; i < kCopies;
         ++i, row += kRows, at += int64_t(kRows) * from.inner) {
      T *to = tile.find(0, column / 16 * 16, row, column % 16);
      bool isThere = inside && outer + i * kRows < from.outerEnd;
      if (from.packed)
        tensor::copyPack(to, isThere ? at : from.data, isThere);
      else
        for (int p = 0; p < kPack; ++p)
          to[p] = isThere && inner + p < from.innerEnd ? at[p] : T(0.f);
    }
    if constexpr (Operand::kContractsInner)
      inner += kStep<T>, data += kStep<T>;
    else
      outer += kStep<T>, data += int64_t(kStep<T>) * from.inner;
  }
};

/// Sums of a thread: kEach rows, kThreadsAside apart, by pairs of columns.
template <typename A, typename B, int side> class Sums {
  static constexpr int kThreadsAside = 16, kEach = side / kThreadsAside;
  float sum[kEach][kEach] = {};

  static __device__ int rowOf(int i) {
    return i * kThreadsAside + int(threadIdx.x) / kThreadsAside;
  }
  static __device__ int columnOf(int j) {
    return (j / 2 * kThreadsAside + int(threadIdx.x) % kThreadsAside) * 2 +
           j % 2;
  }

public:
  __device__ void add(const typename A::Shared &a,
                      const typename B::Shared &b) {
    for (int step = 0; step < kStep<typename A::Element>; ++step) {
      float left[kEach], right[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        left[i] = A::at(a, rowOf(i), step);
        right[i] = B::at(b, columnOf(i), step);
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j)
          sum[i][j] += left[i] * right[j];
    }
  }
  /// Calls store(row, column, sum, sum of the next column), column even.
  template <typename Store> __device__ void give(Store store) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; j += 2)
        store(rowOf(i), columnOf(j), sum[i][j], sum[i][j + 1]);
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
  __device__ void add(const typename A::Shared &a,
                      const typename B::Shared &b) {
#pragma unroll
    for (int step = 0; step < kStep<bf16>; step += tensor::kDeep) {
      tensor::Left left[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        int row = firstRow() + i * tensor::kRows;
        left[i] = A::kContractsInner ? tensor::loadLeft(a, row, step)
                                     : tensor::loadTurnedLeft(a, step, row);
      }
#pragma unroll
      for (int j = 0; j < kColumns; j += 2) {
        int column = firstColumn() + j * tensor::kWide;
        tensor::Right right[2];
        B::kContractsInner ? tensor::loadRights(right, b, column, step)
                           : tensor::loadTurnedRights(right, b, step, column);
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
        for (int e = 0; e < 4; e += 2)
          store(firstRow() + i * tensor::kRows + tensor::rowOf(e),
                firstColumn() + j * tensor::kWide + tensor::columnOf(e),
                sum[i][j].at[e], sum[i][j].at[e + 1]);
  }
};

template <typename T, typename A, typename B>
using SumsOf = std::conditional_t<std::is_same_v<T, bf16>, TensorSums<A, B>,
                                  Sums<A, B, kSide<T>>>;

/// Dynamic shared memory of multiplyTile.
template <typename A, typename B> constexpr size_t sharedBytes() {
  using T = typename A::Element;
  return Sizes<T>::kStages * (A::Shared::kSize + B::Shared::kSize) * sizeof(T);
}

/// The sum over the contracted axis from `begin` to `end` of a's places from
/// `row` on by b's from `column` on, by pairs to store(row, column, sum, sum of
/// the next column).
template <typename T, typename A, typename B, typename Store>
__device__ void multiplyTile(const A &a, const B &b, int64_t row,
                             int64_t column, int64_t begin, int64_t end,
                             Store store) {
  constexpr int kStages = Sizes<T>::kStages;
  DT_DYNAMIC_SHARED(T, shared);
  auto left = [&](int stage) {
    return typename A::Shared{shared + stage * A::Shared::kSize};
  };
  auto right = [&](int stage) {
    return typename B::Shared{shared + kStages * A::Shared::kSize +
                              stage * B::Shared::kSize};
  };
  Copier<A> ofA(a, row, begin);
  Copier<B> ofB(b, column, begin);
  auto copy = [&](int64_t step, int stage) {
    if (step < end) {
      ofA.copy(left(stage));
      ofB.copy(right(stage));
    }
    tensor::endGroup();
  };
  for (int stage = 0; stage < kStages - 1; ++stage)
    copy(begin + stage * kStep<T>, stage);
  SumsOf<T, A, B> sum;
  int stage = 0;
  for (int64_t step = begin; step < end; step += kStep<T>) {
    tensor::awaitGroups<kStages - 2>();
    __syncthreads(); // also: all have read the tile before
    copy(step + (kStages - 1) * kStep<T>, (stage + kStages - 1) % kStages);
    sum.add(left(stage), right(stage));
    stage = (stage + 1) % kStages;
  }
  sum.give(store);
}

} // namespace dt::rt::grouped

#endif // DT_RUNTIME_DEVICE_CUDA_GROUPEDTILES_H
