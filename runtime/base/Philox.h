//===- Philox.h - counter-based random numbers ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC11). A draw is a pure function of (seed, purpose, step, item, element), so
// it does not depend on layout, order or ranks. Header only and free of
// libraries, because generated CPU and CUDA kernels include it too.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_PHILOX_H
#define DT_RUNTIME_BASE_PHILOX_H

#include "runtime/HostDevice.h"

#include <cmath>
#include <cstdint>

namespace dt::rt {

struct PhiloxBlock {
  uint32_t word[4];
};

/// The ten rounds of the paper on a 128-bit counter and a 64-bit key.
DT_HOST_DEVICE inline PhiloxBlock philox(PhiloxBlock counter, uint32_t key0,
                                         uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53u) * counter.word[0];
    uint64_t p1 = uint64_t(0xCD9E8D57u) * counter.word[2];
    counter = {{uint32_t(p1 >> 32) ^ counter.word[1] ^ key0, uint32_t(p1),
                uint32_t(p0 >> 32) ^ counter.word[3] ^ key1, uint32_t(p0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// FNV-1a over a purpose or parameter name.
DT_HOST_DEVICE constexpr uint64_t philoxPurpose(const char *name) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (; *name; ++name)
    hash = (hash ^ uint8_t(*name)) * 0x100000001B3ull;
  return hash;
}

/// A stream of draws for one (seed, purpose, step, item). The block that holds
/// element e is counter e / 4: element, step and item fill the counter, seed
/// and purpose are mixed into the key.
class Random {
public:
  DT_HOST_DEVICE Random(uint64_t seed, uint64_t purpose, uint64_t step = 0,
                        uint64_t item = 0) {
    // One Philox call spreads the four inputs over key and upper counter words;
    // no input is truncated.
    PhiloxBlock a = philox({{uint32_t(purpose), uint32_t(purpose >> 32),
                             uint32_t(step), uint32_t(step >> 32)}},
                           uint32_t(seed), uint32_t(seed >> 32));
    PhiloxBlock b =
        philox({{uint32_t(item), uint32_t(item >> 32), a.word[0], a.word[1]}},
               a.word[2], a.word[3]);
    key0 = b.word[0], key1 = b.word[1], high0 = b.word[2], high1 = b.word[3];
  }

  DT_HOST_DEVICE uint32_t bits(uint64_t element) const {
    uint64_t block = element / 4;
    return philox({{uint32_t(block), uint32_t(block >> 32), high0, high1}},
                  key0, key1)
        .word[element % 4];
  }

  /// In [0, 1), 24 bits.
  DT_HOST_DEVICE float uniform(uint64_t element) const {
    return float(bits(element) >> 8) * 0x1p-24f;
  }

  /// Standard normal (Box-Muller). Elements 2i and 2i + 1 come from one pair of
  /// words.
  DT_HOST_DEVICE float normal(uint64_t element) const {
    PhiloxBlock r = block(element / 4);
    int pair = int(element % 4) & 2;
    float two[2];
    boxMuller(r.word[pair], r.word[pair + 1], two);
    return two[element & 1];
  }

  /// uniform() of elements 4 * index to 4 * index + 3, and normal() of the
  /// same: at a quarter of the cost.
  DT_HOST_DEVICE void fourUniforms(uint64_t index, float *four) const {
    PhiloxBlock r = block(index);
    for (int i = 0; i < 4; ++i)
      four[i] = float(r.word[i] >> 8) * 0x1p-24f;
  }
  DT_HOST_DEVICE void fourNormals(uint64_t index, float *four) const {
    PhiloxBlock r = block(index);
    boxMuller(r.word[0], r.word[1], four);
    boxMuller(r.word[2], r.word[3], four + 2);
  }

  /// normal(0), ..., normal(count - 1).
  DT_HOST_DEVICE void normals(float *out, uint64_t count) const {
    float four[4];
    for (uint64_t first = 0; first < count; first += 4) {
      fourNormals(first / 4, four);
      for (uint64_t i = 0; i < 4 && first + i < count; ++i)
        out[first + i] = four[i];
    }
  }

private:
  DT_HOST_DEVICE PhiloxBlock block(uint64_t index) const {
    return philox({{uint32_t(index), uint32_t(index >> 32), high0, high1}},
                  key0, key1);
  }

  DT_HOST_DEVICE static void boxMuller(uint32_t a, uint32_t b, float *two) {
    double u = (double(a) + 0.5) * 0x1p-32, v = double(b) * 0x1p-32;
    double radius = sqrt(-2.0 * log(u)), angle = 6.283185307179586 * v;
    two[0] = float(radius * cos(angle));
    two[1] = float(radius * sin(angle));
  }

  uint32_t key0, key1, high0, high1;
};

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_PHILOX_H
