//===- Precision.cpp - in which type modules multiply ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The recipe's `precision` (docs/precision.md) and the flag of that name.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/RecipeParser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace dt::models {

static const StringRef kPrecisions[] = {"bf16", "f32", "tf32"};

/// "bf16", "tf32", or "" for f32.
std::string RecipeParser::precision(JsonReader reader) {
  std::string word = reader.string();
  StringRef type = llvm::StringSwitch<StringRef>(word)
                       .Case("bfloat16", "bf16")
                       .Cases({"fp32", "float32"}, "f32")
                       .Cases({"f16", "float16", "half"}, "fp16")
                       .Default(word);
  if (type == "fp16")
    reader.fail(word + " needs loss scaling, which there is none of; \"bf16\" "
                       "has the range of float32");
  else if (reader.ok() && !is_contained(kPrecisions, type))
    reader.fail("'" + word + "' is not one of " +
                join(ArrayRef<StringRef>(kPrecisions), ", ") +
                didYouMean(word, kPrecisions));
  return type == "f32" ? "" : type.str();
}

/// One word for all modules, or an object with one for some and a default.
void RecipeParser::precisions() {
  if (!top.has("precision"))
    return;
  JsonReader reader = top.at("precision");
  StringMap<std::string> words;
  if (reader.raw().is_object()) {
    SmallVector<StringRef> known = {"default"};
    for (const ModuleEntry &entry : recipe.modules)
      known.push_back(entry.name);
    reader.keys(known);
    for (auto &[module, word] : reader.entries())
      words[module] = precision(word);
  } else if (reader.raw().is_string()) {
    words["default"] = precision(reader);
  } else {
    reader.fail("expected \"bf16\", \"f32\", \"tf32\" or an object with one of "
                "them for a module");
  }
  for (ModuleEntry &entry : recipe.modules)
    entry.precision =
        words.lookup(words.contains(entry.name) ? entry.name : "default");
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

} // namespace dt::models
