//===- MoveExternal.cpp - Values beside a graph, in another file ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Where a graph's file is copied, the files that its tensors refer to are
// missing. They hold weights above all, which a copy may not need.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/onnx/Convert.h"

#include "llvm/Support/Path.h"

using llvm::createStringError;
using llvm::Error;
using llvm::Expected;

namespace {
using Protos = std::vector<::onnx::TensorProto *>;

void collectTensors(::onnx::GraphProto &graph, Protos &found);

/// Tensors in attributes of nodes, and in their subgraphs.
template <typename Nodes> void collectFromNodes(Nodes &nodes, Protos &found) {
  for (::onnx::NodeProto &node : nodes)
    for (::onnx::AttributeProto &attribute : *node.mutable_attribute()) {
      if (attribute.has_t())
        found.push_back(attribute.mutable_t());
      for (::onnx::TensorProto &tensor : *attribute.mutable_tensors())
        found.push_back(&tensor);
      if (attribute.has_g())
        collectTensors(*attribute.mutable_g(), found);
      for (::onnx::GraphProto &graph : *attribute.mutable_graphs())
        collectTensors(graph, found);
    }
}

void collectTensors(::onnx::GraphProto &graph, Protos &found) {
  for (::onnx::TensorProto &tensor : *graph.mutable_initializer())
    found.push_back(&tensor);
  collectFromNodes(*graph.mutable_node(), found);
}

/// All tensors but the graph's own initializers `without`.
Protos collectAll(::onnx::ModelProto &model, const llvm::StringSet<> &without) {
  Protos found;
  for (::onnx::TensorProto &tensor :
       *model.mutable_graph()->mutable_initializer())
    if (!without.contains(tensor.name()))
      found.push_back(&tensor);
  collectFromNodes(*model.mutable_graph()->mutable_node(), found);
  for (::onnx::FunctionProto &function : *model.mutable_functions())
    collectFromNodes(*function.mutable_node(), found);
  return found;
}

void refer(::onnx::TensorProto &tensor, llvm::StringRef location,
           uint64_t offset, uint64_t length) {
  tensor.clear_external_data();
  auto add = [&](const char *key, const std::string &value) {
    auto *entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location.str());
  add("offset", std::to_string(offset));
  add("length", std::to_string(length));
}
} // namespace

Expected<dt::onnx::Moved>
dt::onnx::moveExternal(llvm::StringRef path, const llvm::StringSet<> &without,
                       llvm::StringRef location) {
  auto in = [&](Error reason) {
    return createStringError(path + ": " + llvm::toString(std::move(reason)));
  };
  auto model = parseFile(path);
  if (!model)
    return in(model.takeError());
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  Moved moved;
  uint64_t offset = 0;
  for (::onnx::TensorProto *proto : collectAll(*model, without)) {
    if (proto->data_location() != ::onnx::TensorProto::EXTERNAL)
      continue;
    Expected<Tensor> tensor =
        convertTensor(*proto, folder.empty() ? "." : folder);
    if (!tensor)
      return in(tensor.takeError());
    if (tensor->where == Tensor::Where::Absent)
      continue;
    uint64_t size = tensor->numElements() * elementBytes(tensor->type);
    refer(*proto, location, offset, size);
    offset += size;
    moved.tensors.push_back(std::move(*tensor));
  }
  if (!moved.tensors.empty() && !model->SerializeToString(&moved.file))
    return createStringError(path + ": is too large");
  return moved;
}
