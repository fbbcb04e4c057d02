//===- Nested.cpp - Colocated modules inside the backbone's bubbles -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The module with the most work runs 1F1B; tasks of the others that share its
// ranks (encoder, generator) start when it has nothing to do, as in Optimus
// (Feng et al., ATC 2025) and BigMac. How far ahead the others run, or that
// they keep step with it, and how tight a gap may be is tried out; the best
// that fits into memory is taken. What a task can fill is decided by the size
// of stages: small ones (one layer of one sub-microbatch) fill more.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Greedy.h"
#include "passes/scheduler/search/Lines.h"

#include <algorithm>

namespace dt::scheduler {

static llvm::Expected<Solution> solveNested(const TaskGraph &graph,
                                            const SolveOptions &options) {
  const Problem &problem = graph.getProblem();
  int backbone = findLargestUnit(graph), n = problem.microbatches;
  std::vector<int> inFlight = getInFlight(problem);
  std::optional<Solution> best;
  Time bestTime = 0;
  int64_t placed = 0;
  for (int patience : {8, 0, 16, 4, 12})
    for (auto [ahead, inStep] :
         {std::pair(0, false), std::pair(n, false), std::pair(2, false),
          std::pair(n, true), std::pair(1, false), std::pair(4, false)}) {
      if (best && options.effort && placed >= options.effort)
        return std::move(*best);
      placed += graph.getNumNodes();
      GreedyRules rules;
      rules.split = false;
      rules.inStep = inStep;
      rules.patience = patience;
      for (int place = 0; place < graph.getNumPlaces(); ++place) {
        int stage = graph.getPlaceInfo(place).stage;
        bool main = problem.stages[stage].unit == backbone;
        rules.filler.push_back(!main && !problem.stages[stage].batchSync);
        rules.inFlight.push_back(
            problem.stages[stage].batchSync
                ? n + 1
                : std::min(n, inFlight[stage] + (main ? 0 : ahead)));
      }
      std::optional<Solution> solution =
          runGreedy(graph, problem.memory, rules);
      if (!solution)
        continue;
      auto timeline = evaluate(graph, *solution);
      if (!timeline)
        return timeline.takeError();
      Time time = options.objective == Objective::Wall ? timeline->wall
                                                       : timeline->longestSpan;
      if (!best || time < bestTime) {
        best = std::move(solution);
        bestTime = time;
      }
    }
  if (!best)
    return llvm::createStringError("nested: no order of tasks fits into the "
                                   "bytes of activations that ranks may hold");
  return std::move(*best);
}

void addNested(Registry &registry) {
  registry.add("nested",
               "colocated modules inside the bubbles of the largest one",
               solveNested,
               {.sharesRanks = true, .order = OrderOf::Times, .planned = true});
}

} // namespace dt::scheduler
