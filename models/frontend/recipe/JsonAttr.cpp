//===- JsonAttr.cpp - JSON as attributes, and the data sections -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/JsonAttr.h"

#include "dialects/dist/DistOps.h"

using namespace mlir;
using nlohmann::json;

namespace dt::models {

Attribute jsonToAttr(MLIRContext *context, const json &value, unsigned depth) {
  Builder builder(context);
  if (depth > 64)
    return {};
  switch (value.type()) {
  case json::value_t::null:
    return builder.getUnitAttr();
  case json::value_t::boolean:
    return builder.getBoolAttr(value.get<bool>());
  case json::value_t::string:
    return builder.getStringAttr(value.get<std::string>());
  case json::value_t::number_float:
    return builder.getF64FloatAttr(value.get<double>());
  case json::value_t::number_unsigned:
    if (value.get<uint64_t>() > uint64_t(INT64_MAX))
      return {};
    [[fallthrough]];
  case json::value_t::number_integer:
    return builder.getI64IntegerAttr(value.get<int64_t>());
  case json::value_t::array: {
    SmallVector<Attribute> elements;
    for (const json &element : value) {
      elements.push_back(jsonToAttr(context, element, depth + 1));
      if (!elements.back())
        return {};
    }
    return builder.getArrayAttr(elements);
  }
  case json::value_t::object: {
    SmallVector<NamedAttribute> entries;
    for (auto &entry : value.items()) {
      Attribute attribute = jsonToAttr(context, entry.value(), depth + 1);
      if (!attribute || entry.key().empty())
        return {};
      entries.push_back(builder.getNamedAttr(entry.key(), attribute));
    }
    return builder.getDictionaryAttr(entries);
  }
  default:
    return {};
  }
}

json attrToJson(Attribute attribute) {
  return TypeSwitch<Attribute, json>(attribute)
      .Case<UnitAttr>([](auto) { return json(); })
      .Case<BoolAttr>([](BoolAttr a) { return json(a.getValue()); })
      .Case<StringAttr>([](StringAttr a) { return json(a.getValue().str()); })
      .Case<IntegerAttr>(
          [](IntegerAttr a) { return json(a.getValue().getSExtValue()); })
      .Case<FloatAttr>([](FloatAttr a) { return json(a.getValueAsDouble()); })
      .Case<ArrayAttr>([](ArrayAttr a) {
        json list = json::array();
        for (Attribute element : a)
          list.push_back(attrToJson(element));
        return list;
      })
      .Case<DictionaryAttr>([](DictionaryAttr a) {
        json object = json::object();
        for (NamedAttribute entry : a)
          object[entry.getName().str()] = attrToJson(entry.getValue());
        return object;
      })
      .Default([](Attribute a) {
        std::string text;
        llvm::raw_string_ostream(text) << a;
        return json(text);
      });
}

json getDataSections(mlir::ModuleOp program) {
  json out = json::object();
  for (auto item : program.getOps<dist::ItemOp>())
    out["items"][item.getName().str()] = {{"of", "sample"},
                                          {"max", item.getMax()}};
  for (auto measure : program.getOps<dist::MeasureOp>()) {
    json &entry = out["items"][measure.getKind().str()]["measures"]
                     [measure.getName().str()];
    entry["max"] = measure.getMax();
    if (auto part = measure.getPart())
      entry["part"] = *part;
  }
  if (auto dims = dist::getOnly<dist::DimsOp>(program))
    out["dims"] = attrToJson(dims.getDescription());
  if (auto data = dist::getOnly<dist::DataOp>(program))
    out["data"] = attrToJson(data.getDescription());
  for (auto input : program.getOps<dist::InputOp>())
    out["inputs"][input.getName().str()] = attrToJson(input.getDescription());
  if (auto batch = dist::getOnly<dist::BatchOp>(program)) {
    out["batch"] = {{"global", batch.getGlobal()}, {"micro", batch.getMicro()}};
    if (auto parts = batch.getParts()) {
      out["batch"]["parts"] = *parts;
      out["batch"]["tokens"] = *batch.getTokens();
      out["batch"]["samples"] = batch.getGlobal() / *parts;
    }
  }
  if (auto seed = dist::getOnly<dist::SeedOp>(program))
    out["seed"] = seed.getValue();
  return out;
}

} // namespace dt::models
