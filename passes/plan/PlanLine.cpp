//===- PlanLine.cpp - A plan in one line ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/PlanJson.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace llvm;

namespace dt::plan {

using models::JsonReader;
using models::OrderedJson;

namespace {

/// A value as it would stand in the file; a number that is no number is told
/// there.
OrderedJson valueOf(StringRef text) {
  int64_t number;
  if (!text.getAsInteger(10, number))
    return number;
  if (text == "true" || text == "false")
    return text == "true";
  return text.str();
}

/// "3+5" are two values.
OrderedJson listOf(StringRef text) {
  OrderedJson list = OrderedJson::array();
  SmallVector<StringRef> parts;
  text.split(parts, '+');
  for (StringRef part : parts)
    list.push_back(valueOf(part));
  return list;
}

/// Of a key of a unit: "ranks=3-5" stays a range, "ranks=3" is a list too.
OrderedJson settingOf(StringRef key, StringRef text) {
  bool list =
      key == "speeds" || (key == "ranks" ? !text.contains('-')
                                         : key == "save" && text.contains('+'));
  return list ? listOf(text) : valueOf(text);
}

Error lineError(const Twine &what) {
  return createStringError(models::oneLine(("--plan: " + what).str()));
}

Error addUnit(StringRef name, StringRef text, OrderedJson &units) {
  OrderedJson unit = OrderedJson::object();
  SmallVector<StringRef> settings;
  text.split(settings, ',', -1, /*KeepEmpty=*/false);
  for (StringRef setting : settings) {
    auto [key, value] = setting.split('=');
    if (value.empty())
      return lineError("units." + name + ": expected key=value, not '" +
                       setting + "'");
    StringRef rows = key;
    bool ofRows = rows.consume_front("rows_max.");
    if (key == "rows_max")
      return lineError("units." + name +
                       ".rows_max: expected rows_max.KIND=" + value);
    if (ofRows
            ? unit.contains("rows_max") && unit["rows_max"].contains(rows.str())
            : unit.contains(key.str()))
      return lineError("units." + name + "." + key + ": stands twice");
    if (ofRows)
      unit["rows_max"][rows.str()] = valueOf(value);
    else
      unit[key.str()] = settingOf(key, value);
  }
  if (units.contains(name.str()))
    return lineError("units." + name + ": stands twice");
  units[name.str()] = unit;
  return Error::success();
}

int64_t numberOr(const OrderedJson &object, const char *key, int64_t other) {
  if (!object.contains(key) || !object[key].is_number_integer())
    return other;
  return std::clamp<int64_t>(object[key].get<int64_t>(), 1, 1 << 10);
}

/// Ranks that the units need if those without a list follow one another.
int64_t countRanks(const OrderedJson &units) {
  int64_t most = 0;
  for (auto &[name, unit] : units.items()) {
    std::string error;
    int64_t next = most + numberOr(unit, "tp", 1) * numberOr(unit, "cp", 1) *
                              numberOr(unit, "dp", 1) * numberOr(unit, "pp", 1);
    if (unit.contains("ranks")) {
      next = 0;
      for (int64_t rank : readRanks(JsonReader(&unit["ranks"], "", &error)))
        next = std::max(next, rank + 1);
    }
    most = std::max(most, next);
  }
  return most;
}

} // namespace

Expected<PlanFile> parsePlanLine(StringRef line) {
  OrderedJson json = {{"version", 1}}, units = OrderedJson::object();
  OrderedJson schedule;
  std::string compact = line.str(); // blanks are for the reader
  llvm::erase_if(compact, [](char c) { return llvm::isSpace(c); });
  SmallVector<StringRef> parts;
  StringRef(compact).split(parts, ';', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    size_t colon = part.find(':'), equal = part.find('=');
    if (colon != StringRef::npos && colon < equal) {
      if (Error error = addUnit(part.take_front(colon),
                                part.drop_front(colon + 1), units))
        return std::move(error);
      continue;
    }
    if (equal == StringRef::npos)
      return lineError("expected unit:key=value,… or key=value, not '" + part +
                       "'");
    StringRef key = part.take_front(equal), value = part.drop_front(equal + 1);
    if (is_contained({"version", "units", "pipelines", "edges"}, key))
      return lineError(key + ": goes into a plan file, not into one line");
    if (key == "schedule" ? !schedule.is_null() : json.contains(key.str()))
      return lineError(key + ": stands twice");
    if (key == "schedule")
      schedule = value.str();
    else
      json[key.str()] = valueOf(value);
  }
  json["units"] = units;
  if (!json.contains("ranks"))
    json["ranks"] = std::max<int64_t>(countRanks(units), 1);
  if (!schedule.is_null())
    json["pipelines"].push_back(
        OrderedJson({{"units", OrderedJson::array()}, {"schedule", schedule}}));
  return parsePlan(json, "--plan");
}

} // namespace dt::plan
