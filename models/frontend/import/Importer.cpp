//===- Importer.cpp - One graph on its way into IR ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/Importer.h"
#include "models/frontend/import/Pattern.h"

#include "dialects/nn/NNLimits.h"
#include "dialects/nn/NNNames.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
RuleTable makeRules() {
  RuleTable rules;
  addElementwiseRules(rules);
  addActivationRules(rules);
  addLinearRules(rules);
  addConvRules(rules);
  addAttentionRules(rules);
  addNormRules(rules);
  addShapeRules(rules);
  addSliceRules(rules);
  addReduceRules(rules);
  addIndexRules(rules);
  addResizeRules(rules);
  addGridSampleRules(rules);
  addLossRules(rules);
  return rules;
}

/// Ops of all dialects that say which operator they are.
llvm::StringMap<OperationName> findNamedOps(MLIRContext &context) {
  llvm::StringMap<OperationName> result;
  for (RegisteredOperationName op : context.getRegisteredOperations())
    if (auto *named = op.getInterface<nn::OnnxOpInterface>())
      result.try_emplace(named->getOnnxName(), op);
  return result;
}

std::string identifier(StringRef text) {
  std::string out;
  for (char c : text)
    out += llvm::isAlnum(c) || c == '_' ? c : '_';
  if (out.empty() || llvm::isDigit(out[0]))
    out = "m" + out;
  return out;
}
} // namespace

Importer::Importer(MLIRContext &context, StringRef path,
                   const ImportOptions &options)
    : context(context), options(options), path(path.str()), b(&context),
      rules(makeRules()), namedOps(findNamedOps(context)) {}

Location Importer::locationOf(const onnx::Node &node) {
  Location name = NameLoc::get(b.getStringAttr(node.name));
  if (node.scope.empty())
    return name;
  return FusedLoc::get({name}, b.getStringAttr(node.scope), &context);
}

//===----------------------------------------------------------------------===//
// Inputs and sizes
//===----------------------------------------------------------------------===//

FailureOr<DimExpr> Importer::dimOf(const onnx::ValueInfo &v, size_t axis) {
  const onnx::Dim &d = v.dims[axis];
  if (d.size >= 0)
    return DimExpr(d.size);
  // A dim without a name gets one of its own.
  std::string text = d.symbol.empty()
                         ? identifier(v.name) + "_" + std::to_string(axis)
                         : d.symbol;
  std::optional<DimExpr> e = DimExpr::parse(text);
  if (!e)
    e = DimExpr::symbol(identifier(text));
  DimExpr out = e->substitute([&](StringRef s) -> std::optional<DimExpr> {
    StringRef name = s;
    if (auto it = options.rename.find(s); it != options.rename.end())
      name = it->second;
    if (options.seenDims)
      options.seenDims->insert_range(ArrayRef<StringRef>{name, s});
    for (StringRef key : {name, s})
      if (auto it = options.dims.find(key); it != options.dims.end())
        return DimExpr(it->second);
    return DimExpr::symbol(name);
  });
  for (const std::string &s : out.symbols()) {
    symbols.insert(s);
    if (axis == 0)
      ofRows.insert(s);
  }
  if (std::optional<int64_t> n = out.asConstant(); n && *n < 0)
    return error("input '" + v.name + "': dim '" + text + "' is negative");
  return out;
}

LogicalResult Importer::importInputs(func::FuncOp function) {
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const onnx::ValueInfo &v : model.graph.inputs) {
    std::optional<symbolic::Element> element = models::toSymbolic(v.type);
    if (!element)
      return error("input '" + v.name + "' has element type " +
                   onnx::elementName(v.type) + ", which is not handled");
    if (!v.ranked)
      return error("input '" + v.name + "' has no shape");
    Shape shape;
    for (size_t i = 0; i < v.dims.size(); ++i) {
      FailureOr<DimExpr> d = dimOf(v, i);
      if (failed(d))
        return failure();
      shape.push_back(*d);
    }
    types.push_back(nn::makeTensorType(shape, toMlir(&context, *element)));
    attributes.push_back(b.getDictionaryAttr(
        b.getNamedAttr(nn::kNameAttr, b.getStringAttr(v.name))));
  }
  function.setType(b.getFunctionType(types, {}));
  Block *block = function.addEntryBlock();
  function.setAllArgAttrs(attributes);
  for (auto [v, argument] :
       llvm::zip(model.graph.inputs, block->getArguments()))
    values[v.name].full = argument;
  b.setInsertionPointToStart(block);
  return success();
}

