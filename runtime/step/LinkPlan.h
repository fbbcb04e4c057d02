//===- LinkPlan.h - which ranks speak together ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// From the tables alone: what is made at the start is what something uses, on
// all ranks alike, and the compiler knows how much that is.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_LINKPLAN_H
#define DT_RUNTIME_STEP_LINKPLAN_H

#include "runtime/comm/LinkNeeds.h"
#include "runtime/state/Ownership.h"

#include <string>

namespace dt::rt {

struct ModuleLinks {
  Axes axes;            ///< that collectives and partial sums go over
  bool gathers = false; ///< chunks of what arrives, over a replica's ranks
  int reduces = 0;      ///< groups of a rank that add up gradients
};

struct LinkPlan {
  LinkNeeds needs;
  std::vector<ModuleLinks> modules;
};

LinkPlan planLinks(const ProgramInfo &program);

/// The groups of several ranks that a rank is in, with their purposes
/// (Fabric::group), but for the messages'.
using PlannedGroups = std::set<std::pair<std::string, std::vector<int>>>;
PlannedGroups plannedGroups(const LinkPlan &plan, const ProgramInfo &program,
                            const Placement &placement,
                            const Ownership &ownership);

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_LINKPLAN_H
