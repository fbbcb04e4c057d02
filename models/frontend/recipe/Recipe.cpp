//===- Recipe.cpp - Reading and checking of recipes -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/Pattern.h"
#include "models/frontend/recipe/RecipeParser.h"
#include "models/frontend/recipe/losses/LossRule.h"

#include "runtime/base/Error.h"
#include "runtime/data/Config.h"
#include "runtime/data/PythonSource.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace dt::models {

namespace {

// The keys of each object; docs/recipe.schema.json has the same.
const StringRef kTopKeys[] = {
    "modules",   "connections", "items",      "dims",  "inputs", "tie",
    "losses",    "optimizer",   "batch_norm", "batch", "data",   "seed",
    "precision", "residual",    "gradients",  "ema"};
const StringRef kModuleKeys[] = {"onnx", "role", "trainable", "freeze", "lora",
                                 "init", "dims", "split",     "experts"};
const StringRef kExpertKeys[] = {"capacity", "choices"};
const StringRef kSplits[] = {"auto"};
const StringRef kInitKeys[] = {"pattern", "rule", "replace"};
const StringRef kConnectionKeys[] = {"from", "gather"};
const StringRef kItemKeys[] = {"of", "max", "measures"};
const StringRef kMeasureKeys[] = {"max", "part", "multiple"};
const StringRef kBatchKeys[] = {"global", "micro", "tokens", "parts",
                                "samples"};
const StringRef kRoles[] = {"encoder", "backbone", "generator", "tower",
                            "head"};

/// torch.nn.init's names, with numbers in parentheses where a rule takes some.
const StringRef kRules[] = {
    "zeros",          "ones",         "constant",        "normal",
    "uniform",        "trunc_normal", "kaiming_uniform", "kaiming_normal",
    "xavier_uniform", "xavier_normal"};

} // namespace

bool isName(StringRef name) {
  return !name.empty() && !isDigit(name[0]) &&
         all_of(name, [](char c) { return isAlnum(c) || c == '_'; });
}

void RecipeParser::parse() {
  top.keys(kTopKeys);
  if (!top.ok())
    return;
  items();
  modules();
  precisions();
  stored("residual", &ModuleEntry::narrowResidual);
  stored("gradients", &ModuleEntry::narrowGradients);
  dims();
  connections();
  ties();
  losses();
  if (top.has("optimizer"))
    optimizer(top.at("optimizer"), recipe.optimizer);
  if (top.has("ema")) {
    top.at("ema").keys({"decay"});
    JsonReader decay = top.at("ema").at("decay");
    double value = recipe.optimizer.averageDecay = decay.number();
    if (top.ok() && !(value > 0 && value < 1))
      decay.fail("expected a number above 0 and below 1");
  }
  rest();
}

void RecipeParser::items() {
  if (!top.has("items"))
    return;
  for (auto &[name, reader] : top.at("items").entries()) {
    bool sample = name == "sample";
    reader.keys(kItemKeys);
    if (!isName(name))
      reader.fail("an item kind is named with letters, digits and '_'");
    if (sample && (reader.has("max") || reader.has("of")))
      reader.fail("a step has as many samples as \"batch\" says; expected "
                  "\"measures\" alone");
    if (reader.has("of") && reader.at("of").string() != "sample")
      reader.at("of").fail("expected \"sample\"");
    if (!sample)
      recipe.items.push_back({name, reader.at("max").integer(1)});
    if (reader.has("measures"))
      measures(name, reader.at("measures"));
  }
}

void RecipeParser::measures(const std::string &kind, JsonReader all) {
  for (auto &[name, reader] : all.entries()) {
    reader.keys(kMeasureKeys);
    if (!isName(name))
      reader.fail("a measure is named with letters, digits and '_'");
    MeasureEntry entry{kind, name, reader.at("max").integer(1)};
    if (reader.has("part"))
      entry.part = reader.at("part").integer(entry.max);
    if (reader.has("multiple"))
      entry.multiple = reader.at("multiple").integer(1);
    recipe.measures.push_back(std::move(entry));
  }
}

void RecipeParser::pattern(JsonReader reader, StringRef pattern) {
  auto glob = GlobPattern::create(pattern, kMostSubPatterns);
  if (!glob)
    reader.fail("'" + pattern +
                "' is no pattern: " + toString(glob.takeError()));
}

std::vector<std::string> RecipeParser::patterns(JsonReader reader) {
  std::vector<std::string> list;
  for (JsonReader element : reader.list()) {
    list.push_back(element.string());
    pattern(element, list.back());
  }
  return list;
}

void RecipeParser::rule(JsonReader reader) {
  std::string text = reader.string();
  auto [name, arguments] = StringRef(text).split('(');
  if (!reader.ok())
    return;
  if (!is_contained(kRules, name.trim()))
    return reader.fail("'" + name + "' is no rule; expected one of " +
                       join(ArrayRef<StringRef>(kRules), ", ") +
                       didYouMean(name, kRules));
  if (!StringRef(text).contains('('))
    return;
  if (!arguments.consume_back(")"))
    return reader.fail("'" + text + "' has no closing parenthesis");
  SmallVector<StringRef> numbers;
  arguments.split(numbers, ',', -1, false);
  double value;
  for (StringRef number : numbers)
    if (number.trim().getAsDouble(value))
      return reader.fail("'" + number + "' in the rule is no number");
}