void Importer::declareDims(dist::ModuleOp module) {
  OpBuilder top = OpBuilder::atBlockBegin(&module.getBody().front());
  SmallVector<StringRef> sorted;
  for (const auto &s : symbols)
    sorted.push_back(s.getKey());
  llvm::sort(sorted);
  for (StringRef s : sorted) {
    auto dim =
        nn::DimOp::create(top, UnknownLoc::get(&context), b.getStringAttr(s),
                          StringAttr(), IntegerAttr());
    if (auto it = limits.find(s); it != limits.end()) {
      dim.setLimit(it->second.first);
      dim.setLimitedBy(it->second.second);
    }
  }
}

//===----------------------------------------------------------------------===//
// Initializers
//===----------------------------------------------------------------------===//

LogicalResult Importer::declareParameter(const onnx::Tensor &t) {
  std::optional<symbolic::Element> element = models::toSymbolic(t.type);
  if (!element)
    return error("initializer '" + t.name + "' has element type " +
                 onnx::elementName(t.type) + ", which is not handled");
  Shape shape;
  for (int64_t d : t.dims)
    shape.push_back(DimExpr(d));
  RankedTensorType type = nn::makeTensorType(shape, toMlir(&context, *element));
  std::string file = options.recordedPath.empty() ? path : options.recordedPath;
  Attribute source;
  if (t.where == onnx::Tensor::Where::Absent)
    source = nn::InitAttr::get(&context, "", file, t.name);
  else
    source = nn::OnnxAttr::get(&context, file, t.name);
  nn::ParameterOp::create(
      parameterBuilder, NameLoc::get(b.getStringAttr(t.name)), t.name, type,
      source, uses->isTrainable(t), !t.mark.empty() && t.mark != "PARAMETER");
  parameters[t.name] = &t;
  return success();
}

bool Importer::isKept(const onnx::Tensor &t) const {
  auto element = toSymbolic(t.type);
  bool isFloat =
      element == symbolic::Element::F32 || element == symbolic::Element::F64;
  return isFloat && llvm::any_of(options.kept, [&](const std::string &kept) {
           return matchesPattern(kept, options.moduleName + "." + t.name);
         });
}

LogicalResult Importer::importInitializers(const onnx::Graph &graph) {
  for (const onnx::Tensor &t : graph.initializers) {
    initializers[t.name] = &t;
    if (!uses->isParameter(t) && !isKept(t)) {
      llvm::Expected<symbolic::Result> literal = readLiteral(t);
      if (!literal)
        return error(llvm::toString(literal.takeError()));
      if (*literal) {
        values[t.name].symbolic = **literal;
        if (options.fixed && t.mark == "PARAMETER")
          options.fixed->add(t.numElements());
        continue;
      }
    }
    if (failed(declareParameter(t)))
      return failure();
  }
  return success();
}

