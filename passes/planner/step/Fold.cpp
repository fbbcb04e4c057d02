//===- Fold.cpp - One replica for all that do the same --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Schedules are found on the folded problem, which has one replica where the
// plan has hundreds, and then given to all of them. That never blocks: a task's
// start in the folded timeline orders the tasks of all replicas, and every
// dependence of the whole problem is one of the folded problem too.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/StepBuilder.h"

namespace dt::planner {

Solution StepBuilder::expand(const Problem &problem, const StepBuilder &folded,
                             const Solution &solution) const {
  // Which replica of a stage a rank runs, and whose list it takes.
  std::vector<std::vector<std::pair<int, int>>> replicas(ranks);
  std::vector<int> source(ranks, -1);
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageInfo &info = stages[s];
    for (int64_t r = 0; r < classes[info.unit]; ++r)
      for (int rank : problem.stages[s].replicas[r]) {
        replicas[rank].emplace_back(int(s), int(r));
        source[rank] =
            shared ? int(rank / folded.shrink)
                   : folded.ranksOf(info, folded.classOf(info.unit, r))[0];
      }
  }
  Solution result;
  result.ranks.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    if (source[rank] < 0)
      continue;
    result.ranks[rank] = solution.ranks[source[rank]];
    for (Task &task : result.ranks[rank])
      for (auto [stage, replica] : replicas[rank])
        if (stage == task.stage)
          task.replica = replica;
  }
  return result;
}

} // namespace dt::planner
