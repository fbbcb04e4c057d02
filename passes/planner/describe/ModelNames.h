//===- ModelNames.h - What a model's JSON calls things ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Names in the order of the enumerations of Model.h, for reader and writer
// (docs/plan-model.schema.json).
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_DESCRIBE_MODELNAMES_H
#define PASSES_PLANNER_DESCRIBE_MODELNAMES_H

#include "passes/planner/describe/Model.h"

namespace dt::planner {

inline constexpr llvm::StringRef kKinds[] = {"gemm", "attention", "convolution",
                                             "stream"};
inline constexpr llvm::StringRef kSplits[] = {"whole", "columns", "depth",
                                              "heads", "sequence"};

} // namespace dt::planner

#endif // PASSES_PLANNER_DESCRIBE_MODELNAMES_H
