//===- PlanJson.h - Plans as JSON values ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What readers of plan files and of plans in one line share.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_PLANJSON_H
#define PASSES_PLAN_PLANJSON_H

#include "models/frontend/json/JsonReader.h"
#include "passes/plan/PlanFile.h"

namespace dt::plan {

/// Errors begin with `path` and name the key.
llvm::Expected<PlanFile> parsePlan(const models::OrderedJson &json,
                                   llvm::StringRef path);
/// [3, 4, 5] or "3-5".
std::vector<int64_t> readRanks(const models::JsonReader &json);

} // namespace dt::plan

#endif // PASSES_PLAN_PLANJSON_H
