//===- Convert.cpp - values of whatever type a file has ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Convert.h"
#include "runtime/base/Error.h"

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

template <typename T> T load(const std::byte *p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
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
    return __builtin_bit_cast(float, uint32_t(load<uint16_t>(p)) << 16);
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
  bool toFloat = to == DType::F32 || to == DType::F64;
  if ((isFloat(from.type) && !toFloat) || (isFloat(to) && !toFloat))
    throw Error(where + " is " + textOf(from.type) + ", expected " +
                textOf(to));
  for (size_t i = 0; i < count; ++i) {
    const std::byte *p = from.data + i * sizeOf(from.type);
    std::byte *q = bytes.data() + i * sizeOf(to);
    if (!toFloat) {
      storeInteger(to, q, loadInteger(from.type, p));
      continue;
    }
    double value = isFloat(from.type) ? loadFloat(from.type, p)
                                      : double(loadInteger(from.type, p));
    if (to == DType::F64)
      std::memcpy(q, &value, 8);
    else {
      float v = float(value);
      std::memcpy(q, &v, 4);
    }
  }
  return bytes;
}

} // namespace dt::rt
