//===- Manifest.cpp - which samples a step has, computed --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Manifest.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Manifest.h"

#include "runtime/base/Philox.h"

using namespace dt::rt;
using namespace dt::rt::data;

int64_t data::shuffled(uint64_t seed, int64_t epoch, int64_t place,
                       int64_t count) {
  int half = 1;
  while (half < 31 && (int64_t(1) << (2 * half)) < count)
    ++half;
  uint64_t mask = (uint64_t(1) << half) - 1, value = uint64_t(place);
  Random random(seed, philoxPurpose("epoch"), uint64_t(epoch));
  do {
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      uint64_t next = left ^ (random.bits(right << 3 | round) & mask);
      left = right;
      right = next;
    }
    value = left << half | right;
  } while (value >= uint64_t(count));
  return int64_t(value);
}

namespace {
/// The sample at a place of the run.
int64_t sampleAt(const SampleTable &table, uint64_t seed, int64_t place) {
  return shuffled(seed, place / table.samples, place % table.samples,
                  table.samples);
}
} // namespace

StepManifest data::makeManifest(const SampleTable &table, int64_t first,
                                int64_t count, uint64_t seed, int64_t step) {
  StepManifest out;
  out.step = step;
  out.items.resize(size_t(table.kinds));
  for (int64_t place = 0; place < count; ++place) {
    int64_t sample = sampleAt(table, seed, first + place);
    out.samples.push_back(sample);
    out.tokens += table.tokens[size_t(sample)];
    out.labels += table.labels[size_t(sample)];
    for (int32_t k = 0; k < table.kinds; ++k) {
      int32_t items = table.items[size_t(sample * table.kinds + k)];
      for (int32_t i = 0; i < items; ++i)
        out.items[size_t(k)].push_back({place, i});
    }
  }
  return out;
}

std::vector<int64_t> StepStarts::fill(int64_t begin) const {
  return fillParts(rule, [&](int64_t i) {
    return int64_t(table.tokens[size_t(sampleAt(table, seed, begin + i))]);
  });
}

int64_t StepStarts::begin(int64_t step) const {
  std::lock_guard<std::mutex> lock(mutex);
  while (int64_t(begins.size()) <= step)
    begins.push_back(begins.back() + fill(begins.back()).back());
  return begins[size_t(step)];
}

std::vector<int64_t> StepStarts::parts(int64_t step) const {
  return fill(begin(step));
}

int64_t StepStarts::stepsOfEpoch() const {
  int64_t steps = 1;
  while (begin(steps + 1) <= table.samples)
    ++steps;
  return steps;
}

uint64_t StepManifest::hash() const {
  uint64_t hash = 0xCBF29CE484222325ull;
  auto mix = [&](uint64_t value) {
    for (int i = 0; i < 8; ++i)
      hash = (hash ^ (value >> (8 * i) & 255)) * 0x100000001B3ull;
  };
  mix(uint64_t(step));
  mix(samples.size());
  for (int64_t sample : samples)
    mix(uint64_t(sample));
  for (const auto &kind : items) {
    mix(kind.size());
    for (const ItemRef &item : kind)
      mix(uint64_t(item.place) << 32 | uint32_t(item.number));
  }
  return hash;
}
