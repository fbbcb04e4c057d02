//===- PlanCluster.h - The devices that a plan is for -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_PLANCLUSTER_H
#define PASSES_STAGES_PLANCLUSTER_H

#include "dialects/dist/DistOps.h"
#include "passes/planner/hardware/Cluster.h"

namespace dt::stages {

/// The cluster that the plan names, or `cpu-2`: what cuts, tasks and messages
/// are priced on. A plan for more ranks than it has is one for a larger node of
/// its first kind. Emits an error if there is no such cluster.
mlir::FailureOr<planner::Cluster> openPlanCluster(mlir::ModuleOp program);

/// Emits an error if the cluster's first device has no rate for what the module
/// computes in.
mlir::LogicalResult checkRate(const planner::Cluster &cluster,
                              dist::ModuleOp module);

/// "bf16".
std::string getPrecisionName(dist::ModuleOp module);

} // namespace dt::stages

#endif // PASSES_STAGES_PLANCLUSTER_H
