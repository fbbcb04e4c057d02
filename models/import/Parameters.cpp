//===- Parameters.cpp - Which initializers train ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/import/Parameters.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cstring>

using namespace dt;
using namespace dt::models;
using symbolic::Element;

std::optional<Element> models::toSymbolic(onnx::ElementType type) {
  switch (type) {
  case onnx::ElementType::Bool:
    return Element::Bool;
  case onnx::ElementType::UInt8:
    return Element::UInt8;
  case onnx::ElementType::Int8:
    return Element::Int8;
  case onnx::ElementType::Int32:
    return Element::Int32;
  case onnx::ElementType::Int64:
    return Element::Int64;
  case onnx::ElementType::Float16:
    return Element::F16;
  case onnx::ElementType::BFloat16:
    return Element::BF16;
  case onnx::ElementType::Float:
    return Element::F32;
  case onnx::ElementType::Double:
    return Element::F64;
  default:
    return std::nullopt;
  }
}

namespace {
template <typename T> T at(const std::string &bytes, size_t i) {
  T v;
  std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
  return v;
}

double half(const llvm::fltSemantics &semantics, uint16_t bits) {
  return llvm::APFloat(semantics, llvm::APInt(16, bits)).convertToDouble();
}

void append(symbolic::TableData &d, Element e, const std::string &bytes,
            size_t i) {
  switch (e) {
  case Element::Bool:
    d.ints.push_back(at<uint8_t>(bytes, i) != 0);
    return;
  case Element::UInt8:
    d.ints.push_back(at<uint8_t>(bytes, i));
    return;
  case Element::Int8:
    d.ints.push_back(at<int8_t>(bytes, i));
    return;
  case Element::Int32:
    d.ints.push_back(at<int32_t>(bytes, i));
    return;
  case Element::Int64:
    d.ints.push_back(at<int64_t>(bytes, i));
    return;
  case Element::F16:
    d.floats.push_back(half(llvm::APFloat::IEEEhalf(), at<uint16_t>(bytes, i)));
    return;
  case Element::BF16:
    d.floats.push_back(half(llvm::APFloat::BFloat(), at<uint16_t>(bytes, i)));
    return;
  case Element::F32:
    d.floats.push_back(at<float>(bytes, i));
    return;
  case Element::F64:
    d.floats.push_back(at<double>(bytes, i));
  }
}

/// "val_12", "onnx::MatMul_845", "/model/Constant_output_0": names that an
/// exporter gave to what it computed.
bool isMadeUp(llvm::StringRef name) {
  if (name.consume_front("val_"))
    return !name.empty() && llvm::all_of(name, llvm::isDigit);
  return name.starts_with("onnx::") || name.starts_with("/");
}

bool isFloat(onnx::ElementType type) {
  return type == onnx::ElementType::Float ||
         type == onnx::ElementType::Double ||
         type == onnx::ElementType::Float16 ||
         type == onnx::ElementType::BFloat16;
}
} // namespace

llvm::Expected<symbolic::Result>
models::readLiteral(const onnx::Tensor &tensor) {
  // Above this not even a pattern is looked for.
  constexpr int64_t maxScanned = int64_t(1) << 24;
  std::optional<Element> element = toSymbolic(tensor.type);
  if (!element || tensor.where == onnx::Tensor::Where::Absent ||
      tensor.numElements() > maxScanned)
    return symbolic::Result();
  llvm::Expected<std::string> bytes = tensor.read();
  if (!bytes)
    return bytes.takeError();
  symbolic::TableData data{symbolic::typeOf(*element), {}, {}};
  for (int64_t i = 0, n = tensor.numElements(); i < n; ++i)
    append(data, *element, *bytes, i);
  return symbolic::literal(tensor.dims, *element, std::move(data));
}

/// Operators that take settings as operands, all but the first.
static bool takesSettings(llvm::StringRef op) {
  return op == "Resize" || op == "Upsample" || op == "Clip" || op == "Pad" ||
         op == "Dropout";
}

ParameterUses::ParameterUses(const onnx::Graph &graph) {
  for (const onnx::Node &node : graph.nodes)
    if (takesSettings(node.op))
      for (size_t i = 1; i < node.inputs.size(); ++i)
        settings.insert(node.inputs[i]);
  for (const onnx::Tensor &t : graph.initializers)
    marked |= !t.mark.empty();
}

bool ParameterUses::isTrainable(const onnx::Tensor &t) const {
  if (!isFloat(t.type) || t.frozen)
    return false;
  return marked ? t.mark == "PARAMETER"
                : !isMadeUp(t.name) && !settings.contains(t.name);
}

std::string ParameterUses::refuse(const onnx::Node &node,
                                  const onnx::Tensor &t) const {
  bool product = node.op == "MatMul" || node.op == "Gemm" ||
                 node.op == "Conv" || node.op == "ConvTranspose" ||
                 node.op == "Einsum";
  if (!product || !isFloat(t.type) || isTrainable(t) || t.mark == "BUFFER" ||
      t.dims.size() < 2 || !isMadeUp(t.name))
    return "";
  return "multiplies by '" + t.name +
         "', a constant that the exporter folded out of a parameter: it would "
         "not train; export the model with models/export";
}

void ParameterUses::record(const onnx::Tensor &t, const onnx::Node &node) {
  auto [it, isNew] = position.try_emplace(t.name, uses.size());
  if (isNew)
    uses.push_back({&t, {}});
  std::vector<const onnx::Node *> &nodes = uses[it->second].nodes;
  // Several operators of one module (a norm that is written out) are one use.
  for (const onnx::Node *n : nodes)
    if (n->scope == node.scope)
      return;
  nodes.push_back(&node);
}

std::vector<ParameterUses::Shared> ParameterUses::shared() const {
  std::vector<Shared> out;
  for (const Uses &u : uses) {
    // A node without a scope was made by rewriting: it says nothing.
    std::vector<const onnx::Node *> scoped;
    for (const onnx::Node *n : u.nodes)
      if (!n->scope.empty())
        scoped.push_back(n);
    if (scoped.size() > 1 && isTrainable(*u.tensor))
      out.push_back({u.tensor, scoped[0], scoped[1]});
  }
  return out;
}
