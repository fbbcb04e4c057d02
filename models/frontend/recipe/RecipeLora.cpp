//===- RecipeLora.cpp - Reading what a recipe says of adapters --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/RecipeParser.h"

#include <cmath>

using namespace llvm;

namespace dt::models {

LoraEntry RecipeParser::lora(JsonReader reader) {
  static const StringRef kKeys[] = {"pattern", "rank", "alpha"};
  reader.keys(kKeys);
  LoraEntry entry;
  entry.patterns = patterns(reader.at("pattern"));
  if (entry.patterns.empty() && reader.ok())
    reader.at("pattern").fail("expected at least one pattern");
  entry.rank = reader.at("rank").integer(1);
  entry.alpha = double(entry.rank);
  reader.read("alpha", entry.alpha);
  if (reader.ok() && !(entry.alpha > 0 && std::isfinite(entry.alpha)))
    reader.at("alpha").fail("expected a number above 0");
  return entry;
}

} // namespace dt::models
