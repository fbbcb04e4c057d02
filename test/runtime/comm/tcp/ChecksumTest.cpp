//===- ChecksumTest.cpp - CRC-32C -------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

using namespace dt::rt::tcp;

namespace {

/// RFC 3720, B.4, and the usual check value.
TEST(Checksum, Published) {
  std::string zeros(32, '\0'), ones(32, '\xff'), up, down;
  for (char c = 0; c < 32; ++c)
    up += c, down.insert(down.begin(), c);
  for (auto sum : {checksum, checksumByTables}) {
    EXPECT_EQ(sum("123456789", 9, 0), 0xE3069283u);
    EXPECT_EQ(sum(zeros.data(), 32, 0), 0x8A9136AAu);
    EXPECT_EQ(sum(ones.data(), 32, 0), 0x62A8AB43u);
    EXPECT_EQ(sum(up.data(), 32, 0), 0x46DD794Eu);
    EXPECT_EQ(sum(down.data(), 32, 0), 0x113FDB5Cu);
    EXPECT_EQ(sum(nullptr, 0, 0), 0u);
  }
}

/// Any length, place and cut; and every flipped bit is seen.
TEST(Checksum, LikeTables) {
  std::mt19937 random(1);
  std::vector<unsigned char> bytes(40000);
  for (unsigned char &byte : bytes)
    byte = (unsigned char)random();
  for (size_t length : {1, 7, 8, 9, 63, 6143, 6144, 6145, 12288, 20001, 39990})
    for (size_t at : {0, 1, 5}) {
      uint32_t whole = checksumByTables(bytes.data() + at, length);
      EXPECT_EQ(checksum(bytes.data() + at, length), whole);
      size_t cut = random() % (length + 1);
      EXPECT_EQ(checksum(bytes.data() + at + cut, length - cut,
                         checksum(bytes.data() + at, cut)),
                whole);
      size_t flipped = at + random() % length;
      bytes[flipped] ^= (unsigned char)(1u << random() % 8);
      EXPECT_NE(checksum(bytes.data() + at, length), whole);
    }
}

} // namespace
