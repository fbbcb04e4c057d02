//===- RecipeOptimizer.cpp - Reading of optimizers --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/RecipeParser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <cmath>

using namespace llvm;

namespace dt::models {

namespace {

/// Of every optimizer; what each has of its own is in runtime/Optimizers.h.
const StringRef kOptimizerKeys[] = {
    "kind", "lr",     "weight_decay", "no_decay", "groups",     "routing_bias",
    "clip", "warmup", "schedule",     "steps",    "decay_from", "final"};
/// Of those for which weights of products are matrices: what else AdamW has.
const StringRef kByElementKey = "adamw";
const StringRef kGroupKeys[] = {"match", "lr_factor", "weight_decay"};
const StringRef kRoutingKeys[] = {"match", "rate"};

SmallVector<StringRef> keysOf(const rt::OptimizerDescription &optimizer) {
  SmallVector<StringRef> keys = to_vector(ArrayRef<StringRef>(kOptimizerKeys));
  for (const rt::OptimizerSetting &setting : optimizer.settings)
    if (keys.back() != setting.key)
      keys.push_back(setting.key);
  if (optimizer.matrices == rt::Matrices::Products)
    keys.push_back(kByElementKey);
  return keys;
}

/// A number, a whole one where no other means anything, or one of some words.
double readSetting(JsonReader reader, const rt::OptimizerSetting &setting) {
  const rt::SettingRange &range = setting.range;
  if (setting.words)
    return range.low +
           double(reader.choice(to_vector(map_range(
               seq<size_t>(size_t(range.high - range.low) + 1),
               [&](size_t i) { return StringRef(setting.words[i]); }))));
  double value = reader.number(range.low, range.high);
  if (reader.ok() && range.integral && value != std::floor(value))
    reader.fail("expected " + Twine(range.text));
  return value;
}

/// What the recipe says of the optimizer's own settings.
void readSettings(JsonReader reader, OptimizerEntry &entry) {
  auto all = rt::describe(entry.kind).settings;
  for (size_t i = 0, end; i < all.size; i = end) {
    StringRef key = all[i].key;
    for (end = i + 1; end < all.size && key == all[end].key;)
      ++end;
    if (!reader.has(key))
      continue;
    std::vector<JsonReader> values = {reader.at(key)};
    if (end - i > 1)
      values = values[0].list();
    if (reader.ok() && values.size() != end - i)
      reader.at(key).fail("expected " + Twine(end - i) + " numbers");
    if (!reader.ok())
      return;
    for (size_t k = i; k < end; ++k)
      entry.settings.emplace_back(all[k].name,
                                  readSetting(values[k - i], all[k]));
  }
}

} // namespace

void RecipeParser::optimizer(JsonReader reader, OptimizerEntry &entry) {
  if (!reader.raw().is_object())
    return reader.fail("expected an object");
  reader.read("kind", entry.kind);
  reader.keys(keysOf(rt::describe(entry.kind)));
  double infinity = std::numeric_limits<double>::infinity();
  reader.read("lr", entry.lr, 0, infinity);
  reader.read("weight_decay", entry.weightDecay, 0, infinity);
  reader.read("clip", entry.clip, 0, infinity);
  reader.read("decay_from", entry.decayFrom, 0, 1);
  reader.read("final", entry.finalFraction, 0, 1);
  readSettings(reader, entry);
  reader.read("warmup", entry.warmup, 0);
  reader.read("steps", entry.totalSteps, 0);
  reader.read("schedule", entry.schedule);
  for (StringRef key : {"decay_from", "final"})
    if (reader.has(key) && entry.schedule == rt::ScheduleKind::Constant)
      reader.at(key).fail("goes with \"schedule\": \"linear\" or \"cosine\"");
  if (entry.totalSteps && entry.warmup > entry.totalSteps)
    reader.at("warmup").fail("expected at most optimizer.steps, " +
                             Twine(entry.totalSteps));
  if (reader.has("no_decay"))
    entry.noDecay = patterns(reader.at("no_decay"));
  if (reader.has(kByElementKey))
    entry.byElement = patterns(reader.at(kByElementKey));
  if (reader.has("groups"))
    for (JsonReader element : reader.at("groups").list())
      entry.groups.push_back(group(element));
  if (reader.has("routing_bias"))
    for (JsonReader element : reader.at("routing_bias").list())
      entry.routing.push_back(routing(element));
}

bool RecipeParser::matched(JsonReader reader, ArrayRef<StringRef> keys,
                           std::string &match) {
  if (!reader.raw().is_object()) {
    reader.fail("expected an object");
    return false;
  }
  reader.keys(keys);
  match = reader.at("match").string();
  pattern(reader.at("match"), match);
  return true;
}

RoutingEntry RecipeParser::routing(JsonReader reader) {
  RoutingEntry entry;
  if (matched(reader, kRoutingKeys, entry.match))
    reader.read("rate", entry.rate, 0, std::numeric_limits<double>::infinity());
  return entry;
}

GroupEntry RecipeParser::group(JsonReader reader) {
  GroupEntry entry;
  if (!matched(reader, kGroupKeys, entry.match))
    return entry;
  if (!reader.has("lr_factor") && !reader.has("weight_decay"))
    reader.fail("expected lr_factor, weight_decay or both");
  double infinity = std::numeric_limits<double>::infinity();
  reader.read("lr_factor", entry.lrFactor, 0, infinity);
  reader.read("weight_decay", entry.weightDecay, 0, infinity);
  return entry;
}

} // namespace dt::models
