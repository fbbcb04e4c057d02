//===- Joint.cpp - All ideas in one search --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Layouts on ranks of their own, shared ranks in phases or bubbles, and uniform
// ones, all with items balanced one by one and microbatches ordered. An
// estimate ranks thousands, folded simulations rank dozens, plans next to the
// best are tried, and the last few are simulated in full.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/Neighbours.h"
#include "passes/planner/search/PlanSearch.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace dt::planner {

namespace {

/// The plan's idea in one word, for the explanation.
std::string ideaOf(const Plan &plan) {
  std::string idea;
  const scheduler::Traits &traits = plan.getTraits();
  if (any_of(plan.units,
             [&](const UnitPlan &unit) { return plan.isGuest(unit.module); }))
    idea = "uniform";
  else if (traits.sharesRanks)
    idea = traits.runsInPhases ? "colocated" : "bubble";
  else
    idea = "disjoint";
  if (traits.splitsBackward)
    idea += ", zero bubble";
  else if (traits.interleaves)
    idea += ", interleaved";
  return idea;
}

std::vector<Plan> byItems(std::vector<Plan> plans) {
  for (Plan &plan : plans) {
    plan.assign = Assign::Items;
    plan.reorder = Reorder::Both;
  }
  return plans;
}

} // namespace

Expected<Candidates> planJoint(const PolicyInput &input) {
  int budget = getBudget(input);
  PlanSearch search(input, budget);
  // The published plan as it is, and item by item; both are free.
  if (auto published = findDistTrain(input)) {
    std::vector<Plan> plans = byItems({*published});
    plans.push_back(*published);
    search.tryAnyway("disjoint 1f1b", std::move(plans));
  } else
    consumeError(published.takeError());
  std::map<std::string, std::vector<Plan>> ideas;
  auto addDisjoint = [&](std::vector<Plan> plans, const std::string &idea) {
    for (Plan &plan : plans) {
      if (!plan.getTraits().interleaves)
        for (Plan &other : splitBackwards(input, plan))
          ideas[idea + other.schedule].push_back(std::move(other));
      ideas[idea + plan.schedule].push_back(std::move(plan));
    }
  };
  addDisjoint(disjointPlans(input), "disjoint ");
  // There each unit is on one kind of device; here some may be on several.
  if (input.costs.cluster.hasSeveralKinds()) {
    Cluster mean = meanOfKinds(input.costs.cluster);
    Costs costs(mean, input.model(), input.costs.profile);
    addDisjoint(disjointPlans({costs, input.batch}), "kinds ");
  }
  for (StringRef schedule : sharingSchedules())
    ideas[schedule.str()] = colocatedPlans(input, schedule);
  ideas["uniform"] = byItems(uniformPlans(input));
  std::vector<PlanSearch::Family> families;
  for (auto &[name, plans] : ideas)
    families.push_back({name, std::move(plans)});
  // A look at neighbours finds the rest, for which small clusters have
  // simulations enough.
  search.tryBest(families, budget / 2, input.isSmall() ? 1.1 : 1.5);
  for (StringRef schedule : sharingSchedules())
    if (input.isSmall() && !scheduler::traitsOf(schedule).runsInPhases)
      search.branch(schedule, schedule, 2,
                    [&](const Plan &plan) { return inPieces(input, plan); });
  auto found = improveAndFinish(input, search, families, /*uniform=*/false);
  if (found)
    for (Plan &plan : found->getPlans())
      plan.policy = "joint (" + ideaOf(plan) + ")";
  return found;
}

} // namespace dt::planner
