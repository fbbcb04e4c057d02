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
