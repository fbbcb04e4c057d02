//===- OnnxFields.h - ONNX files, field by field ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An export passes most of a file through as it is, so messages are read field
// by field, without libprotobuf (runtime/base/Protobuf.h).
//
// Field numbers are those of onnx.proto: ModelProto {graph = 7, functions =
// 25}, GraphProto {node = 1, initializer = 5}, FunctionProto.node = 7,
// NodeProto {input = 1, output = 2, name = 3, op_type = 4, attribute = 5},
// AttributeProto {name = 1, i = 3, t = 5, g = 6, tensors = 10, graphs = 11,
// type = 20}, TensorProto {dims = 1, data_type = 2, float_data = 4, int32_data
// = 5, string_data = 6, int64_data = 7, name = 8, raw_data = 9, double_data =
// 10, uint64_data = 11, external_data = 13, data_location = 14},
// StringStringEntryProto {key = 1, value = 2}.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_ONNXFIELDS_H
#define DT_RUNTIME_SAVE_ONNXFIELDS_H

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dt::rt {

struct Field {
  uint32_t number;
  int wire;
  uint64_t value = 0; ///< of a varint
  std::string_view whole,
      body; ///< with and without its header; body of Bytes only
};

/// Iterates over the fields of one message; throws on anything malformed.
class FieldReader {
public:
  FieldReader(std::string_view message, const std::string &file)
      : rest(message), file(file) {}

  bool next(Field &field);
  uint64_t varint();
  bool done() const { return rest.empty(); }

private:
  [[noreturn]] void fail() const;

  std::string_view rest;
  const std::string &file;
};

/// What is known of an initializer before its value is replaced.
struct TensorFacts {
  std::string name;
  int64_t type = 0;
  std::vector<int64_t> dims;
  std::string location; ///< of external data
};

TensorFacts readTensor(std::string_view message, const std::string &file);

/// Messages that tensors are below.
enum class OnnxMessage { Graph, Function, Node, Attribute, Tensor };

/// Files that tensors below a message refer to. Throws if graphs are nested
/// deeper than the compiler reads them.
void findLocations(OnnxMessage kind, std::string_view message,
                   const std::string &file, std::set<std::string> &found,
                   int depth = 0);

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_ONNXFIELDS_H
