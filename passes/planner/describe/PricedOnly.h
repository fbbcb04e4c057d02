//===- PricedOnly.h - Plan files of what cannot be executed -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_DESCRIBE_PRICEDONLY_H
#define PASSES_PLANNER_DESCRIBE_PRICEDONLY_H

#include "models/frontend/json/JsonReader.h"

namespace dt::planner {

/// In `predicted` of a plan file: why the plan is priced only.
inline constexpr llvm::StringLiteral kNotExecutable = "not_executable";

/// For who reads such a file: fails if it is one.
inline void refusePriced(const models::JsonReader &file) {
  if (file.has("predicted") && file.at("predicted").has(kNotExecutable))
    file.at("predicted")
        .fail("this plan is priced only: " +
              file.at("predicted").at(kNotExecutable).string());
}

} // namespace dt::planner

#endif // PASSES_PLANNER_DESCRIBE_PRICEDONLY_H
