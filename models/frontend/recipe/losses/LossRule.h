//===- LossRule.h - A kind of loss ------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A file of this folder defines `void add<File>(LossRules &)` and is found by
// the build: what a recipe may say of its losses, and what they compute.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_RECIPE_LOSSES_LOSSRULE_H
#define MODELS_FRONTEND_RECIPE_LOSSES_LOSSRULE_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir {
class Value;
} // namespace mlir

namespace dt::models {

class LossBuilder;

struct LossRule {
  llvm::StringRef kind;   ///< in recipes: "cross_entropy"
  llvm::StringRef value;  ///< key of the output that it is of
  llvm::StringRef target; ///< key, and usual name, of the raw input that the
                          ///< output is compared with; empty: there is none
  /// Makes the numerator of a part, an f32 scalar, and, unless the loss is
  /// itself a sum, the denominator (LossBuilder.h). Null with an error.
  mlir::Value (*build)(LossBuilder &, mlir::Value);
  /// Another key, a whole number, and its value where the recipe has none.
  llvm::StringRef setting = {};
  int64_t usual = 0;
  /// It adds rows up, and the keys "where" (a raw input with a number for each
  /// row) and "is" (which of them) may choose among them.
  bool choosesRows = false;

  /// All keys of an entry.
  std::vector<llvm::StringRef> getKeys() const;
};

using LossRules = std::vector<LossRule>;
/// Those of all files of this folder. Plugins add theirs
/// (tools/plugin/Plugin.h) before a recipe is read; of two of one kind
/// tools/plugin/Load.h makes an error.
LossRules &getLossRules();

} // namespace dt::models

#endif // MODELS_FRONTEND_RECIPE_LOSSES_LOSSRULE_H
