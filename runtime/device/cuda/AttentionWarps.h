//===- AttentionWarps.h - tiles of attention on tensor cores ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// How a block of AttentionTensor.cu's kernels walks over tiles, and what its
// warps do with them.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_ATTENTIONWARPS_H
#define DT_RUNTIME_DEVICE_CUDA_ATTENTIONWARPS_H

#include "runtime/device/cuda/AttentionSegments.h"
#include "runtime/device/cuda/Reduce.h"
#include "runtime/device/cuda/TensorCores.h"

namespace dt::rt::tensor {

using tiles::kTile, tiles::Head, tiles::isHidden, tiles::Place, tiles::Rows,
    tiles::SegmentTiles, tiles::tilesOf;

inline constexpr int kWarps = kTile / kRows, kThreads = kWarps * 32;

/// A tile's rows of one operand, or the first of them, in shared memory.
template <int width, int rows = kTile> struct Tile {
  static constexpr int kPitch = width + kSkewed;
  bf16 at[rows * kPitch];

  __device__ const bf16 *row(int r, int column = 0) const {
    return at + r * kPitch + column;
  }
  /// Begins to copy; 0 outside of the rows and behind their width.
  __device__ void load(const Rows<bf16> &from, int first) {
    for (int e = threadIdx.x; e < rows * width / kPack; e += kThreads) {
      int r = e / (width / kPack), c = e % (width / kPack) * kPack;
      bool isThere = first + r < from.count && c < from.width;
      copyPack(at + r * kPitch + c,
               isThere ? from.data + (first + r) * from.stride + c : from.data,
               isThere);
    }
  }
};

/// The tiles that are seen, one after another; all lanes of a warp ask.
struct Walk {
  int end, begin = 0; ///< tiles; begin: of those that were not looked at
  unsigned ahead = 0; ///< of the last 32 that were, which are still to come

  template <typename Seen> __device__ int next(Seen isSeen) {
    while (!ahead) {
      if (begin >= end)
        return end;
      int tile = begin + getLane();
      ahead = cuda::lanesWith(tile < end && isSeen(tile));
      begin += 32;
    }
    int tile = begin - 32 + cuda::lowestBit(ahead);
    ahead &= ahead - 1;
    return tile;
  }
};

inline constexpr int kHalf = kTile / 2;

/// The same for halves of tiles, by the row at which they begin; `end` or more
/// behind the last.
struct HalfWalk {
  Walk walk;
  int end, second = -1; ///< the half that follows, -1: that of another tile

  __device__ HalfWalk(int64_t rows)
      : walk{int(tilesOf(rows))}, end(walk.end * kTile) {}
  template <typename Seen> __device__ int next(Seen isSeen) {
    if (second >= 0) {
      int row = second;
      second = -1;
      return row;
    }
    int row = walk.next(isSeen) * kTile;
    if (row < end)
      second = row + kHalf;
    return row;
  }
};

/// What hides a tile's keys from its queries, at (i0, j0).
struct Hiding {
  const AttentionMask &mask;
  const AttentionShape &s;
  const SegmentTiles &segments;
  int64_t b;

  /// Whether each query sees each key, and none is outside.
  __device__ bool isNone(int i0, int j0) const {
    if (i0 + kTile > s.t || j0 + kTile > s.s ||
        s.getFirstKey(i0 + kTile - 1) > j0 || s.getEndKey(i0) < j0 + kTile)
      return false;
    if (!segments.ofQueries)
      return true;
    tiles::Bounds q = segments.ofQueries[b * segments.queryBatch + i0 / kTile],
                  k = segments.ofKeys[b * segments.keyBatch + j0 / kTile];
    return q.least == q.greatest && k.least == k.greatest && q.least == k.least;
  }
  __device__ bool sees(int i, int j) const {
    return i < s.t && j < s.s && isVisible(mask, s, b, i, j);
  }
};

/// sums[n] = rows of `a` from `firstA` on times those of `b`: 16 by 8 each.
template <int width, int rows>
__device__ void multiplyRows(Sums (&sums)[rows / kWide], const Tile<width> &a,
                             int firstA, const Tile<width, rows> &b) {
#pragma unroll
  for (Sums &each : sums)
    each = {};
#pragma unroll
  for (int k = 0; k < width; k += kDeep) {
    Left left = loadLeft(a.row(firstA, k), Tile<width>::kPitch);
#pragma unroll
    for (int n = 0; n < rows / kWide; n += 2) {
      Right right[2];
      loadRights(right, b.row(n * kWide, k), Tile<width>::kPitch);
      multiply(sums[n], left, right[0]);
      multiply(sums[n + 1], left, right[1]);
    }
  }
}

/// sums += what is in `weights`, rounded, times rows of `b`.
template <int width, int rows>
__device__ void addWeighted(Sums (&sums)[width / kWide],
                            const Sums (&weights)[rows / kWide],
                            const Tile<width, rows> &b) {
#pragma unroll
  for (int k = 0; k < rows / kWide; k += 2) {
    Left left = toLeft(weights[k], weights[k + 1]);
#pragma unroll
    for (int n = 0; n < width / kWide; n += 2) {
      Right right[2];
      loadTurnedRights(right, b.row(k * kWide, n * kWide), Tile<width>::kPitch);
      multiply(sums[n], left, right[0]);
      multiply(sums[n + 1], left, right[1]);
    }
  }
}

/// Writes a warp's rows, from `first` on.
template <int count>
__device__ void store(const Sums (&sums)[count], bf16 *to, int64_t stride,
                      int first, int rows, int width, float (&factor)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (int row = first + rowOf(2 * half); row < rows)
#pragma unroll
      for (int n = 0; n < count; ++n)
        if (int column = n * kWide + columnOf(0); column < width)
          *reinterpret_cast<uint32_t *>(to + row * stride + column) =
              packPair(sums[n].at[2 * half] * factor[half],
                       sums[n].at[2 * half + 1] * factor[half]);
}

/// The greatest, or the sum, of what the four lanes of a row have.
template <typename Combine> __device__ float reduceRow(float value) {
#pragma unroll
  for (int by = 1; by < 4; by *= 2)
    value =
        Combine::of(value, __shfl_sync(cuda::kAllLanes, value, getLane() ^ by));
  return value;
}

/// What a query that sees no key has in a column.
inline __device__ float emptyValue(const Rows<bf16> &v, int column,
                                   EmptyRow kind) {
  if (kind == EmptyRow::NaN && v.count > 0)
    return NAN;
  float sum = 0;
  bool mean = kind == EmptyRow::Mean || kind == EmptyRow::Filled;
  for (int j = 0; j < v.count && mean; ++j)
    sum += v.at(j, column) / float(v.count);
  return sum;
}

} // namespace dt::rt::tensor

#endif // DT_RUNTIME_DEVICE_CUDA_ATTENTIONWARPS_H
