//===- RecipeParser.h - The parts of a recipe, one by one -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Reads the sections of a recipe into a Recipe. The command line has no recipe
// but says losses and an optimizer in the same words (RecipeOptions.cpp), hence
// the static functions.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_RECIPE_RECIPEPARSER_H
#define MODELS_FRONTEND_RECIPE_RECIPEPARSER_H

#include "models/frontend/json/JsonReader.h"
#include "models/frontend/recipe/Recipe.h"

namespace dt::models {

/// Names become IR symbols and C identifiers, and a dot separates them from
/// what they hold.
bool isName(llvm::StringRef name);

/// Errors go to the reader that `top` is of.
class RecipeParser {
public:
  RecipeParser(JsonReader top, Recipe &recipe) : top(top), recipe(recipe) {}

  void parse();

  static void optimizer(JsonReader reader, OptimizerEntry &entry);
  static GroupEntry group(JsonReader reader);
  static RoutingEntry routing(JsonReader reader);
  /// Reads the pattern of an entry that has these keys; false, with an error:
  /// it is no object.
  static bool matched(JsonReader reader, llvm::ArrayRef<llvm::StringRef> keys,
                      std::string &match);
  static LossEntry loss(JsonReader reader, const Recipe *recipe);
  static void pattern(JsonReader reader, llvm::StringRef pattern);
  static std::vector<std::string> patterns(JsonReader reader);
  static void rule(JsonReader reader);
  static std::string precision(JsonReader reader);
  static bool isNarrow(JsonReader reader);

private:
  void items();
  void measures(const std::string &kind, JsonReader all);
  void boundTokens(JsonReader batch);
  void countSamples(JsonReader batch);
  void fillParts(JsonReader batch);
  void modules();
  void precisions();
  void stored(llvm::StringRef key, bool ModuleEntry::*narrow);
  std::vector<std::optional<JsonReader>>
  wordsOf(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> known);
  void dims();
  void connections();
  void ties();
  void losses();
  void rest();

  ModuleEntry module(const std::string &name, JsonReader reader);
  LoraEntry lora(JsonReader reader);
  DimBinding binding(JsonReader reader);
  static TensorName tensor(JsonReader reader, llvm::StringRef name,
                           const Recipe *recipe);

  JsonReader top;
  Recipe &recipe;
};

} // namespace dt::models

#endif // MODELS_FRONTEND_RECIPE_RECIPEPARSER_H
