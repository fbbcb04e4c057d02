//===- Lanes.h - A schedule as a timeline -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PICTURE_LANES_H
#define PASSES_PICTURE_LANES_H

#include "passes/picture/Timeline.h"
#include "passes/scheduler/core/Evaluate.h"

namespace dt::picture {

/// Names of the problem's units as people know them.
std::vector<std::string> nameUnits(const scheduler::Problem &problem);

/// The chart of a solution: a lane for all ranks that do exactly the same at
/// the same time. `ranksOf`: by rank of the problem the ranks that it stands
/// for; empty: itself. `folded`: its replicas stand for several.
TimelineChart makeChart(const scheduler::TaskGraph &graph,
                        const scheduler::Solution &solution,
                        const scheduler::Timeline &timeline, std::string title,
                        const std::vector<std::vector<int64_t>> &ranksOf = {},
                        bool folded = false);

/// What the bubble of a timeline is, in words, with its figures.
std::string describeBubble(const scheduler::Timeline &timeline);

} // namespace dt::picture

#endif // PASSES_PICTURE_LANES_H