GraphValue *Importer::find(const std::string &name) {
  if (auto it = values.find(name); it != values.end())
    return &it->second;
  auto it = parameters.find(name);
  if (it == parameters.end())
    return nullptr;
  const onnx::Tensor &t = *it->second;
  Shape shape;
  for (int64_t d : t.dims)
    shape.push_back(DimExpr(d));
  Type type =
      nn::makeTensorType(shape, toMlir(&context, *models::toSymbolic(t.type)));
  Location loc = NameLoc::get(b.getStringAttr(name));
  GraphValue &v = values[name];
  v.full = nn::ReadOp::create(b, loc, type, name);
  return &v;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// If: only with a condition that is known now; the branch becomes part of the
/// graph around it.
LogicalResult Importer::importIf(const onnx::Node &node) {
  GraphValue *c = node.inputs.empty() ? nullptr : find(node.inputs[0]);
  std::optional<bool> known;
  if (c && c->symbolic && c->symbolic->rank() <= 1)
    known = symbolic::asBool(c->symbolic->value);
  if (!known)
    return nodeError(node, "the condition must be known at compile time");
  auto branch = node.attributes.find(*known ? "then_branch" : "else_branch");
  if (branch == node.attributes.end() || !branch->second.graph)
    return nodeError(node, "a branch is missing");
  const onnx::Graph &graph = *branch->second.graph;
  if (!graph.inputs.empty() || graph.outputs.size() < node.outputs.size())
    return nodeError(node, "the branch does not fit its If");
  if (failed(importInitializers(graph)) || failed(importNodes(graph)))
    return failure();
  for (auto [inner, outer] : llvm::zip(graph.outputs, node.outputs)) {
    GraphValue *v = find(inner.name);
    if (!v)
      return nodeError(node, "the branch gives no '" + inner.name + "'");
    values[outer] = *v;
  }
  return success();
}

/// What a node takes for granted of sizes goes onto the dims.
void Importer::noteLimits(const onnx::Node &node, const NodeImporter &n) {
  std::string file = options.recordedPath.empty() ? path : options.recordedPath;
  for (const NodeImporter::Limit &limit : n.limits()) {
    auto [it, isNew] = limits.try_emplace(limit.symbol);
    if (isNew || limit.most < it->second.first)
      it->second = {limit.most, "node '" + node.name + "' (" + node.op +
                                    ") of " + file + " reads " +
                                    limit.size.str() + " of " +
                                    std::to_string(limit.rows) + " rows"};
  }
}

/// Attributes that say nothing here: what operands say too, rounding and
/// statistics that nothing reads, settings of another mode of the operator.
static bool changesNothing(StringRef name) {
  static constexpr StringRef names[] = {
      "kernel_shape",        "saturate",      "seed",         "momentum",
      "storage_order",       "cubic_coeff_a", "nearest_mode", "exclude_outside",
      "extrapolation_value", "num_outputs",   "round_mode",   "stash_type"};
  return llvm::is_contained(names, name);
}

LogicalResult Importer::importNode(const onnx::Node &node) {
  if (node.domain.empty() && node.op == "If")
    return importIf(node);
  std::string name =
      node.domain.empty() ? node.op : node.domain + "::" + node.op;
  auto rule = rules.find(name);
  auto namedOp = namedOps.find(name);
  if (rule == rules.end() && namedOp == namedOps.end())
    return nodeError(node, node.domain.empty()
                               ? Twine("this operator is not handled")
                               : "operators of domain '" + node.domain +
                                     "' are not handled");
  std::vector<GraphValue *> inputs;
  for (const std::string &name : node.inputs) {
    if (auto t = initializers.find(name); t != initializers.end()) {
      uses->record(*t->second, node);
    }
    inputs.push_back(name.empty() ? nullptr : find(name));
    if (!name.empty() && !inputs.back())
      return nodeError(node, "uses '" + name + "', which it cannot see");
  }
  NodeImporter n(node, b, locationOf(node), std::move(inputs),
                 [this](StringRef symbol) -> int64_t {
                   return !options.maybeEmpty.contains(symbol);
                 });
  bool known = rule != rules.end();
  if (failed(known ? rule->second(n) : n.importAs(namedOp->second)) ||
      !n.reason().empty())
    return nodeError(node,
                     n.reason().empty() ? "cannot be imported" : n.reason());
  // A newer operator set may have attributes that rules do not know.
  for (const auto &[name, value] : node.attributes)
    if (model.opset > onnx::newestOpset && !n.wasRead(name) &&
        !changesNothing(name))
      return nodeError(node, "attribute '" + name + "' is not handled");
  for (const std::string &text : n.remarksMade()) {
    Remark &r = remarks[text];
    if (r.nodes++ == 0)
      r.first = &node;
  }
  noteLimits(node, n);
  for (auto [i, name] : llvm::enumerate(node.outputs)) {
    if (name.empty())
      continue;
    const GraphValue &v = n.output(i);
    if (!v.full && !v.symbolic && !v.nonZero && !v.prefix)
      return nodeError(node, "its output " + Twine(i) + " is not handled");
    values[name] = v;
  }
  ++done;
  return success();
}

LogicalResult Importer::importNodes(const onnx::Graph &graph) {
  // Names made in here may shadow nothing: the loader has checked that.
  for (const onnx::Node &node : graph.nodes)
    if (failed(importNode(node)))
      return failure();
  return success();
}

LogicalResult Importer::importOutputs(const onnx::Graph &graph,
                                      func::FuncOp function) {
  SmallVector<Value> results;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const onnx::ValueInfo &v : graph.outputs) {
    GraphValue *g = find(v.name);
    if (!g)
      return error("output '" + v.name + "' is made by no node");
    Location loc = NameLoc::get(b.getStringAttr(v.name));
    if (g->nonZero || g->prefix)
      return error("output '" + v.name +
                   "' has as many elements as a NonZero of data finds places, "
                   "which is not known at compile time");
    if (!g->full)
      g->full = materialize(b, loc, *g->symbolic, /*compact=*/false);
    results.push_back(g->full);
    types.push_back(g->full.getType());
    attributes.push_back(b.getDictionaryAttr(
        b.getNamedAttr(nn::kNameAttr, b.getStringAttr(v.name))));
  }
  func::ReturnOp::create(b, UnknownLoc::get(&context), results);
  function.setType(
      b.getFunctionType(function.getFunctionType().getInputs(), types));
  function.setAllResultAttrs(attributes);
  return success();
}

