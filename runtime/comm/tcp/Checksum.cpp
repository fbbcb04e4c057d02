//===- Checksum.cpp - CRC-32C of what is sent -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Checksum.h"

#include <array>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace dt::rt::tcp {

namespace {

/// Bits reversed, as the instruction has them.
constexpr uint32_t kPolynomial = 0x82F63B78;

/// What a byte does to a sum that 0 to 7 further bytes follow.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables makeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit)
      sum = sum >> 1 ^ (sum & 1 ? kPolynomial : 0);
    tables[0][byte] = sum;
  }
  for (size_t t = 1; t < tables.size(); ++t)
    for (uint32_t byte = 0; byte < 256; ++byte)
      tables[t][byte] =
          tables[t - 1][byte] >> 8 ^ tables[0][tables[t - 1][byte] & 0xff];
  return tables;
}
constexpr Tables kTables = makeTables();

uint64_t wordAt(const unsigned char *at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2")))
uint32_t byInstruction(const unsigned char *at, size_t bytes, uint32_t sum) {
  uint64_t wide = sum;
  for (; bytes >= 8; at += 8, bytes -= 8)
    wide = _mm_crc32_u64(wide, wordAt(at));
  sum = uint32_t(wide);
  for (; bytes; ++at, --bytes)
    sum = _mm_crc32_u8(sum, *at);
  return sum;
}

/// The sum `sum` with zeros of kRun bytes behind it, by tables.
constexpr size_t kRun = 2048;
uint32_t behindRun(uint32_t sum) {
  static const auto *const moved = [] {
    // Of each of the four bytes of a sum: it is linear.
    auto *made = new std::array<std::array<uint32_t, 256>, 4>;
    static const unsigned char zeros[kRun] = {};
    for (uint32_t place = 0; place < 4; ++place)
      for (uint32_t byte = 0; byte < 256; ++byte)
        (*made)[place][byte] = byInstruction(zeros, kRun, byte << (8 * place));
    return made;
  }();
  return (*moved)[0][sum & 0xff] ^ (*moved)[1][sum >> 8 & 0xff] ^
         (*moved)[2][sum >> 16 & 0xff] ^ (*moved)[3][sum >> 24];
}

/// The instruction takes three cycles, and one may begin in each: three runs at
/// a time.
__attribute__((target("sse4.2"))) uint32_t threeRuns(const unsigned char *at,
                                                     uint32_t sum) {
  uint64_t a = sum, b = 0, c = 0;
  for (size_t i = 0; i < kRun; i += 8) {
    a = _mm_crc32_u64(a, wordAt(at + i));
    b = _mm_crc32_u64(b, wordAt(at + kRun + i));
    c = _mm_crc32_u64(c, wordAt(at + 2 * kRun + i));
  }
  return behindRun(behindRun(uint32_t(a)) ^ uint32_t(b)) ^ uint32_t(c);
}
#endif

} // namespace

uint32_t checksumByTables(const void *data, size_t bytes, uint32_t before) {
  const auto *at = static_cast<const unsigned char *>(data);
  uint32_t sum = ~before;
  if constexpr (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
    for (; bytes >= 8; at += 8, bytes -= 8) {
      uint64_t word = wordAt(at) ^ sum;
      sum = 0;
      for (size_t i = 0; i < 8; ++i)
        sum ^= kTables[7 - i][word >> (8 * i) & 0xff];
    }
  for (; bytes; ++at, --bytes)
    sum = sum >> 8 ^ kTables[0][(sum ^ *at) & 0xff];
  return ~sum;
}

uint32_t checksum(const void *data, size_t bytes, uint32_t before) {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("sse4.2");
  if (has) {
    const auto *at = static_cast<const unsigned char *>(data);
    uint32_t sum = ~before;
    for (; bytes >= 3 * kRun; at += 3 * kRun, bytes -= 3 * kRun)
      sum = threeRuns(at, sum);
    return ~byInstruction(at, bytes, sum);
  }
#endif
  return checksumByTables(data, bytes, before);
}

bool usesChecksums() {
  const char *choice = std::getenv("DT_CHECKSUM");
  return !choice || std::strcmp(choice, "off") != 0;
}

} // namespace dt::rt::tcp
