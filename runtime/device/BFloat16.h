//===- BFloat16.h - a float of two bytes ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// bfloat16: the upper half of a float32. A type of stored elements: what
// computes widens what it loads and rounds what it stores. Conversions have no
// branches, so that loops around them vectorise; in `omp simd` loops every
// compiler does that where a float is assigned to an element (`to[i] = x`).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_BFLOAT16_H
#define DT_RUNTIME_DEVICE_BFLOAT16_H

#include <cstdint>

#ifdef __CUDACC__
#define DT_BF16 __host__ __device__ constexpr
#else
#define DT_BF16 constexpr
#endif

namespace dt::rt {

struct bf16 {
  bf16() = default;
  /// To the nearest, ties to even; a NaN stays one and becomes quiet.
  explicit DT_BF16 bf16(float value) : bits(rounded(value)) {}
  /// Rounds as the constructor does.
  DT_BF16 bf16 &operator=(float value) {
    bits = rounded(value);
    return *this;
  }
  static DT_BF16 bf16 fromBits(uint16_t bits) {
    bf16 value{};
    value.bits = bits;
    return value;
  }
  /// Exact.
  DT_BF16 operator float() const {
    return __builtin_bit_cast(float, uint32_t(bits) << 16);
  }

  uint16_t bits;

private:
  static DT_BF16 uint16_t rounded(float value) {
    uint32_t word = __builtin_bit_cast(uint32_t, value), upper = word >> 16;
    bool isNaN = (word & 0x7fffffff) > 0x7f800000;
    uint32_t nearest = (word + 0x7fff + (upper & 1)) >> 16;
    return uint16_t(isNaN ? upper | 0x40 : nearest);
  }
};

static_assert(sizeof(bf16) == 2);

} // namespace dt::rt

#undef DT_BF16

#endif // DT_RUNTIME_DEVICE_BFLOAT16_H
