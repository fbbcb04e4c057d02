//===- CutExperts.h - Rows that stand with their experts --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// docs/expert-parallelism.md. On an axis with `experts`, each rank has its
// experts and, of all rows in the order of experts, those of its own:
// Cut::ofExperts. Chunk 0: in a dim of the whole's size. Where a capacity
// bounds them, chunk is how many there may be, for each 1 of the dim's symbol.
// Where they end: Cut::ends, chunk is the rank's experts.
//
// On a context axis without, each rank routes its own tokens to all experts:
// Cut::ofTokens, chunk is the rows of a block of tokens; where they end: 0.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_CUTEXPERTS_H
#define PASSES_SHARD_CUTEXPERTS_H

#include "passes/shard/Cuts.h"

namespace dt::shard {

/// Rules of steps, null where there is none.
using StepRules = llvm::ArrayRef<const nn::ShardingRule *>;

/// Whether an op works on rows in the order of experts by its own rule.
bool isRouted(const nn::ShardingRule &rule);

/// Rows that an op has of a rank's experts at the most; nothing where no
/// capacity says so.
std::optional<nn::DimExpr> getLocalRoom(mlir::Operation *op, const Axis &axis);
/// Whether that is less than all rows, so that a rank has no room for more.
bool takesLess(mlir::Operation *op, const nn::ShardingRule &rule,
               const Axis &axis);

/// Gives variables with such rows, and those that say where they are, a cut
/// that is `routed`; also what ops that treat rows alone make of them.
void addRoutedCuts(ShardProblem &program, StepRules rules, const Axis &axis);

/// How a rank runs an op that `isRouted` on the rows of its experts.
std::optional<Strategy> runRouted(const ShardProblem &program, const Step &step,
                                  const nn::ShardingRule &rule,
                                  const Axis &axis);
/// Gives the same variables a cut by the rank's tokens, where all steps can
/// work so: what is routed comes cut along tokens, and nothing needs the rows
/// of all.
void addTokenRows(ShardProblem &program, StepRules rules, const Axis &axis,
                  CutConstraints &info);
/// How a rank runs an op that `isRouted` on its tokens; nothing where there is
/// no such cut.
std::optional<Strategy> runOnTokens(const ShardProblem &program,
                                    const Step &step,
                                    const nn::ShardingRule &rule,
                                    const Axis &axis);
/// Either, of an op that treats rows alone; nothing if it does not, or has
/// other rows.
std::optional<Strategy> runAlongRows(const ShardProblem &program,
                                     const Step &step,
                                     const nn::ShardingRule &rule,
                                     const Axis &axis);

/// Whether the ranks that share tokens share out experts too.
bool sharesOverTokens(dist::ModuleOp module);
/// An error where a module asks for experts of each rank and cannot have them.
mlir::LogicalResult checkExperts(dist::ModuleOp module);

} // namespace dt::shard

#endif // PASSES_SHARD_CUTEXPERTS_H
