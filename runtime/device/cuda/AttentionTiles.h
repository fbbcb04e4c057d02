//===- AttentionTiles.h - tiles of queries and keys -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// How a block of Attention.cu's kernels walks over tiles, and their products.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_ATTENTIONTILES_H
#define DT_RUNTIME_DEVICE_CUDA_ATTENTIONTILES_H

#include "runtime/device/cuda/AttentionMask.h"
#include "runtime/device/cuda/Cuda.h"

namespace dt::rt::tiles {

inline constexpr int kTile = kQueryTile; ///< queries, keys
inline constexpr int kSide = 16;         ///< threads are a square
inline constexpr int kThreads = kSide * kSide;
inline constexpr int kEach =
    kTile / kSide;                   ///< rows, and columns of scores, a thread
inline constexpr int kStep = 16;     ///< elements of a product at a time
inline constexpr int kColumns = 128; ///< of the result, a block
inline constexpr int kWide = kColumns / kSide;
inline constexpr int kLanes = kThreads / kTile; ///< threads that sum one row

/// What a block shares. Rows are one longer than what they hold, so that
/// threads that read a column meet different banks.
struct Shared {
  union {
    struct {
      float a[kTile][kStep + 1], b[kTile][kStep + 1];
    };
    float values[kStep][kColumns];
  };
  float scores[kTile][kTile + 1]; ///< or what is made of them
  float part[kTile][kLanes];
  union { // a row's in the forward, a query's in the backward
    struct {
      float top[kTile], sum[kTile], shrink[kTile];
    };
    struct {
      float lse[kTile], total[kTile], delta[kTile];
    };
  };
};

/// Rows of one head: element c of row r is data[r * stride + c]; 0 outside.
template <typename T> struct Rows {
  const T *data;
  int64_t stride;
  int count, width;

  __device__ float at(int r, int c) const {
    return r < count && c < width ? float(data[r * stride + c]) : 0.f;
  }
};

/// What a query that sees no key has in a column.
template <typename T>
__device__ float emptyValue(const Rows<T> &v, int column, EmptyRow kind) {
  if (kind == EmptyRow::NaN && v.count > 0)
    return NAN;
  float sum = 0;
  bool mean = kind == EmptyRow::Mean || kind == EmptyRow::Filled;
  for (int j = 0; j < v.count && mean; ++j)
    sum += v.at(j, column) / float(v.count);
  return sum;
}

/// One head's operands.
template <typename T> struct Head {
  Rows<T> q, k, v, d; ///< d: the output's gradient, or the output

  __device__ Head(const T *q, const T *k, const T *v, const T *d,
                  const AttentionShape &s, int64_t b, int64_t h)
      : q{q + b * s.qb + h * s.qh, s.qt, int(s.t), int(s.d)},
        k{k + b * s.kb + h / (s.h / s.hk) * s.kh, s.ks, int(s.s), int(s.d)},
        v{v + b * s.vb + h / (s.h / s.hk) * s.vh, s.vs, int(s.s), int(s.dv)},
        d{d + b * s.ob + h * s.oh, s.ot, int(s.t), int(s.dv)} {}
};

/// Which part of the result a block owns.
struct Place {
  int row, column; ///< the first ones
  int64_t b, h;

  __device__ Place(int64_t rows, int64_t width, int64_t heads) {
    int64_t tiles = (rows + kTile - 1) / kTile,
            slices = (width + kColumns - 1) / kColumns, i = blockIdx.x;
    column = int(i % slices) * kColumns;
    row = int(i / slices % tiles) * kTile;
    h = i / slices / tiles % heads;
    b = i / slices / tiles / heads;
  }
};

inline unsigned blocksFor(int64_t b, int64_t heads, int64_t rows,
                          int64_t width) {
  return unsigned(b * heads * ((rows + kTile - 1) / kTile) *
                  ((width + kColumns - 1) / kColumns));
}

/// A thread's rows and columns of a tile.
inline __device__ int rowOf(int i) {
  return int(threadIdx.x) / kSide + i * kSide;
}
inline __device__ int columnOf(int j) {
  return int(threadIdx.x) % kSide + j * kSide;
}

/// x[i][j] += row `rowOf(i)` behind firstA times row `columnOf(j)` behind
/// firstB.
template <typename T>
__device__ void multiplyRows(float (&x)[kEach][kEach], const Rows<T> &a,
                             int firstA, const Rows<T> &b, int firstB,
                             Shared &shared) {
  for (int from = 0; from < a.width; from += kStep) {
#pragma unroll 2 // few registers
    for (int e = threadIdx.x; e < kTile * kStep; e += kThreads) {
      int r = e / kStep, c = e % kStep;
      shared.a[r][c] = a.at(firstA + r, from + c);
      shared.b[r][c] = b.at(firstB + r, from + c);
    }
    __syncthreads();
#pragma unroll 4
    for (int c = 0; c < kStep; ++c)
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j)
          x[i][j] += shared.a[rowOf(i)][c] * shared.b[columnOf(j)][c];
    __syncthreads();
  }
}

/// sums[i][j] += row `rowOf(i)` of what is in `scores` times column
/// `column + columnOf(j)` of the rows behind `first`. Waits for the scores.
template <typename T>
__device__ void addWeighted(float (&sums)[kEach][kWide], const Rows<T> &rows,
                            int first, int column, Shared &shared) {
  for (int from = 0; from < kTile; from += kStep) {
#pragma unroll 4
    for (int e = threadIdx.x; e < kStep * kColumns; e += kThreads)
      shared.values[e / kColumns][e % kColumns] =
          rows.at(first + from + e / kColumns, column + e % kColumns);
    __syncthreads();
#pragma unroll 4
    for (int r = 0; r < kStep; ++r)
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        float weight = shared.scores[rowOf(i)][from + r];
#pragma unroll
        for (int j = 0; j < kWide; ++j)
          sums[i][j] += weight * shared.values[r][columnOf(j)];
      }
    __syncthreads();
  }
}

} // namespace dt::rt::tiles

#endif // DT_RUNTIME_DEVICE_CUDA_ATTENTIONTILES_H
