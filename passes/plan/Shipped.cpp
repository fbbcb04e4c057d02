//===- Shipped.cpp - Models that come with the planner --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/Shipped.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace dt::plan {

namespace {

struct ShippedModel {
  StringLiteral name, json;
};

// Made by CMake of passes/plan/models/*.json.
constexpr ShippedModel kModels[] = {
#include "passes/plan/ShippedModels.inc"
};

Expected<Model> openPart(StringRef name) {
  for (const ShippedModel &model : kModels)
    if (name == (model.name + ".json").str())
      return parseModel(model.json, name);
  return createStringError(inconvertibleErrorCode(),
                           "'" + name + "' does not come with the planner");
}

} // namespace

std::vector<std::string> getShippedModels() {
  std::vector<std::string> names;
  for (const ShippedModel &model : kModels)
    names.push_back(model.name.str());
  return names;
}

Expected<Model> openModel(StringRef name) {
  if (name.ends_with(".json"))
    return readModel(name);
  for (const ShippedModel &model : kModels)
    if (model.name == name)
      return parseModel(model.json, (name + ".json").str(), openPart);
  return createStringError(inconvertibleErrorCode(),
                           "'" + name + "' is not one of " +
                               join(getShippedModels(), ", ") +
                               ", nor a .json file");
}

} // namespace dt::plan
