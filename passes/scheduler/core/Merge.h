//===- Merge.h - Ranks that do the same as one ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_CORE_MERGE_H
#define PASSES_SCHEDULER_CORE_MERGE_H

#include "passes/scheduler/core/Problem.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace dt::scheduler {

/// A problem in which ranks of the same stages are one rank, and replicas on
/// the same ranks one replica. What is found for it holds for all of them: its
/// timeline orders the tasks of every rank, and every dependence of the whole
/// problem is one of it.
struct MergedProblem {
  Problem problem;
  std::vector<int> rankOf; ///< by rank of the whole problem; -1: without work

  /// The order of tasks for every rank of the whole problem.
  Solution expand(const Problem &whole, const Solution &merged) const;
};

/// Tables must have one value, and messages are of all microbatches. Ranks are
/// numbered by their first stage. Where replicas of a stage would overlap
/// nothing is merged.
MergedProblem mergeAlike(const Problem &whole);

/// A schedule's order of tasks for the whole problem, which has passed check(),
/// found on the merged one: where several are as good, all who ask here get the
/// same. Without messages.
llvm::Expected<Solution>
solveMerged(const Problem &whole, llvm::StringRef schedule, int64_t effort = 0);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_CORE_MERGE_H
