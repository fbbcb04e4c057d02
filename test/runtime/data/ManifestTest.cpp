//===- ManifestTest.cpp - which samples a step has --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Epochs are permutations, steps cover them without gaps.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Manifest.h"

#include <gtest/gtest.h>

#include <set>

using namespace dt::rt::data;

namespace {
SampleTable table(int64_t samples) {
  SampleTable t;
  t.samples = samples;
  t.kinds = 2;
  for (int64_t i = 0; i < samples; ++i) {
    t.items.push_back(int32_t(i % 3));
    t.items.push_back(int32_t(i % 2));
    t.tokens.push_back(int32_t(10 + i));
    t.labels.push_back(int32_t(i));
  }
  return t;
}

TEST(Manifest, EpochsArePermutations) {
  for (int64_t count : {1, 2, 3, 4, 5, 17, 100, 1025})
    for (int64_t epoch : {0, 1, 7}) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < count; ++i)
        seen.insert(shuffled(3, epoch, i, count));
      EXPECT_EQ(int64_t(seen.size()), count);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), count - 1);
    }
}

TEST(Manifest, EpochsAndSeedsDiffer) {
  auto order = [](uint64_t seed, int64_t epoch) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < 100; ++i)
      out.push_back(shuffled(seed, epoch, i, 100));
    return out;
  };
  EXPECT_NE(order(0, 0), order(0, 1));
  EXPECT_NE(order(0, 0), order(1, 0));
  EXPECT_EQ(order(5, 2), order(5, 2));
}

TEST(Manifest, FirstPlacesAreUniform) {
  // 20 samples, 4000 epochs: 200 expected; five standard deviations are
  // about 69.
  std::vector<int> hits(20);
  for (int64_t epoch = 0; epoch < 4000; ++epoch)
    ++hits[size_t(shuffled(1, epoch, 0, 20))];
  for (int n : hits)
    EXPECT_NEAR(n, 200, 69);
}

TEST(Manifest, PartsAreFilledInOrder) {
  auto fill = [](StepRule rule, std::vector<int64_t> tokens) {
    return fillParts(rule, [&](int64_t i) {
      return i < int64_t(tokens.size()) ? tokens[size_t(i)] : -1;
    });
  };
  using Places = std::vector<int64_t>;
  // 6 does not fit behind 5; nothing that comes later goes before it.
  EXPECT_EQ(fill({3, 10, 9}, {5, 6, 1, 10, 0, 2}), (Places{0, 1, 3, 5}));
  EXPECT_EQ(fill({2, 10, 2}, {1, 1, 1, 1, 1}), (Places{0, 2, 4}));
  EXPECT_EQ(fill({3, 10, 4}, {0, 0, 0, 0, 0, 7}), (Places{0, 4, 6, 6}));
}

/// Each step begins where the one before it ended, whoever asks, in whatever
/// order; no part is above its bounds and each is as full as it gets.
TEST(Manifest, StepsOfPartsCoverEpochsWithoutGaps) {
  SampleTable t = table(23);
  StepRule rule{3, 60, 4};
  StepStarts starts(t, rule, 5), late(t, rule, 5);
  std::vector<int64_t> last = late.parts(40);
  int64_t place = 0, epoch = 0;
  auto at = [&](int64_t i) {
    return shuffled(5, i / t.samples, i % t.samples, t.samples);
  };
  for (int64_t step = 0; step <= 40; ++step) {
    ASSERT_EQ(starts.begin(step), place);
    std::vector<int64_t> parts = starts.parts(step);
    ASSERT_EQ(parts.size(), 4u);
    for (size_t p = 0; p < 3; ++p) {
      int64_t tokens = 0, count = parts[p + 1] - parts[p];
      for (int64_t i = parts[p]; i < parts[p + 1]; ++i)
        tokens += t.tokens[size_t(at(place + i))];
      EXPECT_LE(tokens, 60);
      EXPECT_LE(count, 4);
      EXPECT_TRUE(count == 4 ||
                  tokens + t.tokens[size_t(at(place + parts[p + 1]))] > 60);
    }
    StepManifest m = makeManifest(t, place, parts.back(), 5, step);
    for (size_t i = 0; i < m.samples.size(); ++i)
      EXPECT_EQ(m.samples[i], at(place + int64_t(i)));
    if (step == 40)
      EXPECT_EQ(parts, last);
    place += parts.back();
    epoch += place <= t.samples;
  }
  EXPECT_EQ(starts.stepsOfEpoch(), epoch);
}

TEST(Manifest, StepsCoverEpochsWithoutGaps) {
  SampleTable t = table(7);
  std::vector<int64_t> all;
  for (int64_t step = 0; step < 7; ++step)
    for (int64_t sample : makeManifest(t, 4, 0, step).samples)
      all.push_back(sample);
  ASSERT_EQ(all.size(), 28u);
  for (size_t epoch = 0; epoch < 4; ++epoch)
    EXPECT_EQ(std::set<int64_t>(all.begin() + long(7 * epoch),
                                all.begin() + long(7 * epoch + 7))
                  .size(),
              7u);
}

TEST(Manifest, CountsAndOrder) {
  SampleTable t = table(10);
  StepManifest m = makeManifest(t, 5, 9, 3);
  ASSERT_EQ(m.samples.size(), 5u);
  int64_t tokens = 0, labels = 0;
  std::vector<ItemRef> expected;
  for (size_t i = 0; i < m.samples.size(); ++i) {
    tokens += t.tokens[size_t(m.samples[i])];
    labels += t.labels[size_t(m.samples[i])];
    for (int32_t k = 0; k < t.items[size_t(m.samples[i] * 2)]; ++k)
      expected.push_back({int64_t(i), k});
  }
  EXPECT_EQ(m.items[0], expected);
  EXPECT_EQ(m.tokens, tokens);
  EXPECT_EQ(m.labels, labels);
}

TEST(Manifest, Hash) {
  SampleTable t = table(10);
  uint64_t hash = makeManifest(t, 6, 2, 5).hash();
  EXPECT_EQ(hash, makeManifest(t, 6, 2, 5).hash());
  EXPECT_NE(hash, makeManifest(t, 6, 2, 6).hash());
  EXPECT_NE(hash, makeManifest(t, 5, 2, 5).hash());
  t.items[0] += 1, t.items[2 * 9] += 1;
  EXPECT_NE(hash, makeManifest(t, 10, 2, 5).hash());
}
} // namespace
