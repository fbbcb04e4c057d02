//===- Protobuf.h - fields of messages, written by hand ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// ONNX files and TensorBoard's events are protobuf messages. A program passes
// most of the former through as they are and writes a few fields of plain
// types, so it is built without libprotobuf.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_PROTOBUF_H
#define DT_RUNTIME_BASE_PROTOBUF_H

#include <cstdint>
#include <string>

namespace dt::rt::protobuf {

enum Wire { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

inline std::string varintBytes(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7)
    bytes += char((value & 127) | 128);
  return bytes + char(value);
}

/// What stands before the value of a field.
inline std::string header(uint32_t number, int wire) {
  return varintBytes(uint64_t(number) << 3 | wire);
}

/// A text or a message inside of a message.
inline std::string lengthField(uint32_t number, const std::string &body) {
  return header(number, Bytes) + varintBytes(body.size()) + body;
}

inline std::string varintField(uint32_t number, uint64_t value) {
  return header(number, Varint) + varintBytes(value);
}

} // namespace dt::rt::protobuf

#endif // DT_RUNTIME_BASE_PROTOBUF_H
