//===- Weights.cpp - What a recipe says of a module's weights ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Program.h"

#include "dialects/nn/NNOps.h"
#include "models/frontend/import/Pattern.h"
#include "runtime/base/Error.h"
#include "runtime/state/Init.h"

using namespace mlir;
using llvm::Twine;

namespace dt::models {

using Locate = llvm::function_ref<Location(const Twine &)>;

static LogicalResult freeze(dist::ModuleOp module, const ModuleEntry &entry,
                            Locate locate) {
  for (auto [i, pattern] : llvm::enumerate(entry.freeze)) {
    bool found = false;
    for (auto parameter : module.getOps<nn::ParameterOp>()) {
      if (!matchesPattern(pattern, parameter.getSymName()))
        continue;
      found = true;
      parameter.setTrainable(false);
    }
    if (!found)
      return emitError(
                 locate("modules." + entry.name + ".freeze[" + Twine(i) + "]"))
             << "no parameter of '" << entry.onnx << "' matches '" << pattern
             << "'"
             << (StringRef(pattern).starts_with(entry.name + ".")
                     ? "; patterns here have no '" + entry.name + ".' in front"
                     : std::string());
  }
  return success();
}

static LogicalResult checkRule(nn::ParameterOp parameter, const InitEntry &init,
                               llvm::function_ref<Location()> locate) {
  try {
    rt::checkInitRule(
        init.rule, cast<RankedTensorType>(parameter.getType()).getShape().vec(),
        parameter.getSymName().str());
  } catch (const rt::Error &error) {
    return emitError(locate()) << error.what();
  }
  return success();
}

/// Why a weight has no value in the file.
static std::string reasonOf(StringRef weight, ArrayRef<AbsentFile> absent) {
  for (const AbsentFile &file : absent)
    if (llvm::is_contained(file.weights, weight))
      return "'" + file.path + "' " +
             (file.meant ? "was left out when it was exported"
                         : "does not exist");
  return "";
}

static void reportDrawn(const ModuleEntry &entry, ArrayRef<AbsentFile> absent,
                        Locate locate) {
  for (const AbsentFile &file : absent) {
    Location loc = locate("modules." + entry.name);
    InFlightDiagnostic said = file.meant ? emitRemark(loc) : emitWarning(loc);
    said << "'" << entry.onnx << "' has no values for " << file.listed() << ": "
         << reasonOf(file.weights[0], absent)
         << "; they begin as the rules of init draw them";
  }
}

static LogicalResult initialise(dist::ModuleOp module, const ModuleEntry &entry,
                                ArrayRef<AbsentFile> absent, Locate locate) {
  MLIRContext *context = module.getContext();
  std::vector<bool> used(entry.init.size()), applies(entry.init.size());
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto missing = dyn_cast<nn::InitAttr>(parameter.getSource());
    auto inFile = dyn_cast<nn::OnnxAttr>(parameter.getSource());
    const InitEntry *rule = nullptr;
    for (auto [i, init] : llvm::enumerate(entry.init)) {
      if (!matchesPattern(init.pattern, parameter.getSymName()))
        continue;
      used[i] = true;
      if (!rule && (missing || init.replace))
        rule = &init;
    }
    if (missing && !rule)
      return emitError(locate("modules." + entry.name + ".init"))
             << "'" << entry.onnx << "' has no value for '"
             << parameter.getSymName() << "' and no rule gives one: "
             << reasonOf(parameter.getSymName(), absent);
    if (!rule)
      continue;
    applies[size_t(rule - entry.init.data())] = true;
    if (failed(checkRule(parameter, *rule, [&] {
          return locate("modules." + entry.name + ".init[" +
                        Twine(rule - entry.init.data()) + "]");
        })))
      return failure();
    parameter.setSourceAttr(nn::InitAttr::get(
        context, rule->rule, missing ? missing.getFile() : inFile.getFile(),
        missing ? missing.getInitializer() : inFile.getInitializer()));
  }
  for (auto [i, init] : llvm::enumerate(entry.init))
    if (!used[i])
      return emitError(
                 locate("modules." + entry.name + ".init[" + Twine(i) + "]"))
             << "no parameter of '" << entry.onnx << "' matches '"
             << init.pattern << "'";
  for (auto [i, init] : llvm::enumerate(entry.init))
    if (!applies[i])
      emitWarning(locate("modules." + entry.name + ".init[" + Twine(i) + "]"))
          << "does nothing: what '" << init.pattern
          << "' matches has a value in the file (\"replace\": true takes the "
             "rule nevertheless) or an earlier rule";
  reportDrawn(entry, absent, locate);
  return success();
}

LogicalResult setWeights(dist::ModuleOp module, const ModuleEntry &entry,
                         ArrayRef<AbsentFile> absent, Locate locate) {
  if (failed(freeze(module, entry, locate)))
    return failure();
  return initialise(module, entry, absent, locate);
}

} // namespace dt::models
