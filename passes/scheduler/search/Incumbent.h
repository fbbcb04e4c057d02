//===- Incumbent.h - The best order of a search -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_SEARCH_INCUMBENT_H
#define PASSES_SCHEDULER_SEARCH_INCUMBENT_H

#include "passes/scheduler/search/Bound.h"

#include <limits>
#include <optional>

namespace dt::scheduler {

/// What is minimised: the objective, then the other definition of time.
using Cost = std::pair<Time, Time>;
constexpr Cost kWorst = {std::numeric_limits<Time>::max(), 0};

/// What the parts of a search share.
struct Incumbent {
  Incumbent(const TaskGraph &graph, const std::vector<Bytes> &memory,
            Objective objective, int64_t effort)
      : objective(objective), bound(getLowerBound(graph, memory, objective)),
        left(effort) {}

  Objective objective;
  Time bound; ///< no order is shorter
  /// Tasks that may still be placed.
  int64_t left;
  std::optional<Solution> best;
  Cost cost = kWorst;

  bool isProved() const { return best && cost.first <= bound; }
  bool isDone() const { return left <= 0 || isProved(); }
  Cost getCost(Time wall, Time span) const {
    return objective == Objective::Wall ? Cost(wall, span) : Cost(span, wall);
  }
};

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_SEARCH_INCUMBENT_H
