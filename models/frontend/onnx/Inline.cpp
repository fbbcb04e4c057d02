//===- Inline.cpp - Local functions of an ONNX file -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A call of a model-local function is replaced by the function's nodes, with
// names made unique by the call's name. Attributes that refer to the function's
// own are resolved. Calls inside calls are done by going over the result again;
// recursion is not allowed by ONNX and found by depth.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/onnx/Convert.h"

#include "llvm/ADT/StringMap.h"

using namespace dt::onnx;
using llvm::createStringError;
using llvm::Error;

namespace {
constexpr int maxDepth = 16;
constexpr int maxNodes = 1 << 20;

class Inliner {
public:
  explicit Inliner(::onnx::ModelProto &model) : model(model) {
    for (const auto &f : model.functions())
      functions[key(f.domain(), f.name())] = &f;
  }

  Error run() {
    if (functions.empty())
      return Error::success();
    for (int depth = 0; depth < maxDepth; ++depth) {
      changed = false;
      if (Error e = inlineInto(*model.mutable_graph()))
        return e;
      if (!changed)
        return Error::success();
    }
    return createStringError("local functions call each other more than " +
                             llvm::Twine(maxDepth) + " deep");
  }

private:
  static std::string key(const std::string &domain, const std::string &name) {
    return (domain == "ai.onnx" ? "" : domain) + "::" + name;
  }

  Error inlineInto(::onnx::GraphProto &graph) {
    google::protobuf::RepeatedPtrField<::onnx::NodeProto> nodes;
    nodes.Swap(graph.mutable_node());
    for (::onnx::NodeProto &node : nodes) {
      auto it = functions.find(key(node.domain(), node.op_type()));
      if (it == functions.end()) {
        for (auto &a : *node.mutable_attribute())
          if (a.has_g())
            if (Error e = inlineInto(*a.mutable_g()))
              return e;
        graph.add_node()->Swap(&node);
        continue;
      }
      changed = true;
      if (Error e = expand(node, *it->second, graph))
        return e;
      if (graph.node_size() > maxNodes)
        return createStringError("local functions expand to more than " +
                                 llvm::Twine(maxNodes) + " nodes");
    }
    return Error::success();
  }

  Error expand(const ::onnx::NodeProto &call, const ::onnx::FunctionProto &f,
               ::onnx::GraphProto &graph) {
    if (call.input_size() > f.input_size() ||
        call.output_size() > f.output_size())
      return createStringError("node '" + call.name() + "' (" + call.op_type() +
                               "): more operands than the function takes");
    llvm::StringMap<std::string> names;
    std::string prefix = "f" + std::to_string(counter++) + ".";
    for (int i = 0; i < f.input_size(); ++i)
      names[f.input(i)] = i < call.input_size() ? call.input(i) : "";
    for (int i = 0; i < f.output_size(); ++i)
      names[f.output(i)] = i < call.output_size() && !call.output(i).empty()
                               ? call.output(i)
                               : prefix + f.output(i);
    for (const ::onnx::NodeProto &body : f.node()) {
      ::onnx::NodeProto *n = graph.add_node();
      *n = body;
      n->set_name(call.name() + "/" + body.name());
      for (std::string &s : *n->mutable_input())
        rename(s, names, prefix);
      for (std::string &s : *n->mutable_output())
        rename(s, names, prefix);
      if (!n->metadata_props_size())
        *n->mutable_metadata_props() = call.metadata_props();
      resolveAttributes(*n, call, f);
      for (const auto &a : n->attribute())
        if (a.has_g())
          return createStringError(
              "node '" + n->name() +
              "': a subgraph in a local function is not handled");
    }
    return Error::success();
  }

  static void rename(std::string &s, llvm::StringMap<std::string> &names,
                     const std::string &prefix) {
    if (s.empty())
      return;
    s = names.try_emplace(s, prefix + s).first->second;
  }

  /// `ref_attr_name` becomes the call's attribute, the function's default, or
  /// nothing (then the operator's default holds).
  static void resolveAttributes(::onnx::NodeProto &n,
                                const ::onnx::NodeProto &call,
                                const ::onnx::FunctionProto &f) {
    google::protobuf::RepeatedPtrField<::onnx::AttributeProto> old;
    old.Swap(n.mutable_attribute());
    for (::onnx::AttributeProto &a : old) {
      if (a.ref_attr_name().empty()) {
        *n.add_attribute() = a;
        continue;
      }
      auto take = [&](const auto &list) {
        for (const auto &given : list)
          if (given.name() == a.ref_attr_name()) {
            ::onnx::AttributeProto *copy = n.add_attribute();
            *copy = given;
            copy->set_name(a.name());
            return true;
          }
        return false;
      };
      if (!take(call.attribute()))
        take(f.attribute_proto());
    }
  }

  ::onnx::ModelProto &model;
  llvm::StringMap<const ::onnx::FunctionProto *> functions;
  int counter = 0;
  bool changed = false;
};
} // namespace

Error dt::onnx::inlineFunctions(::onnx::ModelProto &model) {
  return Inliner(model).run();
}
