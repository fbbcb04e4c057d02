//===- Shipped.h - Models that come with the planner ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Full-size networks as the compiler partitions, differentiates and fuses
// them, described at several sizes (Sizes.h): `tools/plan-models` makes them of
// exported graphs, passes/plan/models has them. They are compiled in, so that a
// name is enough wherever the program runs.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_SHIPPED_H
#define PASSES_PLAN_SHIPPED_H

#include "passes/plan/Model.h"

namespace dt::plan {

/// DistTrain's "mllm-9b", "mllm-15b", "mllm-72b" and their parts, in order.
std::vector<std::string> getShippedModels();

/// A shipped model by its name, or a file (docs/plan-model.schema.json) if it
/// ends in ".json". Error: neither, or what is wrong with the file.
llvm::Expected<Model> openModel(llvm::StringRef nameOrFile);

} // namespace dt::plan

#endif // PASSES_PLAN_SHIPPED_H
