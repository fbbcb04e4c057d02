//===- ModelJson.cpp - Models as JSON -------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// docs/plan-model.schema.json. What the compiler hands to a planner that runs
// elsewhere, and what `dt-sim --model FILE.json` reads.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/json/JsonReader.h"
#include "passes/planner/describe/Model.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace dt::planner {

namespace {

using models::JsonReader;

constexpr double kMost = 1e24;
constexpr int64_t kMostCount = 1000000;

double figure(const JsonReader &json, StringRef key) {
  return json.has(key) ? json.at(key).number(0, kMost) : 0;
}

Linear readLinear(const JsonReader &json, StringRef key) {
  if (!json.has(key))
    return {};
  JsonReader value = json.at(key);
  value.keys(to_vector_of<StringRef>(make_first_range(kLinear)));
  Linear result;
  for (auto [name, member] : kLinear)
    result.*member = figure(value, name);
  return result;
}

std::optional<ParameterBytes> readBytes(const JsonReader &json) {
  if (!json.has("parameter_bytes"))
    return std::nullopt;
  JsonReader value = json.at("parameter_bytes");
  value.keys({"weight", "gradient", "optimizer"});
  auto bytes = [&](StringRef key) { return value.at(key).number(0, kMost); };
  return ParameterBytes{bytes("weight"), bytes("gradient"), bytes("optimizer")};
}

int small(const JsonReader &json, int low) {
  return int(json.integer(low, kMostCount));
}

Op readOp(const JsonReader &json) {
  json.keys({"name", "kind", "split", "rows", "n", "k", "count", "flops",
             "bytes", "fixed_bytes", "cheap", "expert"});
  Op op;
  op.name = json.at("name").string();
  op.kind = Op::Kind(json.at("kind").choice(kOpKinds));
  if (json.has("split"))
    op.split = Op::Split(json.at("split").choice(kOpSplits));
  op.rows = readLinear(json, "rows");
  op.n = figure(json, "n");
  op.k = figure(json, "k");
  json.read("count", op.count, 1, kMostCount);
  op.flops = readLinear(json, "flops");
  op.bytes = readLinear(json, "bytes");
  op.fixedBytes = figure(json, "fixed_bytes");
  json.read("cheap", op.cheap);
  json.read("expert", op.expert);
  return op;
}

LayerKind readKind(const JsonReader &json) {
  json.keys({"name", "forward", "input", "weight", "parameters",
             "parameter_bytes", "expert_parameters", "reduced",
             "forward_reduces", "backward_reduces", "kept", "output",
             "exchanged", "dispatched", "routes", "capacity"});
  LayerKind kind;
  kind.name = json.at("name").string();
  auto readOps = [&](StringRef key, std::vector<Op> &ops) {
    for (const JsonReader &op : json.listIfAny(key))
      ops.push_back(readOp(op));
  };
  readOps("forward", kind.forward);
  readOps("input", kind.input);
  readOps("weight", kind.weight);
  kind.parameters = figure(json, "parameters");
  kind.bytes = readBytes(json);
  kind.expertParameters = figure(json, "expert_parameters");
  kind.reduced = readLinear(json, "reduced");
  json.read("forward_reduces", kind.forwardReduces, 0, 1000);
  json.read("backward_reduces", kind.backwardReduces, 0, 1000);
  json.read("routes", kind.routes, 0, kMostCount);
  kind.capacity = figure(json, "capacity");
  if (json.has("kept")) {
    JsonReader kept = json.at("kept");
    std::vector<StringRef> saves = models::textsOf<Save>();
    kept.keys(saves);
    for (auto [save, name] : enumerate(saves))
      if (kept.has(name)) {
        JsonReader one = kept.at(name);
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
      count = int(pair[1].integer(1, 100000));
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

std::vector<Exchange> readExchanges(const JsonReader &json, StringRef key) {
  std::vector<Exchange> result;
  for (const JsonReader &entry : json.listIfAny(key)) {
    entry.keys({"kind", "bytes", "over", "stride", "rows", "beside", "covered",
                "covered_in_halves", "count"});
    Exchange exchange;
    exchange.kind = entry.at("kind").choice<rt::CollectiveKind>();
    exchange.bytes = readLinear(entry, "bytes");
    entry.read("over", exchange.over, 1, kMostCount);
    entry.read("stride", exchange.stride, 1, kMostCount);
    exchange.rows = readLinear(entry, "rows");
    for (const JsonReader &op : entry.listIfAny("beside"))
      exchange.beside.push_back(readOp(op));
    entry.read("covered", exchange.covered);
    entry.read("covered_in_halves", exchange.coveredInHalves);
    int count = 1;
    entry.read("count", count, 1, 10000);
    result.insert(result.end(), count, exchange);
  }
  return result;
}

/// Lists of operations are numbers in a table that all of a module share.
RankLayer readRankLayer(const JsonReader &json, const std::vector<Op> &table) {
  json.keys({"forward", "input", "weight", "forward_exchanges",
             "backward_exchanges", "kept", "kept_to_weights",
             "kept_for_weights", "kept_at_start", "handed_out", "scratch",
             "scratch_of_halves", "parameters", "chained"});
  RankLayer layer;
  auto readOps = [&](StringRef key, std::vector<Op> &ops) {
    for (const JsonReader &entry : json.listIfAny(key)) {
      int64_t number = small(entry, 0);
      if (number >= int64_t(table.size()))
        return entry.fail("there are only " + Twine(table.size()) +
                          " operations in the table");
      ops.push_back(table[number]);
    }
  };
  readOps("forward", layer.forward);
  readOps("input", layer.input);
  readOps("weight", layer.weight);
  layer.forwardExchanges = readExchanges(json, "forward_exchanges");
  layer.backwardExchanges = readExchanges(json, "backward_exchanges");
  for (auto [key, bytes] : kRankLayer)
    layer.*bytes = readLinear(json, key);
  layer.parameters = figure(json, "parameters");
  json.read("chained", layer.chained);
  return layer;
}

void readPartitioned(const JsonReader &json, Module &module) {
  json.keys({"ops", "layouts"});
  std::vector<Op> table;
  for (const JsonReader &op : json.at("ops").list())
    table.push_back(readOp(op));
  for (const JsonReader &layout : json.at("layouts").list()) {
    layout.keys({"tp", "ep", "save", "sequence_parallel", "kinds"});
    LayerVariant key;
    key.tp = small(layout.at("tp"), 1);
    layout.read("ep", key.ep, 1, kMostCount);
    key.save = layout.at("save").choice<Save>();
    layout.read("sequence_parallel", key.sequenceParallel);
    std::vector<RankLayer> kinds;
    for (const JsonReader &kind : layout.at("kinds").list())
      kinds.push_back(readRankLayer(kind, table));
    if (kinds.size() != module.kinds.size())
      layout.at("kinds").fail("expected one entry for each of the " +
                              Twine(module.kinds.size()) + " kinds of layers");
    if (!module.partitioned.try_emplace(key, std::move(kinds)).second)
      layout.fail("a second layout of TP " + Twine(key.tp) + " and '" +
                  rt::textOf(key.save) + "'" +
                  (key.sequenceParallel ? " with sequence parallelism" : ""));
  }
}

ItemKind readItem(const JsonReader &json, const Model &model) {
  std::vector<StringRef> names = {"sample"};
  for (const std::string &name : model.items)
    names.push_back(name);
  return ItemKind(json.choice(names));
}

PartBound readBound(const JsonReader &json, const Model &model) {
  json.keys({"item", "other", "name", "most"});
  PartBound bound;
  bound.kind = readItem(json.at("item"), model);
  json.read("other", bound.isOther);
  json.read("name", bound.name);
  bound.most = json.at("most").number(1, kMost);
  return bound;
}

Module readModule(const JsonReader &json, const Model &model) {
  json.keys({"name", "item", "precision", "trainable", "input_gradient",
             "max_tp", "key_heads", "item_tokens", "item_other", "bounds",
             "weight_bytes", "gradient_bytes", "optimizer_bytes", "kinds",
             "layers", "ties", "partitioned"});
  Module module;
  module.name = json.at("name").string();
  if (json.has("item"))
    module.item = readItem(json.at("item"), model);
  json.read("precision", module.precision);
  json.read("trainable", module.trainable);
  json.read("input_gradient", module.inputGradient);
  json.read("max_tp", module.maxTP, 1, kMostCount);
  if (json.has("key_heads")) {
    JsonReader keys = json.at("key_heads");
    keys.keys({"count", "shared", "ring"});
    keys.read("count", module.keys.count, 1, kMostCount);
    keys.read("shared", module.keys.shared, 1, kMostCount);
    keys.read("ring", module.keys.ring);
  }
  json.read("item_tokens", module.mostTokens, 1, kMost);
  json.read("item_other", module.mostOther, 1, kMost);
  for (const JsonReader &entry : json.listIfAny("bounds"))
    module.bounds.push_back(readBound(entry, model));
  json.read("weight_bytes", module.bytes.weight, 0, kMost);
  json.read("gradient_bytes", module.bytes.gradient, 0, kMost);
  json.read("optimizer_bytes", module.bytes.optimizer, 0, kMost);
  for (const JsonReader &kind : json.at("kinds").list())
    module.kinds.push_back(readKind(kind));
  readLayers(json.at("layers"), module);
  for (const JsonReader &entry : json.listIfAny("ties")) {
    entry.keys({"layers", "parameters", "parameter_bytes"});
    Tie &tie = module.ties.emplace_back();
    for (const JsonReader &layer : entry.at("layers").list())
      tie.layers.push_back(small(layer, 0));
    tie.parameters = figure(entry, "parameters");
    tie.bytes = readBytes(entry);
  }
  if (json.has("partitioned"))
    readPartitioned(json.at("partitioned"), module);
  return module;
}

/// The only module of another file, under this one's name.
Module takeModule(const JsonReader &json, const Model &model,
                  ModelOpener open) {
  json.keys({"name", "item", "model"});
  const JsonReader from = json.at("model");
  std::string name = from.string();
  Module module;
  if (!json.ok())
    return module;
  if (!open) {
    from.fail("expected the module itself, in a file that is a part of "
              "another");
    return module;
  }
  auto other = open(name);
  if (!other) {
    from.fail(toString(other.takeError()));
    return module;
  }
  if (other->modules.size() != 1) {
    from.fail("expected a file of one module, '" + name + "' has " +
              Twine(other->modules.size()));
    return module;
  }
  module = std::move(other->modules[0]);
  module.name = json.at("name").string();
  module.item = readItem(json.at("item"), model);
  return module;
}

int findModule(const JsonReader &json, const Model &model) {
  return int(json.findNamed(model.modules, "module"));
}

} // namespace

Expected<Model> parseModel(StringRef text, StringRef file, ModelOpener open) {
  Model model;
  Error wrong = models::readJson(text, file, [&](const JsonReader &root) {
    root.keys(
        {"version", "name", "pace", "items", "modules", "edges", "contrast"});
    root.checkVersion();
    root.read("name", model.name);
    if (root.has("items")) {
      model.items = root.at("items").strings();
      if (model.items.size() > size_t(kMostItemKinds))
        root.at("items").fail("expected at most " + Twine(kMostItemKinds));
    }
    if (root.ok())
      for (const JsonReader &module : root.at("modules").list()) {
        Module one = module.has("model") ? takeModule(module, model, open)
                                         : readModule(module, model);
        if (llvm::any_of(model.modules,
                         [&](const Module &m) { return m.name == one.name; }))
          module.fail("a second module named '" + one.name + "'");
        model.modules.push_back(std::move(one));
      }
    if (root.ok() && root.has("pace"))
      model.pace = findModule(root.at("pace"), model);
    if (root.ok())
      for (const JsonReader &edge : root.listIfAny("edges")) {
        edge.keys({"from", "to", "bytes"});
        model.edges.push_back({findModule(edge.at("from"), model),
                               findModule(edge.at("to"), model),
                               readLinear(edge, "bytes")});
      }
    // Parts do not know what feeds them.
    if (root.ok() &&
        llvm::any_of(root.at("modules").list(),
                     [](const JsonReader &m) { return m.has("model"); }))
      spreadGradients(model);
    if (root.ok() && root.has("contrast")) {
      const JsonReader contrast = root.at("contrast");
      contrast.keys({"towers", "width"});
      for (const JsonReader &tower : contrast.at("towers").list())
        model.contrast.towers.push_back(findModule(tower, model));
      model.contrast.width = contrast.at("width").number(1, 1e9);
    }
  });
  if (wrong)
    return std::move(wrong);
  if (Error unsound = model.check())
    return createStringError(file + ": " + toString(std::move(unsound)));
  return model;
}

Expected<Model> readModel(StringRef file) {
  // Parts lie beside the file.
  auto readPart = [&](StringRef name) -> Expected<Model> {
    SmallString<128> path(sys::path::parent_path(file));
    sys::path::append(path, name);
    return models::readFile(path.str(), [](StringRef text, StringRef file) {
      return parseModel(text, file, {});
    });
  };
  return models::readFile(file, [&](StringRef text, StringRef file) {
    return parseModel(text, file, readPart);
  });
}

} // namespace dt::planner
