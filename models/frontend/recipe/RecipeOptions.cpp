//===- RecipeOptions.cpp - Losses and optimizers on a command line --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A single graph needs no recipe file: --loss, --optimizer and --dims say the
// same. Their text becomes JSON and goes through the recipe's parser, so that
// keys, checks and errors are the same.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/RecipeParser.h"
#include "models/frontend/recipe/losses/LossRule.h"

using namespace llvm;

namespace dt::models {

Expected<LossEntry> parseLossOption(StringRef text, StringRef module) {
  SmallVector<StringRef> parts;
  text.split(parts, ':');
  OrderedJson json = {{"kind", parts[0].str()}};
  const LossRules &rules = getLossRules();
  auto rule = llvm::find_if(
      rules, [&](const LossRule &r) { return r.kind == parts[0]; });
  if (rule != rules.end() && parts.size() > 1)
    json[rule->value.str()] = (module + "." + parts[1]).str();
  if (rule != rules.end() && parts.size() > 2)
    json[rule->target.empty() ? "labels" : rule->target.str()] = parts[2].str();
  std::string error;
  LossEntry entry =
      RecipeParser::loss(JsonReader(&json, "--loss", &error), nullptr);
  if (error.empty() && parts.size() > 3)
    error = "--loss: expected kind:output or kind:output:target";
  if (!error.empty())
    return createStringError(error);
  return entry;
}

std::string listOptimizers() {
  std::string text;
  for (const rt::OptimizerDescription &optimizer : rt::knownOptimizers) {
    text += (text.empty() ? "" : "; ") + std::string(optimizer.name);
    const char *separator = " (";
    for (const rt::OptimizerSetting &setting : optimizer.settings) {
      auto initial =
          setting.words
              ? OrderedJson(
                    setting.words[size_t(setting.initial - setting.range.low)])
              : OrderedJson(setting.initial);
      text += std::string(separator) + setting.key + " " + initial.dump() +
              ": " + setting.help;
      separator = ", ";
    }
    text += optimizer.settings.empty() ? "" : ")";
  }
  return text;
}

Expected<OptimizerEntry> parseOptimizerOption(StringRef text) {
  auto [kind, settings] = text.split(':');
  OrderedJson json = {{"kind", kind.str()}};
  SmallVector<StringRef> parts;
  settings.split(parts, ',', -1, false);
  for (StringRef part : parts) {
    auto [key, value] = part.split('=');
    double number;
    int64_t integer;
    if (!value.getAsInteger(10, integer))
      json[key.str()] = integer;
    else if (!value.getAsDouble(number))
      json[key.str()] = number;
    else
      json[key.str()] = value.str();
  }
  OptimizerEntry entry;
  std::string error;
  RecipeParser::optimizer(JsonReader(&json, "--optimizer", &error), entry);
  if (!error.empty())
    return createStringError(error);
  return entry;
}

Expected<std::vector<std::pair<std::string, DimBinding>>>
parseDimsOption(StringRef text) {
  std::vector<std::pair<std::string, DimBinding>> dims;
  SmallVector<StringRef> parts;
  text.split(parts, ',', -1, false);
  for (StringRef part : parts) {
    auto [name, value] = part.split('=');
    int64_t number;
    if (!value.getAsInteger(10, number) && number >= 1)
      dims.emplace_back(name.trim().str(), number);
    else if (isName(value))
      dims.emplace_back(name.trim().str(), value.str());
    else
      return createStringError(
          "--dims: expected name=number or name=item, not '" + part + "'");
  }
  return dims;
}

Expected<std::vector<std::string>>
parseTrainableOption(ArrayRef<std::string> patterns) {
  OrderedJson json(patterns.vec());
  std::string error;
  std::vector<std::string> list =
      RecipeParser::patterns(JsonReader(&json, "--trainable", &error));
  if (!error.empty())
    return createStringError(error);
  return list;
}

Expected<InitEntry> parseInitOption(StringRef text) {
  InitEntry entry;
  auto [pattern, rule] = text.rsplit(':');
  entry.pattern = text.contains(':') ? pattern.str() : "*";
  entry.rule = text.contains(':') ? rule.str() : text.str();
  OrderedJson json = entry.rule;
  std::string error;
  JsonReader reader(&json, "--init", &error);
  RecipeParser::pattern(reader, entry.pattern);
  RecipeParser::rule(reader);
  if (!error.empty())
    return createStringError(error);
  return entry;
}

} // namespace dt::models
