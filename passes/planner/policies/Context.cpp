//===- Context.cpp - Context parallelism ----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a sample's tokens over several ranks would be worth. `joint` takes such
// plans where they are faster than its own.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "dialects/dist/SharedExperts.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace dt::planner {

/// Replicas of the backbone that share samples instead of having their own.
static void addVariant(const PolicyInput &input, Plan plan, int cp,
                       std::vector<Plan> &plans) {
  UnitPlan &pace = plan.units[input.model().pace];
  pace.dp /= cp;
  if (pace.dp < 1 || !dist::canShareExperts(pace.ep, pace.tp, cp, pace.dp))
    return;
  pace.cp = cp;
  plan.micro = input.divideSamples(plan.microbatches * pace.dp);
  if (placeUnits(input, plan))
    plans.push_back(std::move(plan));
}

/// Where keys may go round they do if that is faster than what programs do by
/// themselves; and, besides, where it spares a sixteenth of the memory.
static void addRings(const PolicyInput &input, std::vector<Plan> &plans) {
  int pace = input.model().pace;
  if (!input.model().modules[pace].keys.ring)
    return;
  for (size_t i = 0, count = plans.size(); i < count; ++i) {
    Plan ring = plans[i];
    UnitPlan &unit = ring.units[pace];
    unit.ring = unit.cp > 1;
    int node = input.nodeOf(ring, pace);
    double samples = double(ring.micro) / double(unit.sub);
    auto priceOf = [&](const Plan &plan) -> const LayerPrices & {
      return input.prices(pace, plan.getOptions(pace), samples, node);
    };
    const LayerPrices &own = priceOf(plans[i]), &round = priceOf(ring);
    double spared = own.workspace - round.workspace;
    if (round.total.back() < own.total.back())
      plans[i] = std::move(ring);
    else if (spared >= input.costs.cluster.getMemory(node) / 16)
      plans.push_back(std::move(ring));
  }
}

/// Other ranks to share out the backbone's experts.
static std::vector<Plan> shareOut(const PolicyInput &input, const Plan &plan) {
  return varyExperts(input, plan, input.model().pace);
}

Expected<Layouts> listContext(const PolicyInput &input) {
  std::vector<Plan> plans, own = disjointPlans(input);
  int devices = 1;
  for (const NodeKind &node : input.costs.cluster.nodes)
    devices = std::max(devices, node.devices);
  for (int cp : {2, 4, 8, 16, 32}) {
    // Units on ranks of their own, as `joint` has them.
    for (const Plan &plan : own)
      if (cp * plan.units[input.model().pace].tp <= devices)
        addVariant(input, plan, cp, plans);
    // And where nothing fits unless tokens are divided.
    llvm::append_range(plans, uniformPlans(input, cp));
  }
  addRings(input, plans);
  for (Plan &plan : plans) {
    const UnitPlan &unit = plan.units[input.model().pace];
    plan.policy = "context (CP " + std::to_string(unit.cp) + ")";
  }
  Layouts layouts;
  layouts.families = {{"all", std::move(plans)}};
  layouts.branches = {{"all", "experts", 4, shareOut},
                      {"all", "zero bubble", 4, splitBackwards}};
  layouts.refine = Refine::Nothing;
  layouts.budget = 3;
  return layouts;
}

} // namespace dt::planner
