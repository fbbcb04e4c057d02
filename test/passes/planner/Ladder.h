//===- Ladder.h - From DistTrain's plan to joint's, idea by idea -*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_PASSES_PLANNER_LADDER_H
#define TEST_PASSES_PLANNER_LADDER_H

#include "passes/planner/policies/Policy.h"

namespace dt::planner {

/// The best plan with all ideas so far, simulated in full.
struct Rung {
  const char *idea;
  Plan plan;
};

/// DistTrain's plan as published; with virtual stages and larger microbatches;
/// its items balanced one by one; its backwards split for zero bubble; layers
/// cut and saved by stage; any layout (`joint`). None is slower than the one
/// before. Error if DistTrain has no plan.
llvm::Expected<std::vector<Rung>> climbLadder(const PolicyInput &input);

} // namespace dt::planner

#endif // TEST_PASSES_PLANNER_LADDER_H
