//===- BFloat16Test.cpp - floats of two bytes -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/BFloat16.h"
#include "runtime/device/Device.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace dt::rt;

namespace {

uint32_t bitsOf(float value) { return __builtin_bit_cast(uint32_t, value); }
float floatOf(uint32_t bits) { return __builtin_bit_cast(float, bits); }

static_assert(bf16(1.f).bits == 0x3f80 && float(bf16(-2.5f)) == -2.5f);

/// Both ways, each of the 65536.
TEST(BFloat16, WidensExactlyAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    bf16 value = bf16::fromBits(uint16_t(bits));
    float wide = value;
    ASSERT_EQ(bitsOf(wide), bits << 16);
    uint16_t back = std::isnan(wide) ? uint16_t(bits | 0x40) : uint16_t(bits);
    ASSERT_EQ(bf16(wide).bits, back);
  }
}

/// What lies between two neighbours goes to the nearer, from the middle to the
/// even one; above the largest is infinity.
TEST(BFloat16, RoundsToTheNearest) {
  for (uint32_t sign : {0u, 0x8000u})
    for (uint32_t low = 0; low < 0x7f80; ++low) {
      uint32_t at = sign | low;
      ASSERT_EQ(bf16(floatOf(at << 16 | 0x0001)).bits, at);
      ASSERT_EQ(bf16(floatOf(at << 16 | 0x7fff)).bits, at);
      ASSERT_EQ(bf16(floatOf(at << 16 | 0x8000)).bits, at + (low & 1));
      ASSERT_EQ(bf16(floatOf(at << 16 | 0x8001)).bits, at + 1);
      ASSERT_EQ(bf16(floatOf(at << 16 | 0xffff)).bits, at + 1);
    }
  EXPECT_TRUE(std::isinf(float(bf16(std::numeric_limits<float>::max()))));
}

TEST(BFloat16, ANaNStaysOneAndBecomesQuiet) {
  for (uint32_t payload :
       {1u, 0x7fffu, 0xffffu, 0x10000u, 0x3fffffu, 0x400000u})
    for (uint32_t sign : {0u, 0x80000000u}) {
      uint16_t bits = bf16(floatOf(sign | 0x7f800000 | payload)).bits;
      EXPECT_TRUE(std::isnan(float(bf16::fromBits(bits)))) << payload;
      EXPECT_TRUE(bits & 0x40);
      EXPECT_EQ(bits >> 15, sign >> 31);
    }
}

/// Arrays of all lengths, with and without threads.
TEST(BFloat16, OfArrays) {
  for (size_t n : {0, 1, 17, 1000, 100003}) {
    std::vector<float> from = randoms(n, 5), back(n + 1, 7);
    std::vector<bf16> to(n + 1, bf16(7));
    device::narrow(to.data(), from.data(), n);
    device::widen(back.data(), to.data(), n);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(to[i].bits, bf16(from[i]).bits);
      ASSERT_EQ(back[i], float(to[i]));
    }
    EXPECT_EQ(float(to[n]), 7);
    EXPECT_EQ(back[n], 7);
  }
}

/// Masters are what parameters without rounding would be, bit for bit.
TEST(BFloat16, UpdateRoundsWhatItHasUpdated) {
  constexpr double settings[] = {0.9, 0.999, 1e-8};
  for (size_t n : {1, 17, 1000, 100003}) {
    std::vector<float> p = randoms(n, 1), master = p, m(n), v(n), m2(n), v2(n);
    std::vector<bf16> working(n);
    for (int64_t step = 0; step < 3; ++step) {
      std::vector<float> g = randoms(n, 2 + uint64_t(step));
      UpdateStep how{settings, 1e-2, 0.1, step};
      Verdict verdict{0, 0, 0.5, true};
      device::UpdateRun plain{
          p.data(), g.data(), {m.data(), v.data()}, n, nullptr};
      device::UpdateRun rounded{
          master.data(), g.data(), {m2.data(), v2.data()}, n, working.data()};
      device::update(OptimizerKind::AdamW, how, {&plain, 1, n}, &verdict);
      device::update(OptimizerKind::AdamW, how, {&rounded, 1, n}, &verdict);
    }
    EXPECT_EQ(p, master);
    EXPECT_EQ(m, m2);
    EXPECT_EQ(v, v2);
    for (size_t i = 0; i < n; ++i)
      ASSERT_EQ(working[i].bits, bf16(master[i]).bits);
  }
}

/// Narrow gradients count as what they are widened, bit for bit.
TEST(BFloat16, GradientsInEitherType) {
  constexpr double settings[] = {0.9, 0.999, 1e-8};
  for (size_t n : {1, 17, 1000, 100003}) {
    std::vector<float> p = randoms(n, 1), q = p, m(n), v(n), m2(n), v2(n),
                       wide(n), g = randoms(n, 2);
    std::vector<bf16> narrow(n);
    device::narrow(narrow.data(), g.data(), n);
    device::widen(wide.data(), narrow.data(), n);
    UpdateStep how{settings, 1e-2, 0.1, 0};
    Verdict verdict{0, 0, 0.5, true};
    device::UpdateRun of[] = {
        {p.data(), wide.data(), {m.data(), v.data()}, n, nullptr},
        {q.data(), narrow.data(), {m2.data(), v2.data()}, n, nullptr}};
    for (device::UpdateRun &run : of)
      device::update(OptimizerKind::AdamW, how, {&run, 1, n}, &verdict);
    EXPECT_EQ(p, q);
    EXPECT_EQ(m, m2);
    EXPECT_EQ(v, v2);
    double squares[2];
    device::FloatRun runs[] = {{wide.data(), n}, {narrow.data(), n}};
    for (int i = 0; i < 2; ++i)
      device::sumOfSquares(&squares[i], {&runs[i], 1, n});
    EXPECT_EQ(squares[0], squares[1]);
    EXPECT_GT(squares[0], 0);
  }
}

} // namespace
