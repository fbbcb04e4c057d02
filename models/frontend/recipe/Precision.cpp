//===- Precision.cpp - in which type modules multiply ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The recipe's `precision`, `residual` and `gradients` (docs/precision.md) and
// the flags of these names.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/RecipeParser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace dt::models {

static const StringRef kPrecisions[] = {"bf16", "f32", "tf32"};
static const StringRef kStored[] = {"bf16", "f32"};

/// One of these words by any of its names.
static std::string oneOf(JsonReader reader, ArrayRef<StringRef> known) {
  std::string word = reader.string();
  StringRef type = llvm::StringSwitch<StringRef>(word)
                       .Case("bfloat16", "bf16")
                       .Cases({"fp32", "float32"}, "f32")
                       .Cases({"f16", "float16", "half"}, "fp16")
                       .Default(word);
  if (type == "fp16")
    reader.fail(word + " needs loss scaling, which there is none of; \"bf16\" "
                       "has the range of float32");
  else if (reader.ok() && !is_contained(known, type))
    reader.fail("'" + word + "' is not one of " + join(known, ", ") +
                didYouMean(word, known));
  return type.str();
}

/// "bf16", "tf32", or "" for f32.
std::string RecipeParser::precision(JsonReader reader) {
  std::string type = oneOf(reader, kPrecisions);
  return type == "f32" ? "" : type;
}

/// "bf16" or "f32".
bool RecipeParser::isNarrow(JsonReader reader) {
  return oneOf(reader, kStored) == "bf16";
}

/// Readers of the modules' words: one word for all, or an object with one for
/// some and a default. A module without one has null.
std::vector<std::optional<JsonReader>>
RecipeParser::wordsOf(StringRef key, ArrayRef<StringRef> known) {
  JsonReader reader = top.at(key);
  std::vector<std::optional<JsonReader>> words(recipe.modules.size());
  if (reader.raw().is_string()) {
    llvm::fill(words, reader);
    return words;
  }
  if (!reader.raw().is_object()) {
    reader.fail("expected \"" + join(known, "\", \"") +
                "\" or an object with one of them for a module");
    return words;
  }
  SmallVector<StringRef> names = {"default"};
  for (const ModuleEntry &entry : recipe.modules)
    names.push_back(entry.name);
  reader.keys(names);
  for (auto [entry, word] : zip(recipe.modules, words))
    for (StringRef name : {StringRef(entry.name), StringRef("default")})
      if (!word && reader.has(name))
        word = reader.at(name);
  return words;
}

void RecipeParser::precisions() {
  if (!top.has("precision"))
    return;
  for (auto [entry, word] :
       zip(recipe.modules, wordsOf("precision", kPrecisions)))
    if (word)
      entry.precision = precision(*word);
}

/// A key that says which of a module's values are stored in bf16.
void RecipeParser::stored(StringRef key, bool ModuleEntry::*narrow) {
  if (!top.has(key))
    return;
  for (auto [entry, word] : zip(recipe.modules, wordsOf(key, kStored))) {
    entry.*narrow = word && isNarrow(*word);
    if (entry.*narrow && entry.precision != "bf16")
      word->fail("bf16 needs \"precision\": \"bf16\"; that of module '" +
                 entry.name + "' is " +
                 (entry.precision.empty() ? "f32" : entry.precision));
  }
}

Expected<std::string> parsePrecisionOption(StringRef text) {
  OrderedJson json = text.str();
  std::string error;
  std::string word =
      RecipeParser::precision(JsonReader(&json, "--precision", &error));
  if (!error.empty())
    return createStringError(error);
  return word;
}

Expected<bool> parseStoredOption(StringRef name, StringRef text,
                                 const ModuleEntry &module) {
  OrderedJson json = text.str();
  std::string error;
  JsonReader reader(&json, "--" + name.str(), &error);
  bool narrow = RecipeParser::isNarrow(reader);
  if (narrow && module.precision != "bf16")
    reader.fail("bf16 needs --precision=bf16");
  if (!error.empty())
    return createStringError(error);
  return narrow;
}

} // namespace dt::models
