//===- Load.cpp - Reads and checks an ONNX file -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/json/RegularFile.h"
#include "models/frontend/onnx/Convert.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"
#include <fstream>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

using namespace dt::onnx;
using llvm::createStringError;
using llvm::Error;
using llvm::Expected;

namespace {
constexpr int64_t oldestOpset = 13;
constexpr llvm::StringRef kindKey =
    "pkg.torch.export.graph_signature.InputSpec.kind";
/// Of a model: the location of external data that are not there on purpose.
constexpr llvm::StringRef leftOutKey = "distrain.left_out";

/// "a: Class/a.b: Class/linear: aten.linear" -> "a.b": the module an operator
/// was traced in. The last part is the operator.
std::string scopeOf(const ::onnx::NodeProto &node) {
  for (const auto &p : node.metadata_props()) {
    if (p.key() != "namespace")
      continue;
    llvm::StringRef modules = llvm::StringRef(p.value()).rsplit('/').first;
    if (modules.size() == p.value().size())
      return "";
    return modules.rsplit('/').second.empty()
               ? modules.split(':').first.trim().str()
               : modules.rsplit('/').second.split(':').first.trim().str();
  }
  return "";
}

class Converter {
public:
  Converter(::onnx::ModelProto &proto, Model &model)
      : proto(proto), model(model),
        folder(llvm::sys::path::parent_path(model.path)) {
    if (folder.empty())
      folder = ".";
  }

  Error run() {
    if (!proto.has_graph())
      return createStringError("holds no graph (is it an ONNX model?)");
    if (Error e = checkOpset())
      return e;
    if (proto.training_info_size())
      return createStringError("holds training_info, which is not handled");
    if (Error e = inlineFunctions(proto))
      return e;
    readLeftOut();
    Expected<Graph> g = convert(*proto.mutable_graph(), {});
    if (!g)
      return g.takeError();
    model.graph = std::move(*g);
    return Error::success();
  }

private:
  Error checkOpset() {
    for (const auto &o : proto.opset_import())
      if (o.domain().empty() || o.domain() == "ai.onnx")
        model.opset = o.version();
    if (model.opset < oldestOpset)
      return createStringError("operator set " + llvm::Twine(model.opset) +
                               " is older than " + llvm::Twine(oldestOpset) +
                               ": export it again");
    if (model.opset > newestOpset)
      model.warnings.push_back("operator set " + std::to_string(model.opset) +
                               " is newer than the newest known, " +
                               std::to_string(newestOpset));
    return Error::success();
  }

  void readLeftOut() {
    for (const auto &entry : proto.metadata_props())
      if (entry.key() == leftOutKey.str()) {
        llvm::SmallString<128> path(folder);
        llvm::sys::path::append(path, entry.value());
        model.leftOut = path.str().str();
      }
  }

  Expected<Tensor> convert(::onnx::TensorProto &p) {
    Expected<Tensor> t = convertTensor(p, folder);
    model.hasNarrowFloats |= t && isNarrowFloat(t->type);
    return t;
  }

  Expected<ValueInfo> convert(const ::onnx::ValueInfoProto &p) {
    ValueInfo v;
    v.name = p.name();
    if (!p.type().has_tensor_type())
      return createStringError("'" + v.name + "' is not a tensor");
    const auto &t = p.type().tensor_type();
    v.type = static_cast<ElementType>(t.elem_type());
    model.hasNarrowFloats |= isNarrowFloat(v.type);
    v.ranked = t.has_shape();
    for (const auto &d : t.shape().dim()) {
      Dim dim;
      if (d.has_dim_value())
        dim.size = d.dim_value();
      else
        dim.symbol = d.dim_param();
      if (d.has_dim_value() && dim.size < 0)
        return createStringError("'" + v.name + "' has a negative dim");
      v.dims.push_back(dim);
    }
    return v;
  }

