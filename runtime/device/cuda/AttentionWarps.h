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

using tiles::emptyValue, tiles::kTile, tiles::Head, tiles::isHidden,
    tiles::Rows, tiles::SegmentTiles, tiles::tilesOf;

/// Rows of one operand in shared memory, of a block of `threads`.
template <int width, int rows, int threads> struct Tile {
  static constexpr int kWidth = width;
  bf16 at[rows * width];

  __device__ const bf16 *find(int row, int column, int r, int c) const {
    return at + swizzle<width>(row, column, r, c);
  }
  /// Begins to copy; 0 outside of the rows and behind their width.
  __device__ void load(const Rows<bf16> &from, int first) {
    constexpr int kPacks = width / kPack, kEach = threads / kPacks;
    int r = int(threadIdx.x) / kPacks, c = int(threadIdx.x) % kPacks * kPack;
    const bf16 *data = from.data + (first + r) * from.stride + c;
    bool isThere = c < from.width && r < kEach; // some threads are left over
    if (r >= kEach)
      return;
#pragma unroll
    for (int i = 0; i < (rows + kEach - 1) / kEach; ++i, r += kEach) {
      bool copies = isThere && first + r < from.count;
      if (rows % kEach == 0 || r < rows)
        copyPack(at + swizzle<width>(0, c / 16 * 16, r, c % 16),
                 copies ? data : from.data, copies);
      data += kEach * from.stride;
    }
  }
};

/// Begins to copy rows of two operands from `first` on, if there are any before
/// `end`: a group of its own.
template <typename Tile>
__device__ void loadPair(Tile &a, const Rows<bf16> &ofA, Tile &b,
                         const Rows<bf16> &ofB, int first, int end) {
  if (first < end) {
    a.load(ofA, first);
    b.load(ofB, first);
  }
  endGroup();
}

/// Which rows of a head a block owns: `each` from `row` on. `turned`: the last
/// rows first.
struct Block {
  int row;
  int64_t b, h;

