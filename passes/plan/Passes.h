//===- Passes.h - Passes that choose and obey a plan  -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_PASSES_H
#define PASSES_PLAN_PASSES_H

#include "dialects/dist/DistMarks.h"
#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Pass/Pass.h"

namespace dt::plan {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/plan/Passes.h.inc"

} // namespace dt::plan

#endif // PASSES_PLAN_PASSES_H
