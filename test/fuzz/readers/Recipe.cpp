//===- Recipe.cpp - fuzz target of recipes ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Two readers share the format: the compiler's, and the runtime's of the data
// sections, which reads data.json. What the compiler accepts, the runtime must.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Recipe.h"
#include "models/frontend/recipe/losses/LossRule.h"
#include "runtime/data/Config.h"
#include "test/fuzz/readers/Refusal.h"

using namespace dt;

/// The compiler's own make IR, which this target does not link: one of each
/// form.
models::LossRules &models::getLossRules() {
  static LossRules rules = {
      {"cross_entropy", "logits", "labels", nullptr, "ignore_index", -100},
      {"mse", "output", "target", nullptr},
      {"graph_output", "output", "", nullptr}};
  return rules;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto recipe =
      fuzz::accepted(models::parseRecipe(text, fuzz::folder() + "/r.json"));
  if (recipe)
    fuzz::expect(recipe->microBatch >= 1 &&
                     recipe->microBatch <= recipe->globalBatch &&
                     !recipe->modules.empty() && !recipe->losses.empty(),
                 "a recipe without a module, loss or batch");
  std::string path = fuzz::writeInput("data.json", data, size);
  bool runs = fuzz::accepts([&] { rt::data::Config::load(path); });
  fuzz::expect(runs || !recipe || recipe->data.is_null(),
               "the runtime refuses what the compiler accepts");
  return 0;
}
