//===- Config.cpp - the data sections of a recipe ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Config.h. This file reads items, dims, batch and data; ConfigPictures.cpp
// reads pictures, ConfigInputs.cpp inputs.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Config.h"

#include "runtime/base/ReadJson.h"
#include "runtime/data/ConfigInputs.h"
#include "runtime/data/ConfigPictures.h"
#include "runtime/data/Json.h"

#include <algorithm>
#include <set>
#include <unistd.h>

using namespace dt::rt;
using namespace dt::rt::data;

uint64_t data::hashBytes(const std::string &bytes, uint64_t hash) {
  for (unsigned char c : bytes)
    hash = (hash ^ c) * 0x100000001B3ull;
  return hash;
}

int Config::findPicture(const std::string &name) const {
  for (size_t i = 0; i < pictures.size(); ++i)
    if (pictures[i].name == name)
      return int(i);
  return -1;
}

SegmentKind::Use SegmentKind::useOf(size_t part) const {
  Use use;
  for (const TemplateElement &element : tokens) {
    bool text = element.textPart >= 0;
    use.taken |= element.textPart == int(part);
    if (element.ofPart != int(part))
      continue;
    use.marked = true;
    use.open |= text || element.perSquare;
    use.positions += text || element.perSquare ? 0 : element.count;
  }
  return use;
}

int Config::findInput(const std::string &name) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == name)
      return int(i);
  return -1;
}

