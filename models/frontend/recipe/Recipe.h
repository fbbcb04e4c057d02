//===- Recipe.h - What a recipe says ----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A recipe (JSON; docs/recipe.md, docs/recipe.schema.json) names the ONNX files
// of a model, how they are connected, and how they are trained. Here it is read
// and checked as far as that is possible without the graphs; Program.h makes IR
// of it.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_RECIPE_RECIPE_H
#define MODELS_FRONTEND_RECIPE_RECIPE_H

#include "runtime/Optimizers.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace dt::rt::data {
struct Config;
}

namespace dt::models {

struct LossRule; // losses/LossRule.h

/// "module.tensor". Modules have no dot in their name, tensors may.
struct TensorName {
  std::string module, tensor;
};

/// Initial values of the parameters that match `pattern`.
struct InitEntry {
  std::string pattern, rule;
  bool replace = false; ///< also of those whose value is in the file
};

/// A number, or what the dim adds up: "image" or, of a measure,
/// "image.patches".
using DimBinding = std::variant<int64_t, std::string>;

/// Two thin products that train beside products of frozen weights.
struct LoraEntry {
  std::vector<std::string> patterns; ///< over names of weights
  int64_t rank = 0;
  double alpha = 0; ///< what they give counts alpha / rank times
};

struct ModuleEntry {
  std::string name;
  std::string onnx;      ///< relative to the recipe
  std::string role;      ///< "encoder", ...; empty: from its place in the graph
  std::string precision; ///< "bf16"; empty: f32
  bool narrowResidual = false;  ///< "residual": "bf16"
  bool narrowGradients = false; ///< "gradients": "bf16"
  bool split = false; ///< the graph may hold several modules, to be found
  std::optional<std::vector<std::string>>
      trainable; ///< patterns; absent: as the file says
  std::vector<std::string> freeze;
  std::optional<LoraEntry> lora;
  std::optional<double> capacity; ///< of experts; absent: no row is dropped
  bool choices = false;           ///< of experts are outputs
  std::vector<InitEntry> init;
  std::vector<std::pair<std::string, DimBinding>>
      dims; ///< those of this module only
};

struct ConnectionEntry {
  TensorName input, output;
  std::string gather; ///< index input by which the sender picks rows, or empty
};

struct ItemEntry {
  std::string name;
  int64_t max;
};

/// A number that items of a kind ("sample" too) have.
struct MeasureEntry {
  std::string kind, name;
  int64_t max;          ///< of one item
  int64_t part = 0;     ///< of a part; 0: what its items may have together
  int64_t multiple = 1; ///< that rows of a part are rounded up to
  std::string quantity() const { return kind + "." + name; }
};

struct LossEntry {
  std::string name;
  const LossRule *rule;
  TensorName value;   ///< logits, or the output that is compared
  std::string target; ///< labels or target: a raw input, plain or of the module
  int64_t setting = 0; ///< the rule's, see there
  std::string where;   ///< a raw input: only rows for which it `is`; empty: all
  int64_t is = 0;
  double weight = 1;
};

/// Parameters that the optimizer treats in a way of their own.
struct GroupEntry {
  std::string match; ///< pattern over "module.parameter"
  double lrFactor = 1;
  std::optional<double> weightDecay; ///< without it the optimizer's
};

/// Biases of routers that follow from how often experts were chosen.
struct RoutingEntry {
  std::string match; ///< pattern over "module.parameter"
  double rate = 1e-3;
};

struct OptimizerEntry {
  rt::OptimizerKind kind{}; ///< the first
  /// What is said of the kind's own, by name (runtime/Optimizers.h).
  std::vector<std::pair<std::string, double>> settings;
  double lr = 1e-3, weightDecay = 0, clip = 0;
  std::vector<std::string> noDecay; ///< patterns over "module.parameter"
  /// The same: what an optimizer of matrices updates by element.
  std::vector<std::string> byElement;
  std::vector<GroupEntry> groups; ///< the first that matches counts
  std::vector<RoutingEntry> routing;
  int64_t warmup = 0, totalSteps = 0;
  rt::ScheduleKind schedule = rt::ScheduleKind::Constant;
  double decayFrom = 0, finalFraction = 0;
  double averageDecay = 0; ///< of the recipe's `ema`; 0: none
};

struct Recipe {
  std::string path;      ///< for messages
  std::string directory; ///< that files are relative to
  std::vector<ModuleEntry> modules;
  std::vector<ConnectionEntry> connections;
  std::vector<ItemEntry> items;
  std::vector<MeasureEntry> measures;
  std::vector<std::pair<std::string, DimBinding>> dims;
  std::vector<std::pair<TensorName, TensorName>> tie; ///< alias, parameter
  std::vector<LossEntry> losses;
  OptimizerEntry optimizer;
  std::string batchNorm; ///< "local", or empty: training form is an error if
                         ///< the batch is cut
  int64_t globalBatch = 1, microBatch = 1;
  int64_t parts = 0;      ///< of a step of as many samples as fit, at most
                          ///< globalBatch; 0: it is globalBatch samples
  int64_t partTokens = 0; ///< most of such a part
  bool openMicro = false; ///< a plan may say microBatch; until then it is all
  int64_t seed = 0;
  nlohmann::json data,
      inputs; ///< null when absent; docs/data-recipe.md. Vocabularies are
              ///< lists.
  std::shared_ptr<const rt::data::Config>
      config; ///< `data` and what goes with it, as the runtime reads it; null
              ///< without
};

/// Reads and checks a recipe. The error is one line that begins with the file
/// and the key ("recipe.json: losses[0].kind: ...").
llvm::Expected<Recipe> readRecipe(llvm::StringRef path);
/// The same from text; `path` is for messages and relative files.
llvm::Expected<Recipe> parseRecipe(llvm::StringRef text, llvm::StringRef path);

/// "adamw (betas 0.9: …, eps 1e-08: …); sgd (…)": the optimizers and what each
/// has of its own, with initial values, for help.
std::string listOptimizers();

/// "cross_entropy:logits" or "mse:output:target" as on the command line.
llvm::Expected<LossEntry> parseLossOption(llvm::StringRef text,
                                          llvm::StringRef module);
/// "adamw:lr=1e-3,weight_decay=0.1" as on the command line; keys as in a
/// recipe.
llvm::Expected<OptimizerEntry> parseOptimizerOption(llvm::StringRef text);
/// "normal(0, 0.02)" or "pattern:rule" as on the command line.
llvm::Expected<InitEntry> parseInitOption(llvm::StringRef text);
/// "bf16" as on the command line; as in ModuleEntry.
llvm::Expected<std::string> parsePrecisionOption(llvm::StringRef text);
/// "bf16" or "f32", of that module, for the option `name`; as in ModuleEntry.
llvm::Expected<bool> parseStoredOption(llvm::StringRef name,
                                       llvm::StringRef text,
                                       const ModuleEntry &module);
/// Patterns as on the command line, one an option.
llvm::Expected<std::vector<std::string>>
parseTrainableOption(llvm::ArrayRef<std::string> patterns);
/// "batch=sample,seq=40" as on the command line.
llvm::Expected<std::vector<std::pair<std::string, DimBinding>>>
parseDimsOption(llvm::StringRef text);

} // namespace dt::models

#endif // MODELS_FRONTEND_RECIPE_RECIPE_H
