//===- DistMMPipe.cpp - Towers with a batch-sync --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Huang et al., DISTMM, NSDI 2024. A contrastive loss needs the embeddings of a
// whole group of microbatches (Problem::syncGroup) before any of them has a
// gradient. All forwards of a group run, then its batch-sync; while the
// pipeline drains into the barrier and fills again, forwards of the next group
// run, and after it backwards of one group and forwards of the next take turns.
// With one group, which is what a loss over the global batch means, that is
// GPipe with a sync in the middle.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dt::scheduler {

static llvm::Expected<Solution> solveDistMMPipe(const TaskGraph &graph,
                                                const SolveOptions &) {
  const Problem &problem = graph.getProblem();
  if (llvm::none_of(problem.stages,
                    [](const Stage &stage) { return stage.batchSync; }))
    return llvm::createStringError("distmm-pipe: expected a batch-sync stage");
  std::vector<int> depths = problem.getDepths();
  // Groups before the barrier, and what fills the way to it and back.
  return mergeLines(graph, [&](int place, int stage) {
    int ahead = problem.getGroupSize() + 2 * (depths[stage] - 1) +
                problem.units[problem.stages[stage].unit].getRunAhead();
    return makeOneFOneB(graph, place, std::min(problem.microbatches, ahead));
  });
}

void addDistMMPipe(Registry &registry) {
  registry.add(
      "distmm-pipe",
      "towers with a batch-sync; the next group's forwards fill its bubble",
      solveDistMMPipe, {.needsBatchSync = true});
}

} // namespace dt::scheduler
