//===- Candidates.cpp - The plan that a search settles on -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/Candidates.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace llvm;

namespace dt::planner {

Complexity getComplexity(const Plan &plan) {
  Complexity result;
  auto &figures = result.figures;
  const scheduler::Traits &traits = plan.getTraits();
  figures[Complexity::Ranks] = plan.ranks;
  if (traits.splitsBackward)
    figures[Complexity::Schedule] = 2;
  else if (traits.interleaves || (traits.sharesRanks && !traits.runsInPhases))
    figures[Complexity::Schedule] = 1;
  for (const UnitPlan &unit : plan.units) {
    figures[Complexity::Stages] += int64_t(unit.pp) * unit.vpp;
    int64_t tensor = int64_t(unit.tp) * unit.cp;
    figures[Complexity::Tensor] = std::max(figures[Complexity::Tensor], tensor);
    figures[Complexity::Slices] += unit.sub + unit.span - 1;
    figures[Complexity::Strips] =
        std::max<int64_t>(figures[Complexity::Strips], unit.overlap);
    figures[Complexity::Ahead] += unit.runAhead.has_value();
  }
  figures[Complexity::Sequence] =
      plan.sequenceParallel &&
      any_of(plan.units, [](const UnitPlan &unit) { return unit.tp > 1; });
  return result;
}

/// A figure of a plan in words.
static std::string describe(const Plan &plan, Complexity::Figure figure) {
  int64_t value = getComplexity(plan).figures[figure];
  auto count = [&](StringRef what) {
    return (Twine(value) + " " + what + (value == 1 ? "" : "s")).str();
  };
  switch (figure) {
  case Complexity::Stages:
    return count("stage");
  case Complexity::Ranks:
    return count("rank");
  case Complexity::Schedule:
    return "schedule " + plan.schedule;
  case Complexity::Tensor:
    return count("rank") + " to a layer";
  case Complexity::Sequence:
    return value ? "sequence parallelism" : "none";
  case Complexity::Slices:
    return "parts in " + count("piece");
  case Complexity::Strips:
    return "products in " + count("strip");
  case Complexity::Ahead:
    return count("unit") + " with run_ahead";
  case Complexity::NumFigures:
    break;
  }
  llvm_unreachable("not a figure");
}

const Plan &Candidates::getFastest() const {
  return *llvm::min_element(plans, [](const Plan &a, const Plan &b) {
    return a.predicted.step < b.predicted.step;
  });
}

const Plan &Candidates::getSimplest() const {
  const Plan *best = &getFastest();
  double most =
      std::max(best->predicted.step,
               std::min(limit, best->predicted.step * (1 + kNegligible)));
  Complexity least = getComplexity(*best);
  for (const Plan &plan : plans) {
    if (plan.predicted.step > most)
      continue;
    Complexity own = getComplexity(plan);
    if (std::pair(own, plan.predicted.step) <
        std::pair(least, best->predicted.step)) {
      best = &plan;
      least = own;
    }
  }
  return *best;
}

Plan Candidates::choose() const {
  const Plan &fastest = getFastest();
  Plan plan = getSimplest();
  plan.faster.reset();
  plan.fuller.reset();
  plan.searched = searched;
  for (const Plan &other : plans)
    if (other.ranks > plan.ranks &&
        (!plan.fuller || other.predicted.step < plan.fuller->second))
      plan.fuller = {other.ranks, other.predicted.step};
  if (plan.predicted.step <= fastest.predicted.step)
    return plan;
  Complexity here = getComplexity(plan), there = getComplexity(fastest);
  // Equally simple plans are chosen by their step, so some figure differs.
  auto differs = std::mismatch(here.figures.begin(), here.figures.end(),
                               there.figures.begin());
  auto figure = Complexity::Figure(differs.first - here.figures.begin());
  plan.faster = {fastest.predicted.step,
                 plan.predicted.step / fastest.predicted.step - 1,
                 describe(fastest, figure), describe(plan, figure)};
  return plan;
}

} // namespace dt::planner