ModuleEntry RecipeParser::module(const std::string &name, JsonReader reader) {
  reader.keys(kModuleKeys);
  if (!isName(name))
    reader.fail("a module is named with letters, digits and '_'");
  ModuleEntry entry;
  entry.name = name;
  entry.onnx = reader.at("onnx").string();
  if (reader.has("role"))
    entry.role = kRoles[reader.at("role").choice(kRoles)].str();
  if (reader.has("split")) {
    reader.at("split").choice(kSplits);
    entry.split = true;
    if (reader.has("role"))
      reader.at("role").fail(
          "a module with \"split\" has no role; those of the "
          "modules found in it follow from their place");
  }
  if (reader.has("trainable"))
    entry.trainable = patterns(reader.at("trainable"));
  if (reader.has("freeze"))
    entry.freeze = patterns(reader.at("freeze"));
  if (reader.has("lora"))
    entry.lora = lora(reader.at("lora"));
  if (reader.has("experts")) {
    JsonReader experts = reader.at("experts");
    experts.keys(kExpertKeys);
    if (experts.has("capacity")) // below 1 even choices would not fit
      entry.capacity = experts.at("capacity")
                           .number(1, std::numeric_limits<double>::infinity());
    entry.choices = experts.has("choices") && experts.at("choices").flag();
  }
  if (reader.has("init"))
    for (JsonReader element : reader.at("init").list()) {
      element.keys(kInitKeys);
      InitEntry init;
      init.pattern = element.at("pattern").string();
      init.rule = element.at("rule").string();
      rule(element.at("rule"));
      init.replace = element.has("replace") && element.at("replace").flag();
      pattern(element.has("pattern") ? element.at("pattern") : element,
              init.pattern);
      entry.init.push_back(init);
    }
  if (reader.has("dims"))
    for (auto &[dim, value] : reader.at("dims").entries())
      entry.dims.emplace_back(dim, binding(value));
  return entry;
}

void RecipeParser::modules() {
  for (auto &[name, reader] : top.at("modules").entries())
    recipe.modules.push_back(module(name, reader));
  if (top.ok() && recipe.modules.empty())
    top.at("modules").fail("expected at least one module");
}

DimBinding RecipeParser::binding(JsonReader reader) {
  if (reader.raw().is_number())
    return reader.integer(1);
  if (!reader.raw().is_string()) {
    reader.fail("expected a number or an item kind");
    return int64_t(1);
  }
  std::string kind = reader.string();
  SmallVector<StringRef> known = {"sample"};
  for (const ItemEntry &item : recipe.items)
    known.push_back(item.name);
  std::vector<std::string> measured;
  for (const MeasureEntry &measure : recipe.measures)
    measured.push_back(measure.quantity());
  append_range(known, measured);
  if (!is_contained(known, StringRef(kind)))
    reader.fail("'" + kind + "' is no item kind" +
                (StringRef(kind).contains('.') ? " with such a measure" : "") +
                "; expected a number or one of " + join(known, ", ") +
                didYouMean(kind, known));
  return kind;
}

void RecipeParser::dims() {
  if (!top.has("dims"))
    return;
  for (auto &[name, reader] : top.at("dims").entries()) {
    DimBinding value = binding(reader);
    auto [prefix, rest] = StringRef(name).split('.');
    auto *entry = find_if(recipe.modules, [&, prefix = prefix](auto &m) {
                    return m.name == prefix;
                  }).operator->();
    bool ofModule =
        !rest.empty() && entry != recipe.modules.data() + recipe.modules.size();
    if (ofModule)
      entry->dims.emplace_back(rest.str(), value);
    else
      recipe.dims.emplace_back(name, value);
  }
}

TensorName RecipeParser::tensor(JsonReader reader, StringRef name,
                                const Recipe *recipe) {
  auto [module, rest] = name.split('.');
  if (module.empty() || rest.empty()) {
    reader.fail("expected \"module.tensor\", not \"" + name + "\"");
    return {};
  }
  if (recipe) {
    SmallVector<StringRef> known;
    for (const ModuleEntry &entry : recipe->modules)
      known.push_back(entry.name);
    if (!is_contained(known, module))
      reader.fail("there is no module '" + module + "'" +
                  didYouMean(module, known));
  }
  return {module.str(), rest.str()};
}

void RecipeParser::connections() {
  if (!top.has("connections"))
    return;
  for (auto &[name, reader] : top.at("connections").entries()) {
    ConnectionEntry entry;
    entry.input = tensor(reader, name, &recipe);
    JsonReader from = reader;
    if (reader.raw().is_object()) {
      reader.keys(kConnectionKeys);
      from = reader.at("from");
      reader.read("gather", entry.gather);
    }
    entry.output = tensor(from, from.string(), &recipe);
    if (top.ok() && entry.input.module == entry.output.module)
      reader.fail("connects module '" + entry.input.module + "' to itself");
    recipe.connections.push_back(entry);
  }
}

