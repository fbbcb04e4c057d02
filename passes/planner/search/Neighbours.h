//===- Neighbours.h - Plans next to a plan ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What searches have in common: how much they simulate, and how they go on from
// the best that they have found.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_SEARCH_NEIGHBOURS_H
#define PASSES_PLANNER_SEARCH_NEIGHBOURS_H

#include "passes/planner/search/PlanSearch.h"

namespace dt::planner {

/// Simulations of a search; those of small clusters are cheap.
int getBudget(const PolicyInput &input);

/// Tries what differs from the best in one decision (of a `uniform` plan: no
/// unit's layout for itself), what else the families have, what is simpler,
/// then the best in full.
llvm::Expected<Candidates>
improveAndFinish(const PolicyInput &input, PlanSearch &search,
                 llvm::ArrayRef<PlanSearch::Family> families, bool uniform);

} // namespace dt::planner

#endif // PASSES_PLANNER_SEARCH_NEIGHBOURS_H
