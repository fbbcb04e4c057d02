//===- InitTest.cpp - random numbers and initial values ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Init.h"
#include "runtime/base/Cores.h"
#include "runtime/base/Parallel.h"
#include "runtime/base/Safetensors.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>

using namespace dt::rt;

namespace {

struct Moments {
  double mean = 0, std = 0, low = 1e30, high = -1e30;
  explicit Moments(const std::vector<float> &v) {
    for (float x : v)
      mean += x, low = std::min<double>(low, x),
                 high = std::max<double>(high, x);
    mean /= double(v.size());
    for (float x : v)
      std += (x - mean) * (x - mean);
    std = std::sqrt(std / double(v.size()));
  }
};

std::vector<float> draw(const std::string &rule, std::vector<int64_t> shape,
                        const std::string &name = "w", uint64_t seed = 1) {
  int64_t count = 1;
  for (int64_t e : shape)
    count *= e;
  std::vector<float> values(count);
  initialize(values.data(), shape, rule, name, seed);
  return values;
}

/// The vectors of the authors' reference implementation (Random123,
/// kat_vectors).
TEST(Philox, KnownAnswers) {
  auto expect = [](PhiloxBlock counter, uint32_t k0, uint32_t k1,
                   std::vector<uint32_t> words) {
    PhiloxBlock r = philox(counter, k0, k1);
    EXPECT_EQ(std::vector<uint32_t>(r.word, r.word + 4), words);
  };
  expect({{0, 0, 0, 0}}, 0, 0,
         {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822,
         0x299f31d0, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(Philox, EveryKeyPartMatters) {
  std::set<uint32_t> words;
  for (uint64_t high : {0ull, 1ull << 40})
    for (int i = 0; i < 5; ++i) {
      uint64_t x[5] = {1, 2, 3, 4, 5};
      x[i] += 1 + high;
      words.insert(Random(x[0], x[1], x[2], x[3]).bits(x[4]));
    }
  EXPECT_EQ(words.size(), 10u);
}

TEST(Init, Distributions) {
  Moments normal(draw("normal(0.5, 0.02)", {200, 200}));
  EXPECT_NEAR(normal.mean, 0.5, 1e-3);
  EXPECT_NEAR(normal.std, 0.02, 1e-3);
  Moments uniform(draw("uniform(-1,3)", {200, 200}));
  EXPECT_NEAR(uniform.mean, 1, 0.03);
  EXPECT_NEAR(uniform.std, 4 / std::sqrt(12.0), 0.02);
  Moments truncated(draw("trunc_normal(0,1,-1,1)", {200, 200}));
  EXPECT_GE(truncated.low, -1);
  EXPECT_LE(truncated.high, 1);
  EXPECT_NEAR(truncated.std, 0.5396,
              0.01); // sqrt(1 - 2 phi(1) / (2 Phi(1) - 1))
  Moments kaiming(draw("kaiming_uniform", {100, 400}));
  EXPECT_NEAR(kaiming.high, 0.05, 1e-3); // 1 / sqrt(fan in), torch.nn.Linear's
  EXPECT_NEAR(Moments(draw("xavier_normal", {100, 400})).std,
              std::sqrt(2.0 / 500), 1e-3);
  EXPECT_EQ(draw("constant(2.5)", {3}), std::vector<float>(3, 2.5f));
  EXPECT_EQ(draw("ones", {2}), std::vector<float>(2, 1.f));
}

TEST(Init, DependsOnNameSeedAndIndexOnly) {
  std::vector<float> a = draw("normal(0,1)", {10, 10}),
                     longer = draw("normal(0,1)", {20, 10});
  EXPECT_TRUE(std::equal(a.begin(), a.end(), longer.begin()));
  EXPECT_NE(a, draw("normal(0,1)", {10, 10}, "v"));
  EXPECT_NE(a, draw("normal(0,1)", {10, 10}, "w", 2));
}

/// As they were drawn one by one: any piece, the same bits.
TEST(Init, PiecesHaveTheBitsOfTheWhole) {
  const char *rules[] = {"normal(0.5,0.02)", "uniform(-1,3)",
                         "trunc_normal(0,1,-1,1)", "constant(2.5)"};
  for (const char *rule : rules) {
    Initializer values(rule, {40, 50}, "w", 7);
    std::vector<float> whole = draw(rule, {40, 50}, "w", 7);
    for (int64_t first = 0; first < 10; ++first)
      for (int64_t count : {0, 1, 2, 3, 4, 5, 9, 1001}) {
        std::vector<float> piece(size_t(count) + 1, -77);
        values.draw(piece.data(), first, count);
        EXPECT_EQ(piece.back(), -77) << rule;
        EXPECT_FALSE(std::memcmp(piece.data(), whole.data() + first,
                                 size_t(count) * sizeof(float)))
            << rule << " " << first << " " << count;
      }
  }
  Random random(7, philoxPurpose("init w"));
  std::vector<float> normals = draw("normal(0,1)", {1000}, "w", 7),
                     uniforms = draw("uniform", {1000}, "w", 7);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(normals[i], random.normal(i));
    ASSERT_EQ(uniforms[i], random.uniform(i));
  }
}

/// What programs have begun with since there are rules.
TEST(Init, KnownBits) {
  auto hashOf = [](const char *rule) {
    std::vector<float> values(1000);
    Initializer(rule, {40, 50}, "layers.0.w", 7).draw(values.data(), 3, 1000);
    return hashBytes(values.data(), values.size() * sizeof(float));
  };
  EXPECT_EQ(hashOf("normal(0.5,0.02)"), 0xc0a027bfa4344fdaull);
  EXPECT_EQ(hashOf("uniform(-1,3)"), 0x264681deb82be276ull);
  EXPECT_EQ(hashOf("trunc_normal(0,1,-1,1)"), 0xf33f88522f3b58e4ull);
  EXPECT_EQ(hashOf("kaiming_uniform"), 0xff93e78d1aca1261ull);
  EXPECT_EQ(hashOf("xavier_normal"), 0xb63906ae9d8f5124ull);
  EXPECT_EQ(hashOf("constant(2.5)"), 0x01975a9710312c41ull);
}

TEST(Init, ManyThreadsHaveTheBitsOfOne) {
  constexpr int64_t kCount = 10007, kPiece = 64;
  Initializer values("normal(0,1)", {kCount}, "w", 7);
  std::vector<float> one(kCount);
  values.draw(one.data(), 0, kCount);
  for (int threads : {1, 2, 7, 64}) {
    std::vector<float> many(kCount, -77);
    std::atomic<int64_t> drawn{0};
    inParallel((kCount + kPiece - 1) / kPiece, threads, "a test",
               [&](int64_t i) {
                 int64_t n = std::min(kPiece, kCount - i * kPiece);
                 values.draw(many.data() + i * kPiece, i * kPiece, n);
                 drawn += n;
               });
    EXPECT_EQ(drawn, kCount);
    EXPECT_EQ(many, one) << threads << " threads";
  }
}

/// Each body runs in a thread of its own where all are needed at once.
TEST(Parallel, UsesAllThreads) {
  std::atomic<int> there{0};
  inParallel(4, 4, "a test", [&](int64_t) {
    ++there;
    while (there < 4)
      std::this_thread::yield();
  });
  EXPECT_EQ(there, 4);
  inParallel(0, 4, "a test", [&](int64_t) { ++there; });
  EXPECT_EQ(there, 4);
}

/// The others end before the caller does.
TEST(Parallel, TheCallersErrorIsItsOwn) {
  std::thread::id own = std::this_thread::get_id();
  std::atomic<bool> thrown{false};
  EXPECT_ERROR(inParallel(100, 4, "a test",
                          [&](int64_t) {
                            if (std::this_thread::get_id() == own) {
                              thrown = true;
                              throw Error("of the caller");
                            }
                            while (!thrown)
                              std::this_thread::yield();
                          }),
               "of the caller");
}

TEST(Cores, OfARank) {
  EXPECT_EQ(coresOfRank(128, 128, 1), 128);
  EXPECT_EQ(coresOfRank(128, 128, 8), 16); // all share all cores
  EXPECT_EQ(coresOfRank(16, 128, 8), 16);  // each has its own
  EXPECT_EQ(coresOfRank(4, 128, 8), 4);
  EXPECT_EQ(coresOfRank(2, 2, 8), 1);
  EXPECT_EQ(coresOfRank(2, 2, 0), 2);
}

TEST(Init, BadRules) {
  EXPECT_ERROR(checkInitRule("gauss(1)", {2}, "a.w"),
               "parameter 'a.w': init rule 'gauss(1)' is not known");
  EXPECT_ERROR(checkInitRule("normal(0,x)", {2}, "a.w"), "not a number");
  EXPECT_ERROR(checkInitRule("normal(0,1", {2}, "a.w"), "parenthesis");
  EXPECT_ERROR(checkInitRule("kaiming_uniform", {2}, "a.w"), "two dims");
  EXPECT_ERROR(checkInitRule("normal(1,2,3)", {2}, "a.w"),
               "number of arguments");
}

} // namespace
