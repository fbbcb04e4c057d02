//===- Model.h - An ONNX model in memory, checked ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the importer sees of an ONNX file. The loader has checked it (sizes,
// order, names, paths) and has inlined local functions, so nobody after it
// needs protobuf's headers or its distrust.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_ONNX_MODEL_H
#define MODELS_FRONTEND_ONNX_MODEL_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dt::onnx {

/// TensorProto.DataType, as far as the importer knows it.
enum class ElementType {
  Undefined = 0,
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  BFloat16 = 16,
  // No element of these is read; they have names for messages.
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  UInt4 = 21,
  Int4 = 22,
  Float4E2M1 = 23
};
/// Programs keep float32: floats of 16 bits in a file stand for it.
constexpr bool isNarrowFloat(ElementType type) {
  return type == ElementType::Float16 || type == ElementType::BFloat16;
}
/// Bytes an element; 0 for types that the importer does not handle.
unsigned elementBytes(ElementType type);
llvm::StringRef elementName(ElementType type);

struct Tensor {
  std::string name;
  ElementType type = ElementType::Undefined; ///< in the file
  std::vector<int64_t> dims;
  /// Where the elements are: in `bytes`, in another file, or nowhere (the
  /// external file does not exist). Only an initializer may be Absent.
  enum class Where { Inside, External, Absent } where = Where::Inside;
  std::string bytes; ///< little-endian elements; External: empty until read()
  std::string externalPath; ///< of the file, also of one that does not exist
  uint64_t externalOffset = 0;
  /// "PARAMETER" or "BUFFER" if the exporter said so, else empty.
  std::string mark;
  bool frozen = false; ///< a parameter that the exported module itself keeps
                       ///< fixed (requires_grad is False)
  bool shared = false; ///< the module itself has it in several places
                       ///< (distrain.shared is True)

  int64_t numElements() const;
  /// The elements' bytes, from wherever they are; narrow floats as float32.
  llvm::Expected<std::string> read() const;
  /// The same, as the file has them.
  llvm::Expected<std::string> readStored() const;
};

struct Graph;

struct Attribute {
  enum class Kind { Int, Float, String, Ints, Floats, Strings, Tensor, Graph };
  Kind kind;
  int64_t i = 0;
  double f = 0;
  std::string s;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> strings;
  std::shared_ptr<Tensor> tensor;
  std::shared_ptr<Graph> graph;
};

struct Node {
  std::string name; ///< never empty: a made-up one where the file has none
  std::string op;
  std::string domain;
  std::vector<std::string> inputs; ///< empty name: input left out
  std::vector<std::string> outputs;
  std::map<std::string, Attribute> attributes;
  /// Path of the module the exporter traced it in ("layers.0.mlp"), without
  /// the operator itself; empty if unknown.
  std::string scope;
  /// models/export marks an Identity so where PyTorch's autograd stops.
  bool stopsGradient = false;
  /// It marks a maximum or minimum with what PyTorch's operator does where
  /// several are equal: they "share" the gradient, or the "first" has it; empty
  /// if unknown.
  std::string ties;
  /// Version of the operator set that gives `op` its meaning.
  int64_t opset = 0;
};

struct Dim {
  int64_t size = -1;  ///< -1: see `symbol`
  std::string symbol; ///< name or expression; empty with size -1: unknown
};

struct ValueInfo {
  std::string name;
  ElementType type = ElementType::Undefined;
  bool ranked = false;
  std::vector<Dim> dims;
};

struct Graph {
  std::vector<Node> nodes;       ///< each after what it uses
  std::vector<ValueInfo> inputs; ///< without initializers
  std::vector<ValueInfo> outputs;
  std::vector<Tensor> initializers;
};

/// The newest operator set whose attributes are known.
inline constexpr int64_t newestOpset = 24;

struct Model {
  std::string path;
  int64_t opset = 0;
  Graph graph;
  bool hasNarrowFloats = false; ///< in tensors or types of inputs
  /// The external file that the exporter left out on purpose, as in
  /// Tensor::externalPath; empty: none.
  std::string leftOut;
  std::vector<std::string> warnings;
};

/// Reads and checks an ONNX file. Errors are one line that begins with `path`.
llvm::Expected<Model> loadOnnx(llvm::StringRef path);

/// A graph's file whose external data lie elsewhere than they did.
struct Moved {
  std::string file;            ///< its bytes; empty if nothing had to move
  std::vector<Tensor> tensors; ///< what the other file holds, in this order
};

/// Lets all external tensors of the ONNX file `path` refer to a file `location`
/// beside it, but for the initializers `without` and for what does not exist.
llvm::Expected<Moved> moveExternal(llvm::StringRef path,
                                   const llvm::StringSet<> &without,
                                   llvm::StringRef location);

} // namespace dt::onnx

#endif // MODELS_FRONTEND_ONNX_MODEL_H
