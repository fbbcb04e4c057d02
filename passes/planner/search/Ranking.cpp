//===- Ranking.cpp - Plans in the order in which they are tried -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/Ranking.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace llvm;

namespace dt::planner {

Ranking::Ranking(const PolicyInput &input,
                 ArrayRef<PlanSearch::Family> families, int most)
    : most(most) {
  struct Ranked {
    double estimate;
    size_t family;
    const Plan *plan;
  };
  std::vector<Ranked> ranked;
  for (size_t f = 0; f < families.size(); ++f)
    for (const Plan &plan : families[f].plans)
      ranked.push_back({estimate(input, plan), f, &plan});
  llvm::stable_sort(ranked, [](const Ranked &a, const Ranked &b) {
    return a.estimate < b.estimate;
  });
  // Of plans that differ in little the best is tried first: neighbours are
  // looked at later.
  std::set<std::tuple<size_t, int, int64_t, int, int, Save, int64_t>> seen;
  std::vector<const Ranked *> alike;
  auto add = [&](const Ranked &one) {
    int tp = one.plan->units[input.model().pace].tp;
    Class &to = classes[{one.family, tp}];
    to.plans.push_back({one.plan, one.family, one.estimate, &to});
  };
  for (const Ranked &one : ranked) {
    const UnitPlan &pace = one.plan->units[input.model().pace];
    if (seen.insert({one.family, pace.tp, pace.dp, pace.pp, pace.vpp, pace.save,
                     one.plan->microbatches})
            .second)
      add(one);
    else
      alike.push_back(&one);
  }
  for (const Ranked *one : alike)
    add(*one);
}

std::optional<std::pair<Ranking::Candidate, double>> Ranking::next() {
  // A class that nothing is known of may be a little better than the best.
  // However bad all others were, it is not given up for that.
  constexpr double kWorst = 1.5;
  double ratio = INFINITY;
  for (auto &[key, one] : classes)
    if (one.count)
      ratio = std::min(ratio, one.getRatio());
  ratio = std::isinf(ratio) ? 1 : std::min(ratio, kWorst);
  Class *best = nullptr;
  double least = 0;
  for (auto &[key, one] : classes) {
    if (one.taken == one.plans.size())
      continue;
    double factor = one.count   ? one.getRatio()
                    : one.taken ? ratio
                                : 0.9 * ratio;
    // The more of a class were tried, the less another one says.
    factor *= 1 + 0.3 * double(one.taken) / double(most);
    double seconds = factor * one.plans[one.taken].estimate;
    if (!best || seconds < least) {
      best = &one;
      least = seconds;
    }
  }
  if (!best)
    return std::nullopt;
  return std::pair(best->plans[best->taken++], least);
}

void Ranking::learn(const Candidate &candidate, double step) {
  Class &one = *candidate.from;
  // What does not fit is a bad sign, no more.
  one.sum += std::isinf(step) || std::isinf(candidate.estimate)
                 ? 2
                 : step / candidate.estimate;
  ++one.count;
}

} // namespace dt::planner
