//===- CutExperts.h - Rows that stand with their experts --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Expert parallelism (docs/experts.md): on an axis with `experts`, each rank
// has its experts and, of all rows in the order of experts, those of its own.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_CUTEXPERTS_H
#define PASSES_SHARD_CUTEXPERTS_H

#include "passes/shard/ShardProblem.h"

namespace dt::shard {

/// Rules of steps, null where there is none.
using StepRules = llvm::ArrayRef<const nn::ShardingRule *>;

/// Whether an op works on rows in the order of experts by its own rule.
bool isRouted(const nn::ShardingRule &rule);

/// Gives variables with such rows, and those that say where they are, a cut
/// that is `routed`; also what ops that treat rows alone make of them.
void addRoutedCuts(ShardProblem &program, StepRules rules, const Axis &axis);

/// How a rank runs an op that `isRouted` on the rows of its experts.
std::optional<Strategy> runRouted(const ShardProblem &program, const Step &step,
                                  const nn::ShardingRule &rule,
                                  const Axis &axis);
/// The same of an op that treats rows alone; nothing if it does not, or has
/// other rows.
std::optional<Strategy> runAlongRows(const ShardProblem &program,
                                     const Step &step,
                                     const nn::ShardingRule &rule);

/// An error where a module asks for experts of each rank and cannot have them.
mlir::LogicalResult checkExperts(dist::ModuleOp module);

} // namespace dt::shard

#endif // PASSES_SHARD_CUTEXPERTS_H
