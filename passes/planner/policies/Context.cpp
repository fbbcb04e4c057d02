//===- Context.cpp - Context and expert parallelism -----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a sample's tokens over several ranks, or a layer's experts over several
// replicas, would be worth. Programs divide tokens, and `joint` takes such
// plans where they are faster than its own; plans with experts over replicas
// are priced only, and say so.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace dt::planner {

namespace {

bool hasExperts(const Module &module) {
  return any_of(module.kinds, [](const LayerKind &kind) {
    return kind.expertParameters > 0;
  });
}

/// Replicas of the backbone that share samples, or experts, instead of having
/// their own.
void addVariants(const PolicyInput &input, const Plan &plan, int cp, int ep,
                 std::vector<Plan> &plans) {
  Plan other = plan;
  UnitPlan &pace = other.units[input.model().pace];
  if (pace.dp < cp || int64_t(pace.dp / cp) < ep || (pace.dp / cp) % ep)
    return;
  pace.dp /= cp;
  pace.cp = cp;
  pace.ep = ep;
  pace.etp = ep > 1 ? pace.tp : 0;
  other.micro = input.divideSamples(other.microbatches * pace.dp);
  if (placeUnits(input, other))
    plans.push_back(std::move(other));
}

/// The same with experts shared out inside of TP groups.
void addExperts(const PolicyInput &input, std::vector<Plan> &plans) {
  int pace = input.model().pace;
  for (size_t i = 0, count = plans.size(); i < count; ++i) {
    const UnitPlan &unit = plans[i].units[pace];
    if (unit.ep > 1)
      continue;
    for (int ep : input.model().modules[pace].listExpertRanks(unit.tp))
      if (ep > 1) {
        Plan other = plans[i];
        other.units[pace].ep = ep;
        plans.push_back(std::move(other));
      }
  }
}

} // namespace

Expected<Layouts> listContext(const PolicyInput &input) {
  const Module &pace = input.model().modules[input.model().pace];
  std::vector<Plan> plans, own = disjointPlans(input);
  int devices = 1;
  for (const NodeKind &node : input.costs.cluster.nodes)
    devices = std::max(devices, node.devices);
  for (int cp : {1, 2, 4, 8, 16})
    for (int ep : {1, 2, 4, 8, 16, 32, 64}) {
      // 1 and 1 is joint's own.
      if (cp * ep == 1 || (ep > 1 && !hasExperts(pace)))
        continue;
      // Units on ranks of their own, as `joint` has them.
      for (const Plan &plan : own)
        if (cp * plan.units[input.model().pace].tp <= devices)
          addVariants(input, plan, cp, ep, plans);
      // And where nothing fits unless tokens or experts are divided.
      llvm::append_range(plans, uniformPlans(input, cp, ep));
    }
  addExperts(input, plans);
  for (Plan &plan : plans) {
    const UnitPlan &unit = plan.units[input.model().pace];
    plan.policy =
        "context (CP " + std::to_string(unit.cp) +
        (unit.ep > 1 ? ", EP " + std::to_string(unit.ep) : std::string()) + ")";
    if (unit.etp)
      plan.notExecutable = "expert parallelism cannot be executed yet";
  }
  Layouts layouts;
  layouts.families = {{"all", std::move(plans)}};
  layouts.branches = {{"all", "zero bubble", 4, splitBackwards}};
  layouts.refine = Refine::Nothing;
  layouts.budget = 3;
  return layouts;
}

} // namespace dt::planner
