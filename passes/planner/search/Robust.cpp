//===- Robust.cpp - Plans for steps that are not all alike ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/Robust.h"

#include "runtime/base/Philox.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Parallel.h"

#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

constexpr size_t kFinalists = 16;
constexpr double kWithin = 0.1; ///< of the fastest
/// Of schedules that search, which they do hundreds of times here.
constexpr int64_t kEffort = 60000;

std::vector<Plan> findFinalists(const Candidates &found) {
  std::vector<Plan> plans = found.getPlans().vec();
  double most = found.getFastest().predicted.step * (1 + kWithin);
  llvm::erase_if(plans,
                 [&](const Plan &plan) { return plan.predicted.step > most; });
  llvm::stable_sort(plans, [](const Plan &a, const Plan &b) {
    return a.predicted.step < b.predicted.step;
  });
  plans.resize(std::min(plans.size(), kFinalists));
  return plans;
}

} // namespace

Error checkPercentile(int64_t percentile) {
  if (percentile >= 1 && percentile <= 100)
    return Error::success();
  return createStringError("expected a percentile of 1 to 100, not " +
                           Twine(percentile));
}

std::vector<double> drawSlowdowns(const Cluster &cluster, uint64_t seed,
                                  int draw) {
  std::vector<double> slowdowns;
  if (all_of(cluster.nodes,
             [](const NodeKind &node) { return node.stragglers.empty(); }))
    return slowdowns;
  rt::Random random(seed, rt::philoxPurpose("stragglers"), uint64_t(draw));
  for (size_t kind = 0; kind < cluster.nodes.size(); ++kind)
    for (int64_t i = 0; i < cluster.getNumDevices(int(kind)); ++i) {
      double left = random.uniform(slowdowns.size()), slowdown = 1;
      for (const Straggler &own : cluster.nodes[kind].stragglers) {
        if (left >= 0 && left < own.share)
          slowdown = own.slowdown;
        left -= own.share;
      }
      slowdowns.push_back(slowdown);
    }
  return slowdowns;
}

Expected<Plan> chooseRobust(const PolicyInput &input, const Candidates &found,
                            const Robustness &robustness) {
  constexpr int kDraws = Robustness::kDraws;
  std::vector<std::vector<Sample>> batches;
  std::vector<std::vector<double>> slowdowns;
  for (int draw = 0; draw < kDraws; ++draw) {
    auto batch = robustness.batch(draw);
    if (!batch)
      return batch.takeError();
    batches.push_back(std::move(*batch));
    slowdowns.push_back(
        drawSlowdowns(input.costs.cluster, robustness.seed, draw));
  }
  std::vector<Plan> plans = findFinalists(found);
  std::vector<double> steps(plans.size() * kDraws, INFINITY);
  parallelFor(0, steps.size(), [&](size_t i) {
    size_t draw = i % kDraws;
    StepOptions options;
    options.timeOnly = true;
    options.scheduleEffort = kEffort;
    if (!slowdowns[draw].empty())
      options.slowdowns = &slowdowns[draw];
    if (auto step = expectedToOptional(simulateStep(
            input.costs, plans[i / kDraws], batches[draw], options)))
      steps[i] = step->predicted.step;
  });
  // Compared by the percentile as others are by the step.
  Candidates candidates;
  candidates.searched = found.searched;
  for (size_t p = 0; p < plans.size(); ++p) {
    auto begin = steps.begin() + p * kDraws;
    Spread spread{robustness.percentile, {begin, begin + kDraws}};
    llvm::sort(spread.steps);
    plans[p].predicted.objective = plans[p].predicted.step;
    plans[p].predicted.step = spread.at(robustness.percentile);
    plans[p].predicted.spread = std::move(spread);
    candidates.add(std::move(plans[p]));
  }
  Plan best = candidates.choose();
  if (std::isinf(best.predicted.step))
    return createStringError(formatv(
        "none of {0} plans fits the memory in {1} % of {2} draws of data",
        candidates.getPlans().size(), robustness.percentile, kDraws));
  std::swap(best.predicted.step, best.predicted.objective);
  return best;
}

Expected<Plan> makeRobustPlan(StringRef policy, PolicyInput input,
                              const Robustness &robustness) {
  input.finalists = kFinalists;
  auto found = findPlans(policy, input);
  if (!found)
    return found.takeError();
  return chooseRobust(input, *found, robustness);
}

} // namespace dt::planner
