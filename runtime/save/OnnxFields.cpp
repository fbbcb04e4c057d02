//===- OnnxFields.cpp - ONNX files, field by field ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/OnnxFields.h"
#include "runtime/base/Error.h"
#include "runtime/base/Protobuf.h"

namespace dt::rt {

using namespace protobuf;

bool FieldReader::next(Field &field) {
  if (rest.empty())
    return false;
  std::string_view start = rest;
  uint64_t tag = varint();
  field = {uint32_t(tag >> 3), int(tag & 7), 0, {}, {}};
  size_t length = 0;
  switch (field.wire) {
  case Varint:
    field.value = varint();
    break;
  case Fixed64:
    length = 8;
    break;
  case Fixed32:
    length = 4;
    break;
  case Bytes:
    length = varint();
    break;
  default:
    fail();
  }
  if (length > rest.size() || tag >> 3 == 0 || tag >> 32)
    fail();
  field.body = rest.substr(0, length);
  rest.remove_prefix(length);
  field.whole = start.substr(0, start.size() - rest.size());
  return true;
}

uint64_t FieldReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    uint8_t byte = rest.front();
    rest.remove_prefix(1);
    value |= uint64_t(byte & 127) << shift;
    if (byte < 128)
      return value;
  }
  fail();
}

void FieldReader::fail() const {
  throw Error(file + ": not a valid ONNX file");
}

TensorFacts readTensor(std::string_view message, const std::string &file) {
  TensorFacts facts;
  Field field;
  for (FieldReader reader(message, file); reader.next(field);) {
    if (field.number == 8 && field.wire == Bytes)
      facts.name = field.body;
    else if (field.number == 2 && field.wire == Varint)
      facts.type = int64_t(field.value);
    else if (field.number == 1 && field.wire == Varint)
      facts.dims.push_back(int64_t(field.value));
    else if (field.number == 1 && field.wire == Bytes)
      for (FieldReader packed(field.body, file); !packed.done();)
        facts.dims.push_back(int64_t(packed.varint()));
    else if (field.number == 13 && field.wire == Bytes) {
      Field entry;
      std::string key, value;
      for (FieldReader pair(field.body, file); pair.next(entry);)
        (entry.number == 1 ? key : value) = entry.body;
      if (key == "location")
        facts.location = value;
    }
  }
  return facts;
}

namespace {

/// Protobuf's own limit for messages inside of messages.
constexpr int kDeepest = 100;

/// Fields that lead to tensors, from message to message.
constexpr struct {
  OnnxMessage from;
  uint32_t field;
  OnnxMessage to;
} kWays[] = {{OnnxMessage::Graph, 1, OnnxMessage::Node},
             {OnnxMessage::Graph, 5, OnnxMessage::Tensor},
             {OnnxMessage::Function, 7, OnnxMessage::Node},
             {OnnxMessage::Node, 5, OnnxMessage::Attribute},
             {OnnxMessage::Attribute, 5, OnnxMessage::Tensor},
             {OnnxMessage::Attribute, 6, OnnxMessage::Graph},
             {OnnxMessage::Attribute, 10, OnnxMessage::Tensor},
             {OnnxMessage::Attribute, 11, OnnxMessage::Graph}};

} // namespace

void findLocations(OnnxMessage kind, std::string_view message,
                   const std::string &file, std::set<std::string> &found,
                   int depth) {
  if (depth > kDeepest)
    throw Error(file + ": graphs are nested too deeply");
  if (kind == OnnxMessage::Tensor) {
    std::string location = readTensor(message, file).location;
    if (!location.empty())
      found.insert(location);
    return;
  }
  Field field;
  for (FieldReader reader(message, file); reader.next(field);)
    for (auto &way : kWays)
      if (way.from == kind && way.field == field.number && field.wire == Bytes)
        findLocations(way.to, field.body, file, found, depth + 1);
}

} // namespace dt::rt