  Expected<Attribute> convert(::onnx::AttributeProto &p,
                              llvm::ArrayRef<std::string> outer) {
    Attribute a;
    using P = ::onnx::AttributeProto;
    switch (p.type()) {
    case P::INT:
      a.kind = Attribute::Kind::Int;
      a.i = p.i();
      return a;
    case P::FLOAT:
      a.kind = Attribute::Kind::Float;
      a.f = p.f();
      return a;
    case P::STRING:
      a.kind = Attribute::Kind::String;
      a.s = p.s();
      return a;
    case P::INTS:
      a.kind = Attribute::Kind::Ints;
      a.ints.assign(p.ints().begin(), p.ints().end());
      return a;
    case P::FLOATS:
      a.kind = Attribute::Kind::Floats;
      a.floats.assign(p.floats().begin(), p.floats().end());
      return a;
    case P::STRINGS:
      a.kind = Attribute::Kind::Strings;
      a.strings.assign(p.strings().begin(), p.strings().end());
      return a;
    case P::TENSOR: {
      a.kind = Attribute::Kind::Tensor;
      Expected<Tensor> t = convert(*p.mutable_t());
      if (!t)
        return t.takeError();
      if (t->where == Tensor::Where::Absent)
        return createStringError("the value of attribute '" + p.name() +
                                 "' lies in '" + t->externalPath +
                                 "', which does not exist");
      a.tensor = std::make_shared<Tensor>(std::move(*t));
      return a;
    }
    case P::GRAPH: {
      a.kind = Attribute::Kind::Graph;
      Expected<Graph> g = convert(*p.mutable_g(), outer);
      if (!g)
        return g.takeError();
      a.graph = std::make_shared<Graph>(std::move(*g));
      return a;
    }
    default:
      return createStringError("attribute '" + p.name() +
                               "' has a kind that is not handled");
    }
  }

  Expected<Node> convert(::onnx::NodeProto &p,
                         llvm::ArrayRef<std::string> outer) {
    Node n;
    n.op = p.op_type();
    n.domain = p.domain() == "ai.onnx" ? "" : p.domain();
    n.name = p.name();
    if (n.name.empty())
      n.name = p.output_size() ? p.output(0) : n.op;
    n.inputs.assign(p.input().begin(), p.input().end());
    n.outputs.assign(p.output().begin(), p.output().end());
    n.scope = scopeOf(p);
    n.stopsGradient = llvm::any_of(p.metadata_props(), [](const auto &entry) {
      return entry.key() == "distrain.stop_gradient";
    });
    for (const auto &entry : p.metadata_props())
      if (entry.key() == "distrain.ties")
        n.ties = entry.value();
    if (n.ties != "" && n.ties != "share" && n.ties != "first")
      return createStringError("node '" + n.name + "' (" + n.op +
                               "): distrain.ties is '" + n.ties +
                               "', expected share or first");
    n.opset = model.opset;
    for (::onnx::AttributeProto &a : *p.mutable_attribute()) {
      Expected<Attribute> converted = convert(a, outer);
      if (!converted)
        return createStringError("node '" + n.name + "' (" + n.op +
                                 "): " + llvm::toString(converted.takeError()));
      n.attributes[a.name()] = std::move(*converted);
    }
    return n;
  }

