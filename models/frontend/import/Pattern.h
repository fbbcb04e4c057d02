//===- Pattern.h - Patterns over names --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_IMPORT_PATTERN_H
#define MODELS_FRONTEND_IMPORT_PATTERN_H

#include "llvm/ADT/StringRef.h"

namespace dt::models {

/// Of the alternatives that braces in a pattern stand for.
inline constexpr size_t kMostSubPatterns = 1024;

/// Whether a pattern of a recipe (freeze, trainable, groups, …) covers the
/// name; a pattern that is none covers nothing.
bool matchesPattern(llvm::StringRef pattern, llvm::StringRef name);

} // namespace dt::models

#endif // MODELS_FRONTEND_IMPORT_PATTERN_H
