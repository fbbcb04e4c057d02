//===- Convert.cpp - values of whatever type a file has ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Convert.h"
#include "runtime/base/Error.h"
#include "runtime/device/BFloat16.h"

#include <cmath>
#include <cstring>

namespace dt::rt {

namespace {

float halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
           mantissa = bits & 1023;
  if (exponent == 0) {
    float value = float(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  uint32_t word = sign |
                  (exponent == 31 ? 255u << 23 : (exponent + 112) << 23) |
                  mantissa << 13;
  return __builtin_bit_cast(float, word);
}

uint16_t floatToHalf(float value) {
  uint32_t word = __builtin_bit_cast(uint32_t, value),
           sign = word >> 16 & 0x8000, size = word & 0x7fffffff;
  if (size > 0x7f800000)
    return uint16_t(sign | 0x7e00);
  if (size >= 0x47800000) // 2^16
    return uint16_t(sign | 0x7c00);
  if (size < 0x38800000) // 2^-14: a multiple of 2^-24
    return uint16_t(sign |
                    uint32_t(std::nearbyint(std::fabs(value) * 0x1p24f)));
  return uint16_t(sign |
                  (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13);
}

template <typename T> T load(const std::byte *p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

template <typename T> void store(std::byte *p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

} // namespace

bool isFloat(DType t) {
  return t == DType::F32 || t == DType::F64 || t == DType::F16 ||
         t == DType::BF16;
}

double loadFloat(DType type, const std::byte *p) {
  switch (type) {
  case DType::F32:
    return load<float>(p);
  case DType::F64:
    return load<double>(p);
  case DType::F16:
    return halfToFloat(load<uint16_t>(p));
  default:
    return float(load<bf16>(p));
  }
}

void storeFloat(DType type, std::byte *p, double value) {
  switch (type) {
  case DType::F32:
    return store(p, float(value));
  case DType::F64:
    return store(p, value);
  case DType::F16:
    return store(p, floatToHalf(float(value)));
  default:
    return store(p, bf16(float(value)));
  }
}

int64_t loadInteger(DType type, const std::byte *p) {
  switch (type) {
  case DType::I64:
    return load<int64_t>(p);
  case DType::I32:
    return load<int32_t>(p);
  case DType::I8:
    return load<int8_t>(p);
  default:
    return load<uint8_t>(p);
  }
}

void storeInteger(DType type, std::byte *p, int64_t value) {
  switch (type) {
  case DType::I64:
    std::memcpy(p, &value, 8);
    break;
  case DType::I32: {
    int32_t v = int32_t(value);
    std::memcpy(p, &v, 4);
    break;
  }
  case DType::Bool:
    *p = std::byte(value != 0);
    break;
  default:
    *p = std::byte(uint8_t(value));
  }
}

std::vector<std::byte> convert(const TensorView &from, DType to,
                               const std::string &where) {
  size_t count = from.size / sizeOf(from.type);
  std::vector<std::byte> bytes(count * sizeOf(to));
  if (from.type == to) {
    if (from.size)
      std::memcpy(bytes.data(), from.data, from.size);
    return bytes;
  }
  bool holdsIntegers = !isFloat(to) || to == DType::F32 || to == DType::F64;
  if (isFloat(from.type) ? !isFloat(to) : !holdsIntegers)
    throw Error(where + " is " + textOf(from.type) + ", expected " +
                textOf(to));
  for (size_t i = 0; i < count; ++i) {
    const std::byte *p = from.data + i * sizeOf(from.type);
    std::byte *q = bytes.data() + i * sizeOf(to);
    if (isFloat(from.type))
      storeFloat(to, q, loadFloat(from.type, p));
    else if (isFloat(to))
      storeFloat(to, q, double(loadInteger(from.type, p)));
    else
      storeInteger(to, q, loadInteger(from.type, p));
  }
  return bytes;
}

std::vector<std::byte> convert(std::vector<std::byte> bytes, DType from,
                               DType to, const std::string &where) {
  if (from == to)
    return bytes;
  return convert({from, {}, bytes.data(), bytes.size()}, to, where);
}

} // namespace dt::rt