  /// `outer`: names that a subgraph sees from around it.
  Expected<Graph> convert(::onnx::GraphProto &p,
                          llvm::ArrayRef<std::string> outer) {
    Graph g;
    if (p.sparse_initializer_size())
      return createStringError("sparse initializers are not handled");
    llvm::StringSet<> initialized;
    std::vector<std::string> known = outer;
    for (::onnx::TensorProto &t : *p.mutable_initializer()) {
      Expected<Tensor> converted = convert(t);
      if (!converted)
        return converted.takeError();
      if (converted->name.empty())
        return createStringError("an initializer has no name");
      if (!initialized.insert(converted->name).second)
        return createStringError("initializer '" + converted->name +
                                 "' is there twice");
      known.push_back(converted->name);
      g.initializers.push_back(std::move(*converted));
    }
    for (const auto &v : p.input()) {
      if (initialized.count(v.name()))
        continue; // before IR version 4 initializers had to be inputs too
      Expected<ValueInfo> converted = convert(v);
      if (!converted)
        return converted.takeError();
      known.push_back(v.name());
      g.inputs.push_back(std::move(*converted));
    }
    if (Error e = convertNodes(p, known, g))
      return std::move(e);
    for (const auto &v : p.output()) {
      ValueInfo info; // its declared type is not needed: it is inferred
      info.name = v.name();
      g.outputs.push_back(std::move(info));
    }
    readMarks(p, g);
    return g;
  }

  Error convertNodes(::onnx::GraphProto &p, std::vector<std::string> &known,
                     Graph &g) {
    std::vector<std::string> visible = known;
    for (const auto &n : p.node())
      visible.insert(visible.end(), n.output().begin(), n.output().end());
    for (::onnx::NodeProto &n : *p.mutable_node()) {
      Expected<Node> converted = convert(n, visible);
      if (!converted)
        return converted.takeError();
      g.nodes.push_back(std::move(*converted));
    }
    Expected<std::string> disorder = sortNodes(g, known);
    if (!disorder)
      return disorder.takeError();
    if (!disorder->empty() && !unsorted)
      model.warnings.push_back("nodes are not in order, which ONNX demands and "
                               "other tools refuse (" +
                               *disorder + "); they are sorted here");
    unsorted |= !disorder->empty();
    llvm::StringSet<> defined;
    for (const std::string &s : visible)
      defined.insert(s);
    for (const auto &v : p.output())
      if (!defined.count(v.name()))
        return createStringError("output '" + v.name() +
                                 "' is made by no node");
    return Error::success();
  }

  static void readMarks(const ::onnx::GraphProto &p, Graph &g) {
    llvm::StringMap<std::string> marks;
    llvm::StringSet<> frozen, shared;
    auto collect = [&](const auto &list) {
      for (const auto &v : list)
        for (const auto &m : v.metadata_props())
          if (m.key() == kindKey.str())
            marks[v.name()] = m.value();
          else if (m.key() == "requires_grad" && m.value() == "False")
            frozen.insert(v.name());
          else if (m.key() == "distrain.shared" && m.value() == "True")
            shared.insert(v.name());
    };
    collect(p.value_info());
    collect(p.input());
    collect(p.initializer());
    for (Tensor &t : g.initializers) {
      t.mark = marks.lookup(t.name);
      t.frozen = frozen.contains(t.name);
      t.shared = shared.contains(t.name);
    }
  }

  ::onnx::ModelProto &proto;
  Model &model;
  std::string folder;
  bool unsorted = false; ///< and there is a warning
};

} // namespace

Expected<::onnx::ModelProto> dt::onnx::parseFile(llvm::StringRef path) {
  if (Error wrong = models::expectRegular(path))
    return std::move(wrong);
  std::ifstream file(path.str(), std::ios::binary);
  if (!file)
    return createStringError("cannot be opened");
  ::onnx::ModelProto proto;
  google::protobuf::io::IstreamInputStream stream(&file);
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(INT32_MAX);
  if (!proto.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage() ||
      file.bad())
    return createStringError("is not an ONNX model, or is cut short");
  return proto;
}

Expected<Model> dt::onnx::loadOnnx(llvm::StringRef path) {
  Model model;
  model.path = path.str();
  auto in = [&](Error reason) {
    return createStringError(path + ": " + llvm::toString(std::move(reason)));
  };
  auto proto = parseFile(path);
  if (!proto)
    return in(proto.takeError());
  if (Error e = Converter(*proto, model).run())
    return in(std::move(e));
  return model;
}
