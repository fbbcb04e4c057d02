//===- AttentionKeys.cpp - which keys tiles of queries see ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/AttentionKeys.h"

#include <algorithm>
#include <limits>

namespace dt::rt {

namespace {

int64_t tilesOf(int64_t rows) {
  return (rows + kAttentionTile - 1) / kAttentionTile;
}

/// Calls run(numbers) with their type.
template <typename Run>
void withNumbers(SegmentKind kind, const void *numbers, Run run) {
  if (kind == SegmentKind::Int32)
    run(static_cast<const int32_t *>(numbers));
  else
    run(static_cast<const int64_t *>(numbers));
}

} // namespace

AttentionKeys::AttentionKeys(const AttentionShape &s, const AttentionMask &mask)
    : s(s), mask(mask), queryTiles(tilesOf(s.t)), keyTiles(tilesOf(s.s)) {
  if (s.segments == SegmentKind::None)
    return;
  ofQueries = findBounds(mask.ofQueries, s.querySegmentB, s.t, s.querySegmentT);
  ofKeys = findBounds(mask.ofKeys, s.keySegmentB, s.s, 1);
}

std::vector<AttentionKeys::Bounds>
AttentionKeys::findBounds(const void *numbers, int64_t batch, int64_t rows,
                          int64_t stride) const {
  std::vector<Bounds> result;
  withNumbers(s.segments, numbers, [&](const auto *from) {
    for (int64_t b = 0; b < (batch ? s.b : std::min<int64_t>(s.b, 1)); ++b)
      for (int64_t first = 0; first < rows; first += kAttentionTile) {
        Bounds tile{std::numeric_limits<int64_t>::max(),
                    std::numeric_limits<int64_t>::min()};
        int64_t end = std::min(first + kAttentionTile, rows);
        for (int64_t i = first; i < end; ++i) {
          int64_t number = from[b * batch + i * stride];
          tile.least = std::min(tile.least, number);
          tile.greatest = std::max(tile.greatest, number);
        }
        result.push_back(tile);
      }
  });
  return result;
}

bool AttentionKeys::mayMeet(int64_t batch, int64_t queryTile,
                            int64_t keyTile) const {
  const Bounds &q =
      ofQueries[(s.querySegmentB ? batch : 0) * queryTiles + queryTile];
  const Bounds &k = ofKeys[(s.keySegmentB ? batch : 0) * keyTiles + keyTile];
  return q.least <= k.greatest && k.least <= q.greatest;
}

KeyRuns AttentionKeys::find(int64_t batch, int64_t first, int64_t count,
                            Scratch &scratch) const {
  int64_t begin = s.getFirstKey(first), end = s.getEndKey(first + count - 1);
  auto *runs = static_cast<KeyRun *>(
      scratch.bytes(size_t(keyTiles / 2 + 1) * sizeof(KeyRun)));
  KeyRun *last = runs;
  int64_t width = 0;
  auto add = [&](int64_t from, int64_t to) {
    if (last != runs && last[-1].end == from)
      last[-1].end = to;
    else
      *last++ = {from, to, width};
    width += to - from;
  };
  if (s.segments == SegmentKind::None) {
    if (begin < end)
      add(begin, end);
    return {runs, last, width};
  }
  for (int64_t from = begin; from < end;) {
    int64_t tile = from / kAttentionTile,
            to = std::min((tile + 1) * kAttentionTile, end);
    if (mayMeet(batch, first / kAttentionTile, tile))
      add(from, to);
    from = to;
  }
  return {runs, last, width};
}

KeyRuns AttentionKeys::all(Scratch &scratch) const {
  auto *run = static_cast<KeyRun *>(scratch.bytes(sizeof(KeyRun)));
  *run = {0, s.s, 0};
  return {run, run + 1, s.s};
}

void AttentionKeys::hide(int64_t batch, int64_t query, const KeyRun &run,
                         float *x) const {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  int64_t n = run.end - run.begin;
  int64_t begin = std::clamp<int64_t>(s.getFirstKey(query) - run.begin, 0, n);
  int64_t end = std::clamp<int64_t>(s.getEndKey(query) - run.begin, begin, n);
  std::fill(x, x + begin, kHidden);
  std::fill(x + end, x + n, kHidden);
  if (s.segments == SegmentKind::None)
    return;
  withNumbers(s.segments, mask.ofKeys, [&](const auto *numbers) {
    using Number = std::remove_reference_t<decltype(*numbers)>;
    Number own = static_cast<Number *>(
        mask.ofQueries)[batch * s.querySegmentB + query * s.querySegmentT];
    const auto *of = numbers + batch * s.keySegmentB + run.begin;
#pragma omp simd
    for (int64_t j = begin; j < end; ++j)
      x[j] = of[j] == own ? x[j] : kHidden;
  });
}

} // namespace dt::rt
