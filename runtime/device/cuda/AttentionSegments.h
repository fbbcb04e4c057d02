//===- AttentionSegments.h - which tiles hide from each other ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Of the numbers of segments each tile of queries and of keys has its least and
// greatest on the device. Where those of two tiles do not overlap, no query of
// the one sees a key of the other, in whatever order the numbers stand.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_ATTENTIONSEGMENTS_H
#define DT_RUNTIME_DEVICE_CUDA_ATTENTIONSEGMENTS_H

#include "runtime/device/cuda/AttentionScore.h"
#include "runtime/device/cuda/AttentionTiles.h"

namespace dt::rt::tiles {

inline __host__ __device__ int64_t tilesOf(int64_t rows) {
  return (rows + kTile - 1) / kTile;
}

/// Of a tile's segments.
struct Bounds {
  int64_t least, greatest;
};

/// Of a call: [b or 1, tiles] of queries, then of keys; null without segments.
struct SegmentTiles {
  Bounds *ofQueries = nullptr, *ofKeys = nullptr;
  int64_t queryBatch = 0, keyBatch = 0; ///< tiles from one element to the next

  static int64_t count(const AttentionShape &s) {
    return s.segments == SegmentKind::None
               ? 0
               : countRows(s, s.querySegmentB, s.t) +
                     countRows(s, s.keySegmentB, s.s);
  }
  static size_t getBytes(const AttentionShape &s) {
    return size_t(count(s)) * sizeof(Bounds);
  }
  /// `memory`: getBytes on the device.
  SegmentTiles(const AttentionShape &s, void *memory) {
    if (s.segments == SegmentKind::None)
      return;
    queryBatch = s.querySegmentB ? tilesOf(s.t) : 0;
    keyBatch = s.keySegmentB ? tilesOf(s.s) : 0;
    ofQueries = static_cast<Bounds *>(memory);
    ofKeys = ofQueries + countRows(s, s.querySegmentB, s.t);
  }
  __device__ bool mayMeet(int64_t b, int i, int j) const {
    if (!ofQueries)
      return true;
    Bounds q = ofQueries[b * queryBatch + i / kTile],
           k = ofKeys[b * keyBatch + j / kTile];
    return q.least <= k.greatest && k.least <= q.greatest;
  }

private:
  static int64_t countRows(const AttentionShape &s, int64_t batchStride,
                           int64_t rows) {
    return (batchStride || s.b == 0 ? s.b : 1) * tilesOf(rows);
  }
};

/// Queues what fills `memory` (getBytes).
SegmentTiles findBounds(const AttentionMask &mask, const AttentionShape &s,
                        void *memory, void *stream);

/// Whether all keys of the tile from `j` on are hidden from all queries of the
/// tile at `i`, as the causal rule, the window and segments say.
inline __device__ bool isHidden(const AttentionShape &s,
                                const SegmentTiles &tiles, int64_t b, int i,
                                int j) {
  int64_t last = (i + kTile < s.t ? i + kTile : s.t) - 1;
  return j >= s.getEndKey(last) || j + kTile <= s.getFirstKey(i) ||
         !tiles.mayMeet(b, i, j);
}

} // namespace dt::rt::tiles

#endif // DT_RUNTIME_DEVICE_CUDA_ATTENTIONSEGMENTS_H
