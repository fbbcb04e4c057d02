//===- Passes.h - Passes that make a program for many ranks -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PARALLEL_PASSES_H
#define PASSES_PARALLEL_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "dialects/sched/SchedOps.h"

#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Pass/Pass.h"

namespace dt::parallel {

#define GEN_PASS_DECL
#include "passes/parallel/Passes.h.inc"

// Discardable attributes between dist-apply-plan and dist-cut-stages, on
// dist.module.
/// Pipeline stages, and virtual stages of each of their ranks (integers).
inline constexpr llvm::StringLiteral kPpAttr = "dist.pp";
inline constexpr llvm::StringLiteral kVppAttr = "dist.vpp";
/// Names of pieces, an array for every stage.
inline constexpr llvm::StringLiteral kStagesAttr = "dist.stages";
/// Ranks of (pp, dp, tp) at (pp * DP + dp) * TP + tp.
inline constexpr llvm::StringLiteral kUnitRanksAttr = "dist.unit_ranks";

// Obeyed later.
/// dist.module (integer): microbatches that its forwards run ahead.
inline constexpr llvm::StringLiteral kRunAheadAttr = "dist.run_ahead";
/// dist.edge (integer): as `depth` of dist.plan, of this edge.
inline constexpr llvm::StringLiteral kDepthAttr = "dist.depth";
/// On nn.dim: predicted ns of forward and backward of one of its items.
inline constexpr llvm::StringLiteral kCostAttr = "dist.cost";
/// dist.edge (string): how rows find their replica, one of the four.
inline constexpr llvm::StringLiteral kBrokerAttr = "dist.broker";
inline constexpr llvm::StringLiteral kBrokerCopy = "copy";
inline constexpr llvm::StringLiteral kBrokerDirect = "direct";
inline constexpr llvm::StringLiteral kBrokerItems = "items";
inline constexpr llvm::StringLiteral kBrokerAll = "all";
/// dist.plan (array of i64): bytes of every rank.
inline constexpr llvm::StringLiteral kMemoryAttr = "dist.memory";
/// dist.plan (strings): the plan file that a policy chose, and what is to be
/// told of it.
inline constexpr llvm::StringLiteral kPlanFileAttr = "dist.plan_file";
inline constexpr llvm::StringLiteral kExplanationAttr = "dist.explanation";
inline constexpr llvm::StringLiteral kPlanPageAttr = "dist.plan_page";

/// What dist-choose-brokers writes on an edge between the two.
llvm::StringRef chooseBroker(dist::ModuleOp from, dist::ModuleOp to);

} // namespace dt::parallel

#endif // PASSES_PARALLEL_PASSES_H