  __device__ Block(int64_t rows, int each, int64_t heads, bool turned) {
    int64_t count = (rows + each - 1) / each, i = blockIdx.x;
    row = int(turned ? count - 1 - i % count : i % count) * each;
    h = i / count % heads;
    b = i / count / heads;
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

/// The same as rows at which tiles, or halves of them, begin; `end` or more
/// behind the last.
template <int rows> struct Steps {
  Walk walk;
  int end, second = -1; ///< the half that follows, -1: that of another tile

  __device__ Steps(int64_t count)
      : walk{int(tilesOf(count))}, end(walk.end * kTile) {}
  template <typename Seen> __device__ int next(Seen isSeen) {
    static_assert(rows == kTile || rows == kHalf);
    if (rows == kHalf && second >= 0) {
      int row = second;
      second = -1;
      return row;
    }
    int row = walk.next(isSeen) * kTile;
    if (rows == kHalf && row < end)
      second = row + kHalf;
    return row;
  }
};

/// A query, or a key, as what hides keys sees it.
struct Line {
  int place; ///< among all keys; of a query: of the key that stands where it
             ///< does
  bool inside;
  int64_t segment;
};

/// What hides keys from queries, of one element of the batch.
struct Hiding {
  const AttentionMask &mask;
  const AttentionShape &s;
  const SegmentTiles &segments;
  int64_t b;

  /// Whether each query of `queries` from i0 on sees each key of a tile at j0,
  /// and none is outside.
  __device__ bool isNone(int i0, int queries, int j0, int keys) const {
    if (i0 + queries > s.t || j0 + keys > s.s ||
        s.getFirstKey(i0 + queries - 1) > j0 || s.getEndKey(i0) < j0 + keys)
      return false;
    if (!segments.ofQueries)
      return true;
    auto first = segments.ofQueries + b * segments.queryBatch + i0 / kTile,
         key = segments.ofKeys + b * segments.keyBatch + j0 / kTile;
    bool same = true;
    for (int i = 0; i < (queries + kTile - 1) / kTile; ++i)
      same &= first[i].least == key->least && first[i].greatest == key->least;
    for (int j = 0; j < (keys + kTile - 1) / kTile; ++j)
      same &= key[j].least == key->least && key[j].greatest == key->least;
    return same;
  }
  /// Whether a query of those from i0 on may see a key of those from j0 on.
  __device__ bool maySee(int i0, int queries, int j0, int keys) const {
    for (int i = i0; i < i0 + queries && i < s.t; i += kTile)
      for (int j = j0; j < j0 + keys && j < s.s; j += kTile)
        if (!isHidden(s, segments, b, i, j))
          return true;
    return false;
  }
  __device__ Line getQuery(int i) const {
    bool inside = i < s.t, numbers = inside && s.segments != SegmentKind::None;
    return {int(s.getPlace(i)), inside,
            numbers ? querySegment(mask, s, b, i) : 0};
  }
  __device__ Line getKey(int j) const {
    bool inside = j < s.s, numbers = inside && s.segments != SegmentKind::None;
    return {int(s.keyStripes.getPlace(j)), inside,
            numbers ? keySegment(mask, s, b, j) : 0};
  }
  __device__ bool sees(const Line &query, const Line &key) const {
    int behind = query.place - key.place;
    bool hidden = s.causal && behind < 0;
    if (s.window)
      hidden |= behind >= s.window || (!s.causal && -behind >= s.window);
    return query.inside && key.inside && query.segment == key.segment &&
           !hidden;
  }
};

/// Which elements of `groups` times 16 rows of sums have a query that sees the
/// key, a bit each: n * 4 + e for element e of sums[n].
template <int groups, bool rowsAreKeys> struct Seen {
  uint32_t bits[groups];

  /// Of elements without one the value is instead(n, e).
  template <int count, typename Instead>
  __device__ void hide(int group, Sums (&sums)[count], Instead instead) const {
#pragma unroll
    for (int n = 0; n < count; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (!(bits[group] >> (n * 4 + e) & 1))
          sums[n].at[e] = instead(n, e);
  }
  /// `all`: nothing is hidden.
  __device__ Seen(const Hiding &hiding, bool all, int row, int column,
                  int count) {
    for (uint32_t &each : bits)
      each = all ? ~0u : 0;
    if (all)
      return;
    Line rows[groups][2];
    for (int g = 0; g < groups; ++g)
      for (int half = 0; half < 2; ++half) {
        int r = row + g * kRows + rowOf(2 * half);
        rows[g][half] = rowsAreKeys ? hiding.getKey(r) : hiding.getQuery(r);
      }
#pragma unroll 1 // few registers
    for (int n = 0; n < count; ++n)
      for (int e = 0; e < 2; ++e) {
        int c = column + n * kWide + columnOf(e);
        Line other = rowsAreKeys ? hiding.getQuery(c) : hiding.getKey(c);
        for (int g = 0; g < groups; ++g)
          for (int half = 0; half < 2; ++half)
            if (rowsAreKeys ? hiding.sees(other, rows[g][half])
                            : hiding.sees(rows[g][half], other))
              bits[g] |= 1u << (n * 4 + 2 * half + e);
      }
  }
};

/// sums[g][n] = rows of `a` from `first` on times those of `b`: 16 by 8 each.
template <int groups, int count, typename A, typename B>
__device__ void multiplyRows(Sums (&sums)[groups][count], const A &a, int first,
                             const B &b) {
#pragma unroll
  for (auto &group : sums)
#pragma unroll
    for (Sums &each : group)
      each = {};
#pragma unroll
  for (int k = 0; k < A::kWidth; k += kDeep) {
    Left left[groups];
#pragma unroll
    for (int g = 0; g < groups; ++g)
      left[g] = loadLeft(a, first + g * kRows, k);
#pragma unroll
    for (int n = 0; n < count; n += 2) {
      Right right[2];
      loadRights(right, b, n * kWide, k);
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        multiply(sums[g][n], left[g], right[0]);
        multiply(sums[g][n + 1], left[g], right[1]);
      }
    }
  }
}

/// sums += what is in `weights`, rounded, times rows of `b`.
template <int groups, int wide, int count, typename B>
__device__ void addWeighted(Sums (&sums)[groups][wide],
                            const Sums (&weights)[groups][count], const B &b) {
#pragma unroll
  for (int k = 0; k < count; k += 2) {
    Left left[groups];
#pragma unroll
    for (int g = 0; g < groups; ++g)
      left[g] = toLeft(weights[g][k], weights[g][k + 1]);
#pragma unroll
    for (int n = 0; n < wide; n += 2) {
      Right right[2];
      loadTurnedRights(right, b, k * kWide, n * kWide);
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        multiply(sums[g][n], left[g], right[0]);
        multiply(sums[g][n + 1], left[g], right[1]);
      }
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

} // namespace dt::rt::tensor

#endif // DT_RUNTIME_DEVICE_CUDA_ATTENTIONWARPS_H
