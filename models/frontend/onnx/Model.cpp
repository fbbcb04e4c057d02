//===- Model.cpp - An ONNX model in memory --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/onnx/Model.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>
#include <cstring>

using namespace dt::onnx;

unsigned dt::onnx::elementBytes(ElementType type) {
  switch (type) {
  case ElementType::UInt8:
  case ElementType::Int8:
  case ElementType::Bool:
    return 1;
  case ElementType::UInt16:
  case ElementType::Int16:
  case ElementType::Float16:
  case ElementType::BFloat16:
    return 2;
  case ElementType::Float:
  case ElementType::Int32:
  case ElementType::UInt32:
    return 4;
  case ElementType::Double:
  case ElementType::Int64:
  case ElementType::UInt64:
    return 8;
  default:
    return 0;
  }
}

llvm::StringRef dt::onnx::elementName(ElementType type) {
  switch (type) {
  case ElementType::Undefined:
    return "undefined";
  case ElementType::Float:
    return "float";
  case ElementType::UInt8:
    return "uint8";
  case ElementType::Int8:
    return "int8";
  case ElementType::UInt16:
    return "uint16";
  case ElementType::Int16:
    return "int16";
  case ElementType::Int32:
    return "int32";
  case ElementType::Int64:
    return "int64";
  case ElementType::String:
    return "string";
  case ElementType::Bool:
    return "bool";
  case ElementType::Float16:
    return "float16";
  case ElementType::Double:
    return "double";
  case ElementType::UInt32:
    return "uint32";
  case ElementType::UInt64:
    return "uint64";
  case ElementType::BFloat16:
    return "bfloat16";
  case ElementType::Float8E4M3FN:
    return "float8e4m3fn";
  case ElementType::Float8E4M3FNUZ:
    return "float8e4m3fnuz";
  case ElementType::Float8E5M2:
    return "float8e5m2";
  case ElementType::Float8E5M2FNUZ:
    return "float8e5m2fnuz";
  case ElementType::UInt4:
    return "uint4";
  case ElementType::Int4:
    return "int4";
  case ElementType::Float4E2M1:
    return "float4e2m1";
  }
  return "unknown";
}

int64_t Tensor::numElements() const {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d; // the loader has checked that this does not overflow
  return n;
}

/// Exact: float32 has every number of both types.
static float widen(ElementType type, uint16_t bits) {
  if (type == ElementType::BFloat16)
    return llvm::bit_cast<float>(uint32_t(bits) << 16);
  constexpr int mantissaBits = 10, bias = 15, topExponent = 31;
  int exponent = bits >> mantissaBits & topExponent;
  int mantissa = bits & ((1 << mantissaBits) - 1);
  float size;
  if (exponent == topExponent)
    size = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    size = std::ldexp(float(mantissa), 1 - bias - mantissaBits);
  else
    size = std::ldexp(float(mantissa + (1 << mantissaBits)),
                      exponent - bias - mantissaBits);
  return bits >> 15 ? -size : size;
}

static std::string widen(ElementType type, llvm::StringRef bytes) {
  std::string wide(2 * bytes.size(), '\0');
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint16_t)) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + i, sizeof bits);
    float number = widen(type, bits);
    std::memcpy(wide.data() + 2 * i, &number, sizeof number);
  }
  return wide;
}

llvm::Expected<std::string> Tensor::read() const {
  llvm::Expected<std::string> stored = readStored();
  return stored && isNarrowFloat(type) ? widen(type, *stored)
                                       : std::move(stored);
}

llvm::Expected<std::string> Tensor::readStored() const {
  if (where == Where::Inside)
    return bytes;
  if (where == Where::Absent)
    return llvm::createStringError("the value of initializer '" + name +
                                   "' lies in '" + externalPath +
                                   "', which does not exist");
  uint64_t size = numElements() * elementBytes(type);
  auto buffer =
      llvm::MemoryBuffer::getFileSlice(externalPath, size, externalOffset);
  if (!buffer || (*buffer)->getBufferSize() != size)
    return llvm::createStringError(externalPath +
                                   ": cannot read initializer '" + name + "'");
  return (*buffer)->getBuffer().str();
}