void Importer::eraseDead(Block &block) {
  Operation *op = block.getTerminator();
  while (op) {
    Operation *before = op->getPrevNode();
    if (isOpTriviallyDead(op))
      op->erase();
    op = before;
  }
}

OwningOpRef<ModuleOp> Importer::run() {
  llvm::Expected<onnx::Model> loaded = onnx::loadOnnx(path);
  if (!loaded) {
    emitError(UnknownLoc::get(&context)) << llvm::toString(loaded.takeError());
    return {};
  }
  model = std::move(*loaded);
  for (const std::string &w : model.warnings)
    emitWarning(UnknownLoc::get(&context)) << path << ": " << w;
  uses = std::make_unique<ParameterUses>(model.graph, options.trainable);

  std::string name = options.moduleName.empty()
                         ? identifier(llvm::sys::path::stem(path))
                         : options.moduleName;
  Location loc = NameLoc::get(b.getStringAttr(name));
  OwningOpRef<ModuleOp> top(ModuleOp::create(loc));
  b.setInsertionPointToEnd(top->getBody());
  auto module = dist::ModuleOp::create(b, loc, name);
  if (module.getBody().empty())
    module.getBody().emplaceBlock();
  b.setInsertionPointToEnd(&module.getBody().front());
  auto function =
      func::FuncOp::create(b, loc, "forward", b.getFunctionType({}, {}));
  parameterBuilder.setInsertionPoint(function);
  if (model.hasNarrowFloats)
    function->setAttr(nn::kNarrowNumbersAttr, b.getUnitAttr());

  if (failed(importInputs(function)) || failed(checkAbsent()) ||
      failed(checkWeights()) || failed(importInitializers(model.graph)) ||
      failed(importNodes(model.graph)) ||
      failed(importOutputs(model.graph, function)) || failed(reportShared()))
    return {};
  for (const auto &[text, r] : remarks)
    emitRemark(locationOf(*r.first))
        << path << ": node '" << r.first->name << "' (" << r.first->op << ")"
        << (r.nodes > 1 ? " and " + std::to_string(r.nodes - 1) + " more" : "")
        << ": " << text;
  declareDims(module);
  eraseDead(function.front());
  if (failed(checkSizes(function)) || failed(verify(*top)))
    return {};
  return top;
}
