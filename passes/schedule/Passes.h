//===- Passes.h - Passes of the schedule phase ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_PASSES_H
#define PASSES_SCHEDULE_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "dialects/sched/SchedOps.h"
#include "passes/Pipeline.h"

#include "mlir/Pass/Pass.h"

namespace dt::schedule {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/schedule/Passes.h.inc"
#include "passes/schedule/Pipelines.h.inc"

/// What dist-choose-brokers writes on an edge between the two.
dist::Broker chooseBroker(dist::ModuleOp from, dist::ModuleOp to);

} // namespace dt::schedule

#endif // PASSES_SCHEDULE_PASSES_H
