//===- TargetSpec.h - The hardware as attributes ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The cluster that a plan is made for, as MLIR's DLTI dialect has it: one
// #dlti.target_device_spec for each kind of node, so that any pass may ask.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_TARGETSPEC_H
#define PASSES_PLAN_TARGETSPEC_H

#include "passes/planner/hardware/Cluster.h"

#include "mlir/IR/BuiltinOps.h"

namespace dt::plan {

/// Sets `dlti.target_system_spec` of the program: for each kind of node its
/// device, how many there are, peaks by precision ("flops.bf16"), memory,
/// bandwidths and latencies; seconds, bytes, FLOPs.
void setTargetSpec(mlir::ModuleOp program, const planner::Cluster &cluster);

} // namespace dt::plan

#endif // PASSES_PLAN_TARGETSPEC_H
