//===- RecipeBatch.cpp - What a step of a recipe has ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A number of samples, or as many as fit into parts (docs/sizes.md).
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/RecipeParser.h"
#include "runtime/data/Assignment.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace dt::models {

static constexpr int64_t kMostSamples = int64_t(1) << 31;

/// A part holds any one sample.
void RecipeParser::boundTokens(JsonReader batch) {
  auto *measure = find_if(recipe.measures, [](const MeasureEntry &entry) {
                    return entry.quantity() == rt::kSampleTokens;
                  }).operator->();
  JsonReader reader = batch.at("tokens");
  if (measure == recipe.measures.data() + recipe.measures.size())
    return reader.fail("bounds the tokens of a part, but samples have no "
                       "measure of that name; expected "
                       "items.sample.measures.tokens");
  if (measure->part)
    return reader.fail("items.sample.measures.tokens.part bounds them, too; "
                       "expected one of both");
  measure->part = reader.integer(measure->max);
}

/// A step of a number of samples.
void RecipeParser::countSamples(JsonReader batch) {
  recipe.globalBatch = batch.at("global").integer(1);
  for (StringRef key : {"parts", "samples"})
    if (batch.has(key))
      batch.at(key).fail("bounds steps of as many samples as fit, which have "
                         "batch.tokens and no batch.global");
  if (batch.has("tokens"))
    boundTokens(batch);
  recipe.microBatch =
      batch.has("micro") ? batch.at("micro").integer(1) : recipe.globalBatch;
  if (top.ok() && recipe.microBatch > recipe.globalBatch)
    batch.at("micro").fail("expected at most batch.global");
  // Statistics of a microbatch are no matter of its plan.
  recipe.openMicro =
      !batch.has("micro") && recipe.globalBatch > 1 && recipe.batchNorm.empty();
}

/// A step of as many samples as fit into its parts.
void RecipeParser::fillParts(JsonReader batch) {
  if (batch.has("micro"))
    return batch.at("micro").fail("a microbatch of such a step is one part a "
                                  "replica; expected parts, or batch.global");
  boundTokens(batch);
  recipe.partTokens = batch.at("tokens").integer(1);
  recipe.parts = batch.has("parts") ? batch.at("parts").integer(1) : 1;
  int64_t samples =
      batch.has("samples") ? batch.at("samples").integer(1) : recipe.partTokens;
  if (!top.ok())
    return;
  if (samples > kMostSamples / recipe.parts)
    return batch.fail("parts may have more than 2^31 samples together; "
                      "expected fewer parts, or samples");
  recipe.globalBatch = recipe.parts * samples;
  // Until a plan has replicas.
  recipe.microBatch = recipe.batchNorm.empty() ? samples : recipe.globalBatch;
  recipe.openMicro = recipe.parts > 1 && recipe.batchNorm.empty();
}

} // namespace dt::models