void RecipeParser::ties() {
  if (!top.has("tie"))
    return;
  for (auto &[name, reader] : top.at("tie").entries())
    recipe.tie.emplace_back(tensor(reader, name, &recipe),
                            tensor(reader, reader.string(), &recipe));
}

std::vector<StringRef> LossRule::getKeys() const {
  std::vector<StringRef> keys = {"name", "kind", "weight", "over", value};
  for (StringRef key : {target, setting})
    if (!key.empty())
      keys.push_back(key);
  if (choosesRows)
    keys.insert(keys.end(), {"where", "is"});
  return keys;
}

LossEntry RecipeParser::loss(JsonReader reader, const Recipe *recipe) {
  LossEntry entry;
  if (!reader.raw().is_object()) {
    reader.fail("expected an object");
    return entry;
  }
  std::vector<StringRef> kinds;
  for (const LossRule &rule : getLossRules())
    kinds.push_back(rule.kind);
  const LossRule &rule = getLossRules()[reader.at("kind").choice(kinds)];
  entry.rule = &rule;
  reader.keys(rule.getKeys());
  if (!rule.target.empty())
    entry.target = reader.has(rule.target) ? reader.at(rule.target).string()
                                           : rule.target.str();
  entry.setting = rule.usual;
  if (!rule.setting.empty() && reader.has(rule.setting))
    entry.setting = reader.at(rule.setting).integer();
  if (rule.choosesRows && reader.has("where") != reader.has("is"))
    reader.fail(
        "\"where\" names an input and \"is\" a number: expected both or "
        "neither");
  if (rule.choosesRows && reader.has("where")) {
    entry.where = reader.at("where").string();
    entry.is = reader.at("is").integer();
  }
  JsonReader valueReader = reader.at(rule.value);
  entry.value = tensor(valueReader, valueReader.string(), recipe);
  entry.name = reader.has("name") ? reader.at("name").string() : "loss";
  if (!isName(entry.name))
    reader.fail("a loss is named with letters, digits and '_'");
  reader.read("weight", entry.weight, 0.0,
              std::numeric_limits<double>::infinity());
  if (reader.has("over") && reader.at("over").string() != "global")
    reader.at("over").fail("expected \"global\"");
  return entry;
}

void RecipeParser::losses() {
  JsonReader list = top.at("losses");
  llvm::StringSet<> names;
  for (JsonReader reader : list.list()) {
    recipe.losses.push_back(loss(reader, &recipe));
    if (top.ok() && !names.insert(recipe.losses.back().name).second)
      reader.fail("a second loss named '" + recipe.losses.back().name + "'");
  }
  if (top.ok() && !recipe.losses.empty() &&
      llvm::all_of(recipe.losses, [](auto &loss) { return loss.weight == 0; }))
    list.fail("every weight is 0, so nothing trains");
  if (top.ok() && recipe.losses.empty())
    list.fail("expected at least one loss");
}

void RecipeParser::rest() {
  if (top.has("batch_norm")) {
    top.at("batch_norm").choice({"local"});
    recipe.batchNorm = "local";
  }
  if (top.has("batch")) {
    JsonReader batch = top.at("batch");
    batch.keys(kBatchKeys);
    if (batch.has("tokens") && !batch.has("global"))
      fillParts(batch);
    else
      countSamples(batch);
  }
  top.read("seed", recipe.seed, 0);
}

namespace {

/// `data` and `inputs` belong to the runtime: its own reader checks them, so
/// that what compiles also runs.
Error readDataSections(const OrderedJson &json, Recipe &recipe) {
  if (json.contains("inputs"))
    recipe.inputs = nlohmann::json(json["inputs"]);
  if (!json.contains("data"))
    return Error::success();
  try {
    if (rt::data::hasPythonSource(nlohmann::json(json))) {
      recipe.data = rt::data::readPythonSource(nlohmann::json(json),
                                               recipe.path, recipe.directory);
      return Error::success();
    }
    std::vector<std::string> folders = {recipe.directory};
    nlohmann::json plain =
        rt::data::inlineVocabulary(nlohmann::json(json), folders);
    recipe.config = std::make_shared<const rt::data::Config>(
        rt::data::Config::parse(plain, recipe.path, folders));
    recipe.data = plain["data"];
  } catch (const rt::Error &error) {
    return createStringError(error.what());
  }
  return Error::success();
}

} // namespace

Expected<Recipe> parseRecipe(StringRef text, StringRef path) {
  Expected<OrderedJson> json = parseJson(text, path);
  if (!json)
    return json.takeError();
  Recipe recipe;
  recipe.path = path.str();
  StringRef parent = sys::path::parent_path(path);
  recipe.directory = parent.empty() ? "." : parent.str();
  std::string error;
  RecipeParser(JsonReader(&*json, "", &error), recipe).parse();
  if (!error.empty())
    return createStringError(path + ": " + error);
  if (Error dataError = readDataSections(*json, recipe))
    return std::move(dataError);
  return recipe;
}

Expected<Recipe> readRecipe(StringRef path) {
  return readFile(path, parseRecipe);
}

} // namespace dt::models
