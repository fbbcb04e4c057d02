//===- AttentionKeys.h - which keys tiles of queries see --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the causal rule, a window and segments leave of the keys for a tile of
// queries, in runs of consecutive ones. Of segments a tile knows its least and
// greatest number: where these overlap, pairs are compared one by one.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_ATTENTIONKEYS_H
#define DT_RUNTIME_DEVICE_CPU_ATTENTIONKEYS_H

#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/Dnnl.h"

#include <vector>

namespace dt::rt {

constexpr int64_t kAttentionTile = 64; ///< queries, keys

/// Keys [begin, end); their scores stand from `column` on.
struct KeyRun {
  int64_t begin, end, column;
};

/// Of a tile of queries: runs in order, and how many keys they have.
struct KeyRuns {
  const KeyRun *first = nullptr, *last = nullptr;
  int64_t width = 0;

  const KeyRun *begin() const { return first; }
  const KeyRun *end() const { return last; }
};

/// What the tiles of a call have in common.
class AttentionKeys {
public:
  /// Reads the numbers of all segments once.
  AttentionKeys(const AttentionShape &s, const AttentionMask &mask);

  /// Keys that any of the queries [first, first + count), those of one tile,
  /// may see.
  KeyRuns find(int64_t batch, int64_t first, int64_t count,
               Scratch &scratch) const;
  /// All keys, in one run.
  KeyRuns all(Scratch &scratch) const;
  /// Puts -inf for keys of the run that the causal rule, the window or segments
  /// hide from a query. `x`: the run's scores.
  void hide(int64_t batch, int64_t query, const KeyRun &run, float *x) const;

private:
  struct Bounds {
    int64_t least, greatest;
  };
  /// Of each tile of `rows` numbers, `stride` apart, of each batch element.
  std::vector<Bounds> findBounds(const void *numbers, int64_t batch,
                                 int64_t rows, int64_t stride) const;
  bool mayMeet(int64_t batch, int64_t queryTile, int64_t keyTile) const;

  const AttentionShape &s;
  AttentionMask mask;
  int64_t queryTiles, keyTiles;
  std::vector<Bounds> ofQueries, ofKeys;
};

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CPU_ATTENTIONKEYS_H
