//===- DistMarks.h - Attributes that passes leave for later -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_DISTMARKS_H
#define DIALECTS_DIST_DISTMARKS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace dt::dist {

class ModuleOp;

// Graphs divide by max(count, 1) or count + 1e-8. The count is summed over all
// parts, so the guard must be applied to the sum, once: it is written on the
// loss (dist.loss, then rt.loss), not into the denominator's function. Numbers
// (f64): the term is numerators / (max(denominators, at_least) + plus).
inline constexpr llvm::StringLiteral kAtLeastAttr = "dist.at_least";
inline constexpr llvm::StringLiteral kPlusAttr = "dist.plus";

/// On a result of @forward in a batch that is cut: rows of parts put together
/// are not those of the whole, so --save-outputs leaves it out.
inline constexpr llvm::StringLiteral kUnjoinedAttr = "dist.unjoined";

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
/// dist.module (integer): microbatches that a task works on at once; 1 without
/// it.
inline constexpr llvm::StringLiteral kSpanAttr = "dist.span";
int64_t getSpan(ModuleOp module);
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
/// dist.module: what its tasks take and keep, "stages" (an array of i64 for
/// every stage of its unit: planner::StageTimes) and "from" (string). dist.edge
/// (integer): ns of a message. dist.plan (string): whose devices run what has
/// no times.
inline constexpr llvm::StringLiteral kTimesAttr = "dist.times";
inline constexpr llvm::StringLiteral kMessageAttr = "dist.message";
inline constexpr llvm::StringLiteral kClusterAttr = "dist.cluster";
/// dist.plan (array of i64): bytes of every rank.
inline constexpr llvm::StringLiteral kMemoryAttr = "dist.memory";
/// dist.plan (strings): the plan file that a policy chose, and what is to be
/// told of it.
inline constexpr llvm::StringLiteral kPlanFileAttr = "dist.plan_file";
inline constexpr llvm::StringLiteral kExplanationAttr = "dist.explanation";
inline constexpr llvm::StringLiteral kPlanPageAttr = "dist.plan_page";

} // namespace dt::dist

#endif // DIALECTS_DIST_DISTMARKS_H
