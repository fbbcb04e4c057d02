//===- ModelJson.cpp - Models as JSON -------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// docs/plan-model.schema.json. What the compiler hands to a planner that runs
// elsewhere, and what `dt-sim --model FILE.json` reads.
//
//===----------------------------------------------------------------------===//

#include "models/recipe/JsonReader.h"
#include "passes/plan/Model.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>

using namespace llvm;

namespace dt::plan {

namespace {

using models::JsonReader;
using models::OrderedJson;

constexpr StringRef kKinds[] = {"gemm", "attention", "convolution", "stream"};
constexpr StringRef kSplits[] = {"whole", "columns", "depth", "heads",
                                 "sequence"};
constexpr StringRef kSaves[] = {"none", "vjp", "all"};
constexpr double kMost = 1e24;

double figure(const JsonReader &json, StringRef key, double otherwise = 0) {
  return json.has(key) ? json.at(key).number(0, kMost) : otherwise;
}

Linear readLinear(const JsonReader &json, StringRef key) {
  if (!json.has(key))
    return {};
  JsonReader value = json.at(key);
  value.keys({"item", "token", "square"});
  return {figure(value, "item"), figure(value, "token"),
          figure(value, "square")};
}

int small(const JsonReader &json, int low, int64_t most = 1000000) {
  int64_t value = json.integer(low);
  if (value > most)
    json.fail("expected at most " + Twine(most));
  return int(std::max<int64_t>(low, std::min(value, most)));
}

Op readOp(const JsonReader &json) {
  json.keys({"name", "kind", "split", "rows", "n", "k", "count", "flops",
             "bytes", "fixed_bytes", "cheap", "expert"});
  Op op;
  op.name = json.at("name").string();
  op.kind = Op::Kind(json.at("kind").choice(kKinds));
  if (json.has("split"))
    op.split = Op::Split(json.at("split").choice(kSplits));
  op.rows = readLinear(json, "rows");
  op.n = figure(json, "n");
  op.k = figure(json, "k");
  if (json.has("count"))
    op.count = small(json.at("count"), 1);
  op.flops = readLinear(json, "flops");
  op.bytes = readLinear(json, "bytes");
  op.fixedBytes = figure(json, "fixed_bytes");
  if (json.has("cheap"))
    op.cheap = json.at("cheap").flag();
  if (json.has("expert"))
    op.expert = json.at("expert").flag();
  return op;
}

LayerKind readKind(const JsonReader &json) {
  json.keys({"name", "forward", "input", "weight", "parameters",
             "expert_parameters", "reduced", "forward_reduces",
             "backward_reduces", "kept", "output", "exchanged", "dispatched"});
  LayerKind kind;
  kind.name = json.at("name").string();
  auto readOps = [&](StringRef key, std::vector<Op> &ops) {
    if (json.has(key))
      for (const JsonReader &op : json.at(key).list())
        ops.push_back(readOp(op));
  };
  readOps("forward", kind.forward);
  readOps("input", kind.input);
  readOps("weight", kind.weight);
  kind.parameters = figure(json, "parameters");
  kind.expertParameters = figure(json, "expert_parameters");
  kind.reduced = readLinear(json, "reduced");
  if (json.has("forward_reduces"))
    kind.forwardReduces = small(json.at("forward_reduces"), 0, 1000);
  if (json.has("backward_reduces"))
    kind.backwardReduces = small(json.at("backward_reduces"), 0, 1000);
  if (json.has("kept")) {
    JsonReader kept = json.at("kept");
    kept.keys(kSaves);
    for (int save = 0; save < 3; ++save)
      if (kept.has(kSaves[save])) {
        JsonReader one = kept.at(kSaves[save]);
        one.keys({"split", "sequence"});
        kind.keptSplit[save] = readLinear(one, "split");
        kind.keptSequence[save] = readLinear(one, "sequence");
      }
  }
  kind.output = readLinear(json, "output");
  kind.exchanged = readLinear(json, "exchanged");
  kind.dispatched = readLinear(json, "dispatched");
  return kind;
}

/// Numbers of kinds; [kind, count] where one repeats.
void readLayers(const JsonReader &json, Module &module) {
  int kinds = int(module.kinds.size());
  for (const JsonReader &entry : json.list()) {
    int kind = 0, count = 1;
    if (entry.raw().is_array()) {
      std::vector<JsonReader> pair = entry.list();
      if (pair.size() != 2)
        return entry.fail("expected [kind, count]");
      kind = small(pair[0], 0);
      count = small(pair[1], 1, 100000);
    } else {
      kind = small(entry, 0);
    }
    if (kind >= kinds)
      return entry.fail("there are only " + Twine(kinds) + " kinds of layers");
    if (int64_t(module.layers.size()) + count > 100000)
      return entry.fail("expected at most 100000 layers");
    module.layers.insert(module.layers.end(), count, kind);
  }
}

ItemKind readItem(const JsonReader &json, const Model &model) {
  std::vector<StringRef> names = {"sample"};
  for (const std::string &name : model.items)
    names.push_back(name);
  return ItemKind(json.choice(names));
}

Module readModule(const JsonReader &json, const Model &model) {
  json.keys({"name", "item", "precision", "trainable", "input_gradient",
             "max_tp", "weight_bytes", "gradient_bytes", "optimizer_bytes",
             "kinds", "layers"});
  Module module;
  module.name = json.at("name").string();
  if (json.has("item"))
    module.item = readItem(json.at("item"), model);
  if (json.has("precision"))
    module.precision = json.at("precision").string();
  if (json.has("trainable"))
    module.trainable = json.at("trainable").flag();
  if (json.has("input_gradient"))
    module.inputGradient = json.at("input_gradient").flag();
  if (json.has("max_tp"))
    module.maxTP = small(json.at("max_tp"), 1);
  module.weightBytes = figure(json, "weight_bytes", module.weightBytes);
  module.gradientBytes = figure(json, "gradient_bytes", module.gradientBytes);
  module.optimizerBytes =
      figure(json, "optimizer_bytes", module.optimizerBytes);
  for (const JsonReader &kind : json.at("kinds").list())
    module.kinds.push_back(readKind(kind));
  readLayers(json.at("layers"), module);
  return module;
}

int findModule(const JsonReader &json, const Model &model) {
  std::string name = json.string();
  std::vector<StringRef> names;
  for (size_t i = 0; i < model.modules.size(); ++i) {
    if (model.modules[i].name == name)
      return int(i);
    names.push_back(model.modules[i].name);
  }
  json.fail("no module is named '" + name + "'" +
            models::didYouMean(name, names));
  return 0;
}

OrderedJson print(const Linear &value) {
  OrderedJson json = OrderedJson::object();
  if (value.item)
    json["item"] = value.item;
  if (value.token)
    json["token"] = value.token;
  if (value.square)
    json["square"] = value.square;
  return json;
}

void put(OrderedJson &json, const char *key, const Linear &value) {
  if (value.item || value.token || value.square)
    json[key] = print(value);
}

void put(OrderedJson &json, const char *key, double value) {
  if (value)
    json[key] = value;
}

OrderedJson print(const Op &op) {
  OrderedJson json;
  json["name"] = op.name;
  json["kind"] = kKinds[op.kind].str();
  if (op.split != Op::Whole)
    json["split"] = kSplits[op.split].str();
  put(json, "rows", op.rows);
  put(json, "n", op.n);
  put(json, "k", op.k);
  if (op.count != 1)
    json["count"] = op.count;
  put(json, "flops", op.flops);
  put(json, "bytes", op.bytes);
  put(json, "fixed_bytes", op.fixedBytes);
  if (op.cheap)
    json["cheap"] = true;
  if (op.expert)
    json["expert"] = true;
  return json;
}

OrderedJson print(const LayerKind &kind) {
  OrderedJson json;
  json["name"] = kind.name;
  put(json, "parameters", kind.parameters);
  put(json, "expert_parameters", kind.expertParameters);
  const std::pair<const char *, const std::vector<Op> *> lists[] = {
      {"forward", &kind.forward},
      {"input", &kind.input},
      {"weight", &kind.weight}};
  for (auto &[key, ops] : lists) {
    json[key] = OrderedJson::array();
    for (const Op &op : *ops)
      json[key].push_back(print(op));
  }
  put(json, "reduced", kind.reduced);
  put(json, "forward_reduces", double(kind.forwardReduces));
  put(json, "backward_reduces", double(kind.backwardReduces));
  // Counts are integers.
  for (const char *key : {"forward_reduces", "backward_reduces"})
    if (json.contains(key))
      json[key] = int64_t(json[key].get<double>());
  for (int save = 0; save < 3; ++save) {
    OrderedJson kept = OrderedJson::object();
    put(kept, "split", kind.keptSplit[save]);
    put(kept, "sequence", kind.keptSequence[save]);
    if (!kept.empty())
      json["kept"][kSaves[save].str()] = kept;
  }
  put(json, "output", kind.output);
  put(json, "exchanged", kind.exchanged);
  put(json, "dispatched", kind.dispatched);
  return json;
}

OrderedJson print(const Module &module, const Model &model) {
  OrderedJson json;
  json["name"] = module.name;
  json["item"] = model.getName(module.item).str();
  json["precision"] = module.precision;
  json["trainable"] = module.trainable;
  json["input_gradient"] = module.inputGradient;
  json["max_tp"] = module.maxTP;
  json["weight_bytes"] = module.weightBytes;
  json["gradient_bytes"] = module.gradientBytes;
  json["optimizer_bytes"] = module.optimizerBytes;
  json["kinds"] = OrderedJson::array();
  for (const LayerKind &kind : module.kinds)
    json["kinds"].push_back(print(kind));
  json["layers"] = OrderedJson::array();
  for (size_t i = 0; i < module.layers.size();) {
    size_t run = i;
    while (run < module.layers.size() && module.layers[run] == module.layers[i])
      ++run;
    if (run - i == 1)
      json["layers"].push_back(module.layers[i]);
    else
      json["layers"].push_back(
          OrderedJson::array({module.layers[i], int64_t(run - i)}));
    i = run;
  }
  return json;
}

} // namespace

Expected<Model> parseModel(StringRef text, StringRef file) {
  std::string error;
  OrderedJson json = OrderedJson::parse(text.begin(), text.end(), nullptr,
                                        /*allow_exceptions=*/false);
  if (json.is_discarded())
    return createStringError(inconvertibleErrorCode(),
                             file + ": not valid JSON");
  Model model;
  JsonReader root(&json, "", &error);
  root.keys(
      {"version", "name", "pace", "items", "modules", "edges", "contrast"});
  if (root.at("version").integer(1) != 1)
    root.at("version").fail("expected 1");
  if (root.has("name"))
    model.name = root.at("name").string();
  if (root.has("items")) {
    model.items.clear();
    for (const JsonReader &item : root.at("items").list())
      model.items.push_back(item.string());
    if (model.items.size() > size_t(kMostItemKinds))
      root.at("items").fail("expected at most " + Twine(kMostItemKinds));
  }
  if (error.empty())
    for (const JsonReader &module : root.at("modules").list()) {
      Module one = readModule(module, model);
      if (llvm::any_of(model.modules,
                       [&](const Module &m) { return m.name == one.name; }))
        module.fail("a second module named '" + one.name + "'");
      model.modules.push_back(std::move(one));
    }
  if (error.empty() && root.has("pace"))
    model.pace = findModule(root.at("pace"), model);
  if (error.empty() && root.has("edges"))
    for (const JsonReader &edge : root.at("edges").list()) {
      edge.keys({"from", "to", "bytes"});
      model.edges.push_back({findModule(edge.at("from"), model),
                             findModule(edge.at("to"), model),
                             readLinear(edge, "bytes")});
    }
  if (error.empty() && root.has("contrast")) {
    const JsonReader contrast = root.at("contrast");
    contrast.keys({"towers", "width"});
    for (const JsonReader &tower : contrast.at("towers").list())
      model.contrast.towers.push_back(findModule(tower, model));
    model.contrast.width = contrast.at("width").number(1, 1e9);
  }
  if (!error.empty())
    return createStringError(inconvertibleErrorCode(), file + ": " + error);
  if (Error wrong = model.check())
    return createStringError(inconvertibleErrorCode(),
                             file + ": " + toString(std::move(wrong)));
  return model;
}

Expected<Model> readModel(StringRef file) {
  auto buffer = MemoryBuffer::getFile(file, /*IsText=*/true);
  if (!buffer)
    return createStringError(buffer.getError(),
                             file + ": " + buffer.getError().message());
  return parseModel((*buffer)->getBuffer(), file);
}

std::string printModel(const Model &model) {
  OrderedJson json;
  json["version"] = 1;
  json["name"] = model.name;
  json["pace"] = model.modules[model.pace].name;
  json["items"] = model.items;
  json["modules"] = OrderedJson::array();
  for (const Module &module : model.modules)
    json["modules"].push_back(print(module, model));
  json["edges"] = OrderedJson::array();
  for (const ModelEdge &edge : model.edges)
    json["edges"].push_back({{"from", model.modules[edge.from].name},
                             {"to", model.modules[edge.to].name},
                             {"bytes", print(edge.bytes)}});
  if (!model.contrast.towers.empty()) {
    OrderedJson towers = OrderedJson::array();
    for (int tower : model.contrast.towers)
      towers.push_back(model.modules[tower].name);
    json["contrast"] = {{"towers", towers}, {"width", model.contrast.width}};
  }
  return json.dump(1);
}

} // namespace dt::plan
