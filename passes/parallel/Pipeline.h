//===- Pipeline.h - Where the parallel passes stand -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Not a phase of its own: a plan must be known before modules are cut at
// contrastive heads, stages are cut when layers are calls, and a schedule is
// made when shapes are those of one rank.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PARALLEL_PIPELINE_H
#define PASSES_PARALLEL_PIPELINE_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir {
class OpPassManager;
}

namespace dt {

/// What to plan for; see dist-plan.
struct PlanRequest {
  std::string cluster, policy = "joint", data, profile;
  int64_t devices = 0;
  bool explain = false;
};
/// In the place of buildApplyPlan: a policy's plan.
void buildPlan(mlir::OpPassManager &pm, const PlanRequest &request);
/// Before the modules phase: a plan file, or if `plan` holds a '=' a plan in
/// one line.
void buildApplyPlan(mlir::OpPassManager &pm, llvm::StringRef plan);
/// After outlining, before differentiation; nothing happens to modules without
/// a plan.
void buildCutStages(mlir::OpPassManager &pm);
/// Right before the shard phase.
void buildAgreeTies(mlir::OpPassManager &pm);
/// After optimization, before lowering.
void buildStepSchedule(mlir::OpPassManager &pm);

void registerParallelPasses();

} // namespace dt

#endif // PASSES_PARALLEL_PIPELINE_H
