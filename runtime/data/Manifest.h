//===- Manifest.h - which samples a step has, computed ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// manifest(step) is a pure function of the index, the seed and the batch size:
// no state, no reading. Every rank can evaluate it ahead of time and finds the
// same; microbatches, replicas and reordering only change how it is cut
// (Assignment.h), never which samples a step has.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_MANIFEST_H
#define DT_RUNTIME_DATA_MANIFEST_H

#include <cstdint>
#include <mutex>
#include <vector>

namespace dt::rt::data {

/// What the manifest needs to know of the good samples: a row each.
struct SampleTable {
  int64_t samples = 0;
  int32_t kinds = 0;           ///< item kinds
  std::vector<int32_t> items;  ///< [samples, kinds]
  std::vector<int32_t> tokens; ///< [samples]
  std::vector<int32_t> labels; ///< [samples]: tokens marked as targets
};

/// An item by the place of its sample in the global batch and its number in the
/// sample.
struct ItemRef {
  int64_t place;
  int32_t number;
  bool operator==(const ItemRef &o) const {
    return place == o.place && number == o.number;
  }
};

struct StepManifest {
  int64_t step = 0;
  std::vector<int64_t> samples; ///< by place: the number in the data set
  std::vector<std::vector<ItemRef>> items; ///< per kind, owner's order
  int64_t tokens = 0, labels = 0; ///< of the global batch: denominators
  uint64_t hash() const;          ///< equal manifests, equal hashes
};

/// Place `place` of epoch `epoch`: a number in [0, count). For each (seed,
/// epoch) a permutation, by a six-round Feistel network with Philox as round
/// function on the next power of four, walked until it falls below `count`
/// (fewer than four rounds on average). Needs no table, so shuffling any number
/// of samples is free.
int64_t shuffled(uint64_t seed, int64_t epoch, int64_t place, int64_t count);

/// The step's `count` samples, from place `first` of the run on; table.samples
/// > 0.
StepManifest makeManifest(const SampleTable &table, int64_t first,
                          int64_t count, uint64_t seed, int64_t step);
/// Of steps of `global` samples; `step` from 0 on.
inline StepManifest makeManifest(const SampleTable &table, int64_t global,
                                 uint64_t seed, int64_t step) {
  return makeManifest(table, step * global, global, seed, step);
}

/// A step is as many samples as fit into parts, as they come (docs/sizes.md).
struct StepRule {
  int64_t parts = 0;               ///< of a step; 0: it has a number of samples
  int64_t tokens = 0, samples = 0; ///< most of a part
};

/// Where each of `rule.parts` parts begins, counted from the first sample, and
/// where the last ends. `tokensOf(i)`: of sample i, at most rule.tokens; below
/// 0: there is none.
template <typename TokensOf>
std::vector<int64_t> fillParts(const StepRule &rule, TokensOf tokensOf) {
  std::vector<int64_t> begins{0};
  int64_t sample = 0;
  while (int64_t(begins.size()) <= rule.parts) {
    int64_t used = 0, own = tokensOf(sample);
    for (; own >= 0 && used + own <= rule.tokens &&
           sample - begins.back() < rule.samples;
         own = tokensOf(++sample))
      used += own;
    begins.push_back(sample);
  }
  return begins;
}

/// Where the steps of a rule begin among all samples of a run: step s where
/// step s - 1 ended. Keeps a number a step.
class StepStarts {
public:
  StepStarts(const SampleTable &table, const StepRule &rule, uint64_t seed)
      : table(table), rule(rule), seed(seed) {}

  /// The place in the run of the step's first sample.
  int64_t begin(int64_t step) const;
  /// From that on, of its parts (fillParts).
  std::vector<int64_t> parts(int64_t step) const;
  /// Steps in which no sample comes twice.
  int64_t stepsOfEpoch() const;

private:
  std::vector<int64_t> fill(int64_t begin) const;

  const SampleTable &table;
  StepRule rule;
  uint64_t seed;
  mutable std::mutex mutex; ///< steps are planned by several threads
  mutable std::vector<int64_t> begins{0};
};

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_MANIFEST_H
