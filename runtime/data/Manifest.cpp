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

StepManifest data::makeManifest(const SampleTable &table, int64_t global,
                                uint64_t seed, int64_t step) {
  StepManifest out;
  out.step = step;
  out.items.resize(size_t(table.kinds));
  for (int64_t place = 0; place < global; ++place) {
    int64_t position = step * global + place;
    int64_t sample = shuffled(seed, position / table.samples,
                              position % table.samples, table.samples);
    out.samples.push_back(sample);
    out.tokens += table.tokens[size_t(sample)];
    out.labels += table.labels[size_t(sample)];
    for (int32_t k = 0; k < table.kinds; ++k) {
      int32_t count = table.items[size_t(sample * table.kinds + k)];
      for (int32_t i = 0; i < count; ++i)
        out.items[size_t(k)].push_back({place, i});
    }
  }
  return out;
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
