//===- AttentionSegments.cu - which tiles hide from each other ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/AttentionSegments.h"

namespace dt::rt::tiles {

namespace {

/// A thread a tile.
__global__ void boundsKernel(AttentionMask mask, AttentionShape s,
                             SegmentTiles tiles, int64_t count) {
  int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x,
          ofQueries = tiles.ofKeys - tiles.ofQueries;
  if (e >= count)
    return;
  bool query = e < ofQueries;
  int64_t rows = query ? s.t : s.s, at = query ? e : e - ofQueries,
          b = at / tilesOf(rows), first = at % tilesOf(rows) * kTile;
  Bounds all{INT64_MAX, INT64_MIN};
  for (int64_t i = first; i < first + kTile && i < rows; ++i) {
    int64_t number =
        query ? querySegment(mask, s, b, i) : keySegment(mask, s, b, i);
    all.least = number < all.least ? number : all.least;
    all.greatest = number > all.greatest ? number : all.greatest;
  }
  tiles.ofQueries[e] = all;
}

} // namespace

SegmentTiles findBounds(const AttentionMask &mask, const AttentionShape &s,
                        void *memory, void *stream) {
  SegmentTiles tiles(s, memory);
  if (int64_t n = SegmentTiles::count(s))
    cuda::launch("bounds of segments", boundsKernel, cuda::blocksFor(n), 256, 0,
                 stream, mask, s, tiles, n);
  return tiles;
}

} // namespace dt::rt::tiles
