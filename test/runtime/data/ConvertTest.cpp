//===- ConvertTest.cpp - values of other types ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Convert.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace dt::rt;

namespace {

double half(uint32_t bits) {
  uint16_t stored = uint16_t(bits);
  return loadFloat(DType::F16, reinterpret_cast<const std::byte *>(&stored));
}

uint32_t halfOf(double value) {
  uint16_t stored;
  storeFloat(DType::F16, reinterpret_cast<std::byte *>(&stored), value);
  return stored;
}

/// Each of the 65536, and what lies between two neighbours.
TEST(Convert, Halves) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    double value = half(bits);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(half(halfOf(value)))) << bits;
    else
      ASSERT_EQ(halfOf(value), bits);
  }
  for (uint32_t sign : {0u, 0x8000u})
    for (uint32_t low = 0; low < 0x7c00; ++low) {
      double a = half(sign | low),
             b = low == 0x7bff ? std::copysign(65536, a)
                               : half(sign | (low + 1)),
             middle = (a + b) / 2;
      ASSERT_EQ(halfOf(middle), (sign | low) + (low & 1)) << low;
      ASSERT_EQ(halfOf(a + (b - a) * 0.499), sign | low);
      ASSERT_EQ(halfOf(a + (b - a) * 0.501), (sign | low) + 1);
    }
  EXPECT_EQ(halfOf(1e30), 0x7c00u);
  EXPECT_EQ(halfOf(-1e-30), 0x8000u);
}

std::vector<std::byte> bytesOf(std::vector<float> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(Convert, BetweenTypes) {
  std::vector<std::byte> wide = bytesOf({1, -2.5f, 0x1p-9f});
  for (DType type : {DType::F16, DType::BF16, DType::F64, DType::F32}) {
    std::vector<std::byte> other = convert(wide, DType::F32, type, "x");
    EXPECT_EQ(other.size(), 3 * sizeOf(type));
    EXPECT_EQ(convert(other, type, DType::F32, "x"), wide) << textOf(type);
    EXPECT_ERROR(convert(other, type, DType::I64, "x"), ", expected I64");
  }
  std::vector<std::byte> five = {std::byte(5)};
  EXPECT_EQ(convert(five, DType::U8, DType::F32, "x"), bytesOf({5}));
  // Not all integers are numbers of it.
  EXPECT_ERROR(convert(five, DType::U8, DType::BF16, "x"),
               "x is U8, expected BF16");
}

} // namespace
