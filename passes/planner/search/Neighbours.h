//===- Neighbours.h - Plans next to a plan ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_SEARCH_NEIGHBOURS_H
#define PASSES_PLANNER_SEARCH_NEIGHBOURS_H

#include "passes/planner/policies/Policy.h"

namespace dt::planner {

/// Plans that differ from one in a single decision; of a `uniform` plan in no
/// unit's layout by itself.
std::vector<Plan> neighboursOf(const PolicyInput &input, const Plan &plan,
                               bool uniform);
/// Those that are simpler than the plan, and what several decisions at once
/// make of it: half of a unit's stages, a single one, whole tasks.
std::vector<Plan> simplerThan(const PolicyInput &input, const Plan &plan,
                              bool uniform);

} // namespace dt::planner

#endif // PASSES_PLANNER_SEARCH_NEIGHBOURS_H
