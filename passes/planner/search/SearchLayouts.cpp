//===- SearchLayouts.cpp - How a policy's layouts are searched ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/PlanSearch.h"

#include "llvm/Support/Parallel.h"

#include <cmath>
#include <set>

using namespace llvm;

namespace dt::planner {

namespace {

/// Units that did not fit. What a unit's ranks hold is decided by all layouts
/// and by what the unit itself keeps, not by what others keep: choices of a
/// rule that differ in that alone need not be simulated.
class Lacking {
public:
  void note(const Plan &plan, int unit) { keys.insert(keyOf(plan, unit)); }
  bool has(const Plan &plan) const {
    for (size_t u = 0; u < plan.units.size(); ++u)
      if (keys.count(keyOf(plan, int(u))))
        return true;
    return false;
  }

private:
  static std::vector<int64_t> keyOf(const Plan &plan, int u) {
    std::vector<int64_t> key = {u, int64_t(plan.units[u].save),
                                plan.microbatches};
    for (const UnitPlan &unit : plan.units)
      key.insert(key.end(), {unit.tp, unit.dp, unit.pp});
    return key;
  }
  std::set<std::vector<int64_t>> keys;
};

/// Choices of a coarse rule that are simulated or known to lack memory.
constexpr int kMostTried = 24;

/// The rule's plan, with its prediction; nothing, and the reason, if no choice
/// fits.
std::optional<Plan> follow(const PolicyInput &input, const Rule &rule,
                           Reason &reason) {
  StepOptions options;
  options.fold = rule.coarse;
  int tried = 0;
  Lacking lacking;
  for (const std::vector<Plan> &choice : rule.choices) {
    std::optional<Plan> best;
    for (Plan plan : choice) {
      if (rule.coarse) {
        if (tried == kMostTried)
          return std::nullopt;
        if (tried > 0 && std::isinf(estimate(input, plan)))
          continue;
        ++tried;
        if (lacking.has(plan))
          continue;
      }
      auto step = simulateFitting(input.costs, plan, input.batch, options);
      if (!step) {
        reason.note(handleErrors(step.takeError(),
                                 [&](std::unique_ptr<DoesNotFit> fit) -> Error {
                                   lacking.note(plan, fit->unit);
                                   return Error(std::move(fit));
                                 }));
        continue;
      }
      plan.predicted = step->predicted;
      if (!best || plan.predicted.step < best->predicted.step)
        best = std::move(plan);
    }
    if (best)
      return best;
  }
  return std::nullopt;
}

} // namespace

Expected<Plan> followRules(const PolicyInput &input, ArrayRef<Rule> rules) {
  std::vector<std::optional<Plan>> plans(rules.size());
  std::vector<Reason> reasons;
  for (const Rule &rule : rules)
    reasons.push_back(rule.reason);
  // All at once, the fastest plan counts; of equal ones the first.
  parallelFor(0, rules.size(), [&](size_t i) {
    PolicyInput own{input.costs, input.batch, input.simulations};
    plans[i] = follow(own, rules[i], reasons[i]);
  });
  std::optional<Plan> best;
  for (std::optional<Plan> &plan : plans)
    if (plan && (!best || plan->predicted.step < best->predicted.step))
      best = std::move(plan);
  if (best)
    return std::move(*best);
  Reason nearest;
  for (const Reason &reason : reasons)
    nearest.note(reason);
  return nearest.explain();
}

namespace {

Expected<Candidates> searchFamilies(const PolicyInput &input,
                                    const Layouts &layouts) {
  bool large = layouts.refine >= Refine::UniformLayouts,
       several = input.costs.cluster.hasSeveralKinds();
  // On several kinds of devices there are several searches.
  int each = !large                        ? layouts.budget
             : several && !input.isSmall() ? 2
                                           : 8,
      budget = each * input.simulations,
      byEstimate = (large ? budget : input.simulations) /
                   (large && !input.isSmall() ? 6 : 2);
  // Enough to see whether the policy comes near to what is known.
  if (std::isfinite(input.known))
    byEstimate = std::min(byEstimate, 12);
  bool uniform = layouts.refine == Refine::UniformLayouts;
  PlanSearch search(input, budget, uniform);
  if (layouts.start.derive)
    if (auto plan = expectedToOptional(followRules(input, layouts.rules)))
      search.tryAnyway(layouts.start.family,
                       layouts.start.derive(input, *plan));
  if (layouts.apart)
    for (const Families::value_type &family : layouts.families)
      search.tryBest({family}, byEstimate, layouts.far);
  else
    search.tryBest(layouts.families, byEstimate, layouts.far);
  if (search.isBehind())
    return createStringError("none comes near to what is known");
  for (const Branch &branch : layouts.branches)
    search.branch(branch);
  if (large) {
    search.improve(8);
    search.improve(1); // with what others left
  }
  // Of many devices and of several kinds bounds say little.
  if (large && (!input.isSmall() || several))
    search.spread();
  if (large ? !several : layouts.refine == Refine::Bounds)
    search.close(layouts.families);
  if (uniform) // its families are few
    search.spread();
  if (large)
    search.simplify();
  return search.finish(!large || (input.isEven() && !input.isSmall()) ? 4 : 8);
}

} // namespace

Expected<Candidates> searchLayouts(const PolicyInput &input,
                                   const Layouts &layouts) {
  if (!layouts.families.empty())
    return searchFamilies(input, layouts);
  auto plan = followRules(input, layouts.rules);
  if (!plan)
    return plan.takeError();
  auto step = simulateFitting(input.costs, *plan, input.batch);
  if (!step)
    return step.takeError();
  plan->predicted = step->predicted;
  return Candidates(std::move(*plan));
}

} // namespace dt::planner
