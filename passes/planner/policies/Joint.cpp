//===- Joint.cpp - All ideas together -------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Layouts on ranks of their own, shared ranks in phases or bubbles, uniform
// ones, and of these what cuts a sample's tokens, all with items balanced one
// by one and microbatches ordered; and what differs from the best of these in
// one decision.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

std::string titleOf(const Plan &plan) {
  const scheduler::Traits &traits = plan.getTraits();
  auto isGuest = [&](const UnitPlan &unit) {
    return plan.isGuest(unit.module);
  };
  std::string idea = any_of(plan.units, isGuest) ? "uniform"
                     : !traits.sharesRanks       ? "disjoint"
                     : traits.runsInPhases       ? "colocated"
                                                 : "bubble";
  if (traits.splitsBackward)
    idea += ", zero bubble";
  else if (traits.interleaves)
    idea += ", interleaved";
  for (const UnitPlan &unit : plan.units)
    if (unit.cp > 1)
      return "joint (" + idea + ", CP " + std::to_string(unit.cp) + ")";
  return "joint (" + idea + ")";
}

std::vector<Plan> byItems(std::vector<Plan> plans) {
  for (Plan &plan : plans) {
    plan.assign = Assign::Items;
    plan.reorder = Reorder::Both;
  }
  return plans;
}

/// The published plan item by item, and as it is.
std::vector<Plan> fromPublished(const PolicyInput &, const Plan &published) {
  std::vector<Plan> plans = byItems({published});
  plans.push_back(published);
  return plans;
}

/// For where nothing fits unless tokens are cut; keys also in a ring.
std::vector<Plan> inContext(const PolicyInput &input, ArrayRef<Plan> disjoint) {
  std::vector<Plan> plans;
  for (const Plan &plan : disjoint)
    llvm::append_range(plans, cutTokens(input, plan));
  for (int cp : {2, 4, 8, 16, 32})
    llvm::append_range(plans, byItems(uniformPlans(input, cp)));
  int pace = input.model().pace;
  if (input.model().modules[pace].keys.ring)
    for (size_t i = 0, count = plans.size(); i < count; ++i)
      plans.emplace_back(plans[i]).units[pace].ring = true;
  return plans;
}

} // namespace

Expected<Layouts> listJoint(const PolicyInput &input) {
  Layouts layouts;
  layouts.rules = distTrainRules(input);
  layouts.start = {"disjoint 1f1b", fromPublished};
  std::vector<Plan> disjoint = disjointPlans(input);
  if (llvm::none_of(disjoint, [&](const Plan &plan) {
        return std::isfinite(estimate(input, plan));
      }))
    layouts.families["context"] = inContext(input, disjoint);
  addBySchedule(input, std::move(disjoint), "disjoint ", layouts.families);
  // Of few devices neighbours get there.
  for (StringRef family : llvm::make_first_range(layouts.families))
    if (!input.isSmall())
      layouts.branches.push_back({family.str(), "context", 3, cutTokens});
  // There each unit is on one kind of device; here some may be on several.
  if (input.costs.cluster.hasSeveralKinds()) {
    Cluster mean = meanOfKinds(input.costs.cluster);
    Costs costs(mean, input.model(), input.costs.profile);
    addBySchedule(input, disjointPlans({costs, input.batch}), "kinds ",
                  layouts.families);
  }
  for (StringRef schedule : sharingSchedules()) {
    layouts.families[schedule.str()] = colocatedPlans(input, schedule);
    if (input.isSmall() && !scheduler::traitsOf(schedule).runsInPhases)
      layouts.branches.push_back(
          {schedule.str(), schedule.str(), 2, inVirtualStages});
  }
  layouts.families["uniform"] = byItems(uniformPlans(input));
  layouts.refine = Refine::Layouts;
  // A look at neighbours finds the rest, for which small clusters have
  // simulations enough.
  layouts.far = input.isSmall() ? 1.1 : 1.5;
  layouts.title = titleOf;
  return layouts;
}

} // namespace dt::planner
