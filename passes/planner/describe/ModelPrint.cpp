//===- ModelPrint.cpp - Models as JSON, written ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The other half of ModelJson.cpp. Operations of partitioned layers are listed
// once: TP degrees and saved sets have most of them in common.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/json/JsonReader.h"
#include "passes/planner/describe/Model.h"

#include <map>

using namespace llvm;

namespace dt::planner {

namespace {

using models::OrderedJson;

/// Files are for people too: what is longer is written over several lines.
constexpr size_t kLineWidth = 160;

OrderedJson print(const Linear &value) {
  OrderedJson json = OrderedJson::object();
  for (auto [key, member] : kLinear)
    if (value.*member)
      json[key] = value.*member;
  return json;
}

void put(OrderedJson &json, const char *key, const Linear &value) {
  if (!(value == Linear()))
    json[key] = print(value);
}

/// A number or a flag.
template <typename T> void put(OrderedJson &json, const char *key, T value) {
  if (value)
    json[key] = value;
}

OrderedJson print(const Op &op) {
  OrderedJson json;
  json["name"] = op.name;
  json["kind"] = kOpKinds[op.kind].str();
  if (op.split != Op::Whole)
    json["split"] = kOpSplits[op.split].str();
  put(json, "rows", op.rows);
  put(json, "n", op.n);
  put(json, "k", op.k);
  if (op.count != 1)
    json["count"] = op.count;
  put(json, "flops", op.flops);
  put(json, "bytes", op.bytes);
  put(json, "fixed_bytes", op.fixedBytes);
  put(json, "cheap", op.cheap);
  put(json, "expert", op.expert);
  return json;
}

OrderedJson print(const std::vector<Op> &ops) {
  OrderedJson list = OrderedJson::array();
  for (const Op &op : ops)
    list.push_back(print(op));
  return list;
}

void put(OrderedJson &json, const std::optional<ParameterBytes> &bytes) {
  if (bytes)
    json["parameter_bytes"] = {{"weight", bytes->weight},
                               {"gradient", bytes->gradient},
                               {"optimizer", bytes->optimizer}};
}

OrderedJson print(const LayerKind &kind) {
  OrderedJson json;
  json["name"] = kind.name;
  put(json, "parameters", kind.parameters);
  put(json, kind.bytes);
  put(json, "expert_parameters", kind.expertParameters);
  json["forward"] = print(kind.forward);
  json["input"] = print(kind.input);
  json["weight"] = print(kind.weight);
  put(json, "reduced", kind.reduced);
  put(json, "forward_reduces", kind.forwardReduces);
  put(json, "backward_reduces", kind.backwardReduces);
  put(json, "routes", kind.routes);
  put(json, "capacity", kind.capacity);
  for (int save = 0; save < 3; ++save) {
    OrderedJson kept = OrderedJson::object();
    put(kept, "split", kind.keptSplit[save]);
    put(kept, "sequence", kind.keptSequence[save]);
    if (!kept.empty())
      json["kept"][rt::textOf(Save(save))] = kept;
  }
  put(json, "output", kind.output);
  put(json, "exchanged", kind.exchanged);
  put(json, "dispatched", kind.dispatched);
  return json;
}

OrderedJson print(const std::vector<Exchange> &exchanges) {
  OrderedJson list = OrderedJson::array();
  OrderedJson before;
  for (const Exchange &exchange : exchanges) {
    OrderedJson json;
    json["kind"] = rt::textOf(exchange.kind);
    put(json, "bytes", exchange.bytes);
    if (exchange.over) {
      json["over"] = exchange.over;
      json["stride"] = exchange.stride;
    }
    put(json, "rows", exchange.rows);
    if (!exchange.beside.empty())
      json["beside"] = print(exchange.beside);
    put(json, "covered", exchange.covered);
    put(json, "covered_in_halves", exchange.coveredInHalves);
    if (json == before) {
      list.back()["count"] = list.back().value("count", 1) + 1;
      continue;
    }
    before = json;
    list.push_back(std::move(json));
  }
  return list;
}

OrderedJson printPartitioned(const Module &module) {
  std::map<std::string, size_t> numbers;
  OrderedJson table = OrderedJson::array(), layouts = OrderedJson::array();
  auto printOps = [&](const std::vector<Op> &ops) {
    OrderedJson list = OrderedJson::array();
    for (const Op &op : ops) {
      OrderedJson json = print(op);
      auto [known, fresh] = numbers.try_emplace(json.dump(), numbers.size());
      if (fresh)
        table.push_back(std::move(json));
      list.push_back(known->second);
    }
    return list;
  };
  for (auto &[layout, layers] : module.partitioned) {
    OrderedJson kinds = OrderedJson::array();
    for (const RankLayer &layer : layers) {
      OrderedJson json = OrderedJson::object();
      put(json, "parameters", layer.parameters);
      json["forward"] = printOps(layer.forward);
      json["input"] = printOps(layer.input);
      json["weight"] = printOps(layer.weight);
      if (!layer.forwardExchanges.empty())
        json["forward_exchanges"] = print(layer.forwardExchanges);
      if (!layer.backwardExchanges.empty())
        json["backward_exchanges"] = print(layer.backwardExchanges);
      for (auto [key, bytes] : kRankLayer)
        put(json, key, layer.*bytes);
      put(json, "chained", layer.chained);
      kinds.push_back(std::move(json));
    }
    OrderedJson json = {{"tp", layout.tp}, {"save", rt::textOf(layout.save)}};
    if (layout.ep > 1)
      json["ep"] = layout.ep;
    put(json, "sequence_parallel", layout.sequenceParallel);
    json["kinds"] = std::move(kinds);
    layouts.push_back(std::move(json));
  }
  OrderedJson json;
  json["ops"] = std::move(table);
  json["layouts"] = std::move(layouts);
  return json;
}

/// What fits into a line is one.
void write(const OrderedJson &json, size_t indent, std::string &out) {
  std::string line = json.dump();
  if (!json.is_structured() || indent + line.size() <= kLineWidth) {
    out += line;
    return;
  }
  bool object = json.is_object(), first = true;
  out += object ? "{" : "[";
  for (auto &[key, value] : json.items()) {
    out += first ? "\n" : ",\n";
    first = false;
    out.append(indent + 1, ' ');
    if (object)
      out += OrderedJson(key).dump() + ": ";
    write(value, indent + 1, out);
  }
  out += "\n";
  out.append(indent, ' ');
  out += object ? "}" : "]";
}

OrderedJson print(const PartBound &bound, const Model &model) {
  OrderedJson json;
  json["item"] = model.getName(bound.kind).str();
  put(json, "other", bound.isOther);
  json["name"] = bound.name;
  json["most"] = bound.most;
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
  if (module.keys.count)
    json["key_heads"] = {{"count", module.keys.count},
                         {"shared", module.keys.shared},
                         {"ring", module.keys.ring}};
  put(json, "item_tokens", module.mostTokens);
  put(json, "item_other", module.mostOther);
  for (const PartBound &bound : module.bounds)
    json["bounds"].push_back(print(bound, model));
  json["weight_bytes"] = module.bytes.weight;
  json["gradient_bytes"] = module.bytes.gradient;
  json["optimizer_bytes"] = module.bytes.optimizer;
  json["kinds"] = OrderedJson::array();
  for (const LayerKind &kind : module.kinds)
    json["kinds"].push_back(print(kind));
  json["layers"] = OrderedJson::array();
  module.forRuns(0, int(module.layers.size()), [&](int kind, int count) {
    json["layers"].push_back(count == 1 ? OrderedJson(kind)
                                        : OrderedJson::array({kind, count}));
  });
  for (const Tie &tie : module.ties) {
    json["ties"].push_back(
        {{"layers", tie.layers}, {"parameters", tie.parameters}});
    put(json["ties"].back(), tie.bytes);
  }
  if (!module.partitioned.empty())
    json["partitioned"] = printPartitioned(module);
  return json;
}

} // namespace

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
  std::string text;
  write(json, 0, text);
  return text;
}

} // namespace dt::planner
