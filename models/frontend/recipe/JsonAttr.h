//===- JsonAttr.h - JSON as attributes, and the data sections -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The IR carries the recipe's data sections as dictionary attributes: objects
// are dictionaries, lists arrays, whole numbers i64, other numbers f64, null is
// unit. Nothing is lost but the order of keys.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_RECIPE_JSONATTR_H
#define MODELS_FRONTEND_RECIPE_JSONATTR_H

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinOps.h"

#include <nlohmann/json.hpp>

namespace dt::models {

/// Null for what attributes cannot hold: empty keys, numbers beyond i64, more
/// than 64 levels.
mlir::Attribute jsonToAttr(mlir::MLIRContext *context,
                           const nlohmann::json &json, unsigned depth = 0);
/// Inverse; attributes of other kinds become their text.
nlohmann::json attrToJson(mlir::Attribute attribute);

/// A program's data.json: `items`, `dims`, `data`, `inputs`, `batch`, `seed` as
/// in a recipe, from the dist ops of `program`.
nlohmann::json getDataSections(mlir::ModuleOp program);

} // namespace dt::models

#endif // MODELS_FRONTEND_RECIPE_JSONATTR_H