namespace {
constexpr int64_t maxSequence = 1 << 24, maxCount = 1 << 20;

/// Of samples shards know one: how many tokens they have.
void readSampleMeasures(Config &config, const JsonView &sample) {
  sample.only({"measures"});
  JsonView measures = sample.at("measures");
  for (auto &entry : measures.object().raw().items()) {
    JsonView measure = measures.at(entry.key());
    if (entry.key() != "tokens")
      measure.fail("samples of shards have no measure but \"tokens\"; others "
                   "come with --batch");
    measure.only({"max", "part", "multiple"});
    config.mostTokens = measure.at("max").integer(1, maxSequence);
  }
}

/// Of pictures shards know one measure, too.
void readItemMeasure(ItemKind &kind, const JsonView &measures) {
  for (auto &entry : measures.object().raw().items()) {
    JsonView measure = measures.at(entry.key());
    if (!kind.measure.empty())
      measure.fail("pictures of shards have one measure, \"" + kind.measure +
                   "\"; others come with --batch");
    measure.only({"max", "part", "multiple"});
    kind.measure = entry.key();
    kind.most = measure.at("max").integer(1, maxSequence);
  }
}

/// "image.merged" of a kind that has it.
bool isMeasure(const ItemKinds &items, const std::string &quantity) {
  size_t dot = quantity.find('.');
  auto item = items.find(quantity.substr(0, dot));
  return dot != std::string::npos && item != items.end() &&
         item->second.measure == quantity.substr(dot + 1);
}

void readItemsAndDims(Config &config, const JsonView &root, ItemKinds &items) {
  if (root.has("items"))
    for (auto &entry : root.at("items").object().raw().items()) {
      JsonView item = root.at("items").at(entry.key());
      if (entry.key() == "sample") {
        readSampleMeasures(config, item);
        continue;
      }
      item.only({"of", "max", "measures"});
      if (entry.key() == "text" || entry.key() == "token")
        item.fail("this name is taken; choose another for the item kind");
      ItemKind &kind = items[entry.key()];
      if (item.has("measures"))
        readItemMeasure(kind, item.at("measures"));
      if (item.has("of"))
        item.at("of").choice({"sample"});
      kind.max = item.at("max").integer(1, maxCount);
    }
  if (root.has("dims"))
    for (auto &entry : root.at("dims").object().raw().items()) {
      JsonView dim = root.at("dims").at(entry.key());
      if (dim.raw().is_string()) {
        if (dim.text() == kSampleTokens && config.mostTokens)
          config.tokenDims.insert(entry.key());
        else if (dim.text() != "sample" && !items.count(dim.text()) &&
                 !isMeasure(items, dim.text()))
          dim.fail("\"" + dim.text() +
                   "\" is neither \"sample\" nor a kind in items");
      } else {
        config.dims[entry.key()] = dim.integer(1);
      }
    }
}

int32_t specialToken(const Config &config, const JsonView &view) {
  std::string name = view.text();
  auto found = std::find(config.special.begin(), config.special.end(), name);
  if (found == config.special.end())
    view.fail("\"" + name + "\" is not in data.special");
  return int32_t(found - config.special.begin());
}

/// "text" or "image.1": which of the segment's parts.
int partNumber(const Config &config, const SegmentKind &kind,
               const JsonView &view) {
  std::string name = view.text();
  std::map<int, int> seen;
  for (size_t i = 0; i < kind.parts.size(); ++i) {
    int part = kind.parts[i], n = seen[part]++;
    std::string base =
        part == textKind ? "text" : config.pictures[size_t(part)].name;
    if (name == (n ? base + "." + std::to_string(n) : base))
      return int(i);
  }
  view.fail("\"" + name + "\" is not a part of this segment");
}

TemplateElement readElement(const Config &config, const SegmentKind &kind,
                            const JsonView &view) {
  TemplateElement element;
  auto setText = [&](const JsonView &name) {
    element.textPart = partNumber(config, kind, name);
    if (kind.parts[size_t(element.textPart)] != textKind)
      name.fail("expected a text part");
  };
  if (view.raw().is_string()) {
    std::string name = view.text();
    if (name.rfind("text", 0) == 0)
      setText(view);
    else
      element.token = specialToken(config, view);
    return element;
  }
  view.only({"token", "text", "count", "loss", "of"});
  if (view.has("text") == view.has("token"))
    view.fail("expected either \"token\" or \"text\"");
  if (view.has("text"))
    setText(view.at("text"));
  else
    element.token = specialToken(config, view.at("token"));
  if (view.has("count") && element.textPart >= 0)
    view.at("count").fail("only a token has a count");
  element.perSquare = view.has("count") && view.at("count").raw().is_string();
  if (view.has("count") && !element.perSquare)
    element.count = view.at("count").integer(1, maxSequence);
  element.loss = view.has("loss") && view.at("loss").flag();
  if (view.has("of")) {
    element.ofPart = partNumber(config, kind, view.at("of"));
    if (kind.parts[size_t(element.ofPart)] == textKind)
      view.at("of").fail("expected a picture part");
  }
  if (element.perSquare) {
    int part = element.ofPart < 0 ? -1 : kind.parts[size_t(element.ofPart)];
    if (part < 0 || config.pictures[size_t(part)].measure.empty() ||
        config.pictures[size_t(part)].measure != view.at("count").text())
      view.at("count").fail("expected a number, or the measure of the pictures "
                            "that \"of\" names");
  }
  return element;
}

void readSegments(Config &config, const JsonView &data) {
  for (auto &entry : data.at("segments").object().raw().items()) {
    JsonView view = data.at("segments").at(entry.key());
    view.only({"parts", "tokens"});
    SegmentKind kind;
    kind.name = entry.key();
    for (const JsonView &part : view.at("parts").list()) {
      int number =
          part.text() == "text" ? textKind : config.findPicture(part.text());
      if (number < 0 && part.text() != "text")
        part.fail("\"" + part.text() +
                  "\" is neither \"text\" nor a kind in data.pictures");
      kind.parts.push_back(number);
    }
    for (const SegmentKind &other : config.segments)
      if (other.parts == kind.parts)
        view.at("parts").fail("the segment \"" + other.name +
                              "\" has the same parts");
    for (const JsonView &element : view.at("tokens").list())
      kind.tokens.push_back(readElement(config, kind, element));
    config.segments.push_back(std::move(kind));
  }
}

void readTokenizer(Config &config, const JsonView &data) {
  JsonView view = data.at("tokenizer");
  size_t kind = view.at("kind").choice({"words", "bytes"});
  int32_t first = int32_t(config.special.size());
  if (kind == 1) {
    view.only({"kind"});
    if (data.has("unknown"))
      data.at("unknown").fail("goes with a tokenizer of words; all bytes are "
                              "known");
    config.tokenizer = Tokenizer::bytes(first);
    return;
  }
  view.only({"kind", "vocabulary"});
  std::vector<std::string> words;
  for (const JsonView &word : view.at("vocabulary").list())
    words.push_back(word.text());
  if (words.empty())
    view.at("vocabulary").fail("expected at least one word");
  int32_t unknown =
      data.has("unknown") ? specialToken(config, data.at("unknown")) : -1;
  try {
    config.tokenizer = Tokenizer::words(first, words, unknown);
  } catch (const Error &error) {
    view.at("vocabulary").fail(error.what());
  }
  auto matches = [&](size_t i) {
    try {
      return config.tokenizer.encode(words[i]) ==
             std::vector<int32_t>{first + int32_t(i)};
    } catch (const Error &) {
      return false;
    }
  };
  for (size_t i = 0; i < words.size(); ++i)
    if (!matches(i))
      view.at("vocabulary")
          .fail("'" + words[i] +
                "' can match no text: words are lower case, "
                "one run of letters and digits or one sign");
}

void readPad(Config &config, const JsonView &data) {
  if (data.has("pad")) {
    config.pad = specialToken(config, data.at("pad"));
    return;
  }
  auto found = std::find(config.special.begin(), config.special.end(), "<pad>");
  if (found == config.special.end())
    data.fail("\"special\" has no \"<pad>\"; expected it there, or the token "
              "that fills up sequences as \"pad\"");
  config.pad = int32_t(found - config.special.begin());
}

void readText(Config &config, const JsonView &data) {
  JsonView length = data.at("sequence");
  if (length.raw().is_string() && config.tokenDims.count(length.text())) {
    config.sequence = config.mostTokens;
    config.packed = true;
  } else if (length.raw().is_string()) {
    auto dim = config.dims.find(length.text());
    if (dim == config.dims.end())
      length.fail("\"" + length.text() +
                  "\" is neither a dim with a number "
                  "nor one of \"" +
                  kSampleTokens + "\"");
    config.sequence = dim->second;
    if (config.sequence > maxSequence)
      length.fail("more than " + std::to_string(maxSequence) + " tokens");
  } else {
    config.sequence = length.integer(1, maxSequence);
  }
  std::set<std::string> names;
  if (data.has("special"))
    for (const JsonView &name : data.at("special").list()) {
      if (name.text().rfind("text", 0) == 0 ||
          !names.insert(name.text()).second)
        name.fail("special tokens must differ and not begin with \"text\"");
      config.special.push_back(name.text());
    }
  readPad(config, data);
  readTokenizer(config, data);
  readSegments(config, data);
  config.cut = data.has("long") && data.at("long").choice({"drop", "cut"}) == 1;
}

void readData(Config &config, const JsonView &root, const ItemKinds &items) {
  JsonView data = root.at("data");
  data.only({"sequence", "tokenizer", "special", "pad", "unknown", "segments",
             "long", "pictures", "labels", "limits"});
  if (data.has("limits")) {
    JsonView limits = data.at("limits");
    limits.only({"pixels", "bytes", "text"});
    constexpr int64_t top = int64_t(1) << 30;
    if (limits.has("pixels"))
      config.limits.pixels = limits.at("pixels").integer(1, top);
    if (limits.has("bytes"))
      config.limits.bytes = limits.at("bytes").integer(1, top);
    if (limits.has("text"))
      config.limits.text = limits.at("text").integer(1, top);
  }
  readPictures(config, data, items);
  if (data.has("labels"))
    config.labels = data.at("labels").integer(1);
  if (data.has("sequence"))
    readText(config, data);
}

/// A recipe says `global`, or what a step's parts hold; data.json both.
void readBatch(Config &config, const JsonView &batch) {
  constexpr int64_t top = int64_t(1) << 31;
  bool counted = batch.has("global");
  if (counted)
    config.globalBatch = config.microBatch = batch.at("global").integer(1, top);
  if (!counted || batch.has("parts")) {
    config.rule.tokens = batch.at("tokens").integer(1, top);
    config.rule.parts =
        batch.has("parts") ? batch.at("parts").integer(1, top) : 1;
    config.rule.samples = batch.has("samples")
                              ? batch.at("samples").integer(1, top)
                              : config.rule.tokens;
    if (config.rule.samples > top / config.rule.parts)
      batch.fail("expected at most 2^31 samples in all parts");
    if (config.mostTokens > config.rule.tokens)
      batch.at("tokens").fail("expected at least the tokens of one sample, " +
                              std::to_string(config.mostTokens));
    config.globalBatch = config.microBatch =
        config.rule.parts * config.rule.samples;
  }
  if (batch.has("micro"))
    config.microBatch = batch.at("micro").integer(1, config.globalBatch);
}

/// Hash of what decides which samples are good; the other sections may change
/// without a new index.
uint64_t indexKey(const Config &config, const nlohmann::json &document) {
  nlohmann::json key = {{"format", 1},
                        {"data", document.at("data")},
                        {"label", config.needsLabel},
                        {"sequence", config.sequence}};
  for (const PictureKind &kind : config.pictures)
    key["pictures"].push_back(
        {kind.name, kind.ragged, kind.max, kind.indexWidth, kind.mostSquares});
  return hashBytes(
      key.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}
} // namespace

nlohmann::json data::inlineVocabulary(nlohmann::json recipe,
                                      const std::vector<std::string> &folders) {
  auto data = recipe.is_object() ? recipe.find("data") : recipe.end();
  if (data == recipe.end() || !data->is_object() ||
      !data->contains("tokenizer") || !(*data)["tokenizer"].is_object() ||
      !(*data)["tokenizer"].contains("vocabulary") ||
      !(*data)["tokenizer"]["vocabulary"].is_string())
    return recipe;
  nlohmann::json &vocabulary = (*data)["tokenizer"]["vocabulary"];
  std::string name = vocabulary.get<std::string>(), path = name;
  for (const std::string &folder : folders)
    if (name.empty() || name[0] != '/')
      if (std::string candidate = folder + "/" + name;
          ::access(candidate.c_str(), R_OK) == 0) {
        path = candidate;
        break;
      }
  vocabulary = readVocabulary(path);
  return recipe;
}

Config Config::parse(const nlohmann::json &document, const std::string &where,
                     const std::vector<std::string> &folders) {
  nlohmann::json complete = inlineVocabulary(document, folders);
  JsonView root(complete, where.empty() ? "" : where + ": ");
  root.object();
  Config config;
  ItemKinds items;
  readItemsAndDims(config, root, items);
  if (root.has("batch"))
    readBatch(config, root.at("batch"));
  if (root.has("seed"))
    config.seed = uint64_t(root.at("seed").integer(0));
  readData(config, root, items);
  if (root.has("inputs"))
    readInputs(config, root.at("inputs"));
  if (config.sequence)
    checkSegments(config, root.at("data").at("segments"));
  config.key = indexKey(config, complete);
  return config;
}

Config Config::load(const std::string &path) {
  nlohmann::json document = readJsonFile(path);
  size_t slash = path.find_last_of('/');
  return parse(document, path,
               {slash == std::string::npos ? "." : path.substr(0, slash), "."});
}
