//===- Model.cpp - An ONNX model in memory --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/onnx/Model.h"

#include "llvm/Support/MemoryBuffer.h"

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
  }
  return "unknown";
}

int64_t Tensor::numElements() const {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d; // the loader has checked that this does not overflow
  return n;
}

llvm::Expected<std::string> Tensor::read() const {
  if (where == Where::Inside)
    return bytes;
  if (where == Where::Absent)
    return llvm::createStringError("no data for initializer '" + name + "'");
  uint64_t size = numElements() * elementBytes(type);
  auto buffer =
      llvm::MemoryBuffer::getFileSlice(externalPath, size, externalOffset);
  if (!buffer || (*buffer)->getBufferSize() != size)
    return llvm::createStringError(externalPath +
                                   ": cannot read initializer '" + name + "'");
  return (*buffer)->getBuffer().str();
}
