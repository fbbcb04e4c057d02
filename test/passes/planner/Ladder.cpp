//===- Ladder.cpp - From DistTrain's plan to joint's, idea by idea --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/passes/planner/Ladder.h"

using namespace llvm;

namespace dt::planner {

namespace {

class Ladder {
public:
  explicit Ladder(const PolicyInput &input) : input(input) {}

  Error start(Expected<Plan> plan, const char *idea) {
    if (!plan)
      return plan.takeError();
    auto step = simulateStep(input.costs, *plan, input.batch);
    if (!step)
      return step.takeError();
    plan->predicted = step->predicted;
    rungs.push_back({idea, std::move(*plan)});
    return Error::success();
  }

  /// The fastest of these that fit, and of what was found before.
  void add(const char *idea, std::vector<Plan> plans) {
    Plan best = top();
    for (Plan &plan : plans) {
      auto step = simulateStep(input.costs, plan, input.batch);
      if (!step) {
        consumeError(step.takeError());
        continue;
      }
      plan.predicted = step->predicted;
      if (plan.predicted.step < best.predicted.step)
        best = std::move(plan);
    }
    rungs.push_back({idea, std::move(best)});
  }
  void add(const char *idea, Expected<Plan> plan) {
    std::vector<Plan> plans;
    if (plan)
      plans.push_back(std::move(*plan));
    else
      consumeError(plan.takeError());
    add(idea, std::move(plans));
  }

  const Plan &top() const { return rungs.back().plan; }
  std::vector<Rung> take() { return std::move(rungs); }

private:
  const PolicyInput &input;
  std::vector<Rung> rungs;
};

/// The plan item by item, in as many microbatches and in some more or fewer.
std::vector<Plan> byItems(const PolicyInput &input, const Plan &plan) {
  std::vector<Plan> plans;
  const UnitPlan &pace = plan.units[input.model().pace];
  for (double factor : {0.5, 0.75, 1.0, 1.5, 2.0}) {
    Plan other = plan;
    other.assign = Assign::Items;
    auto n = int64_t(double(plan.microbatches) * factor);
    if (pace.vpp > 1)
      n = n / pace.pp * pace.pp;
    if (n < 1 || n * pace.dp > input.samples())
      continue;
    other.microbatches = n;
    other.micro = (input.samples() + n * pace.dp - 1) / (n * pace.dp);
    plans.push_back(std::move(other));
  }
  return plans;
}

/// The plan with layers cut and saved by stage, in every unit or in one.
std::vector<Plan> byStages(const PolicyInput &input, const Plan &plan) {
  std::vector<Plan> plans;
  Plan all = plan;
  for (size_t u = 0; u < plan.units.size(); ++u)
    if (auto fitted = fitStages(input, plan, int(u))) {
      plans.emplace_back(plan).units[u] = *fitted;
      all.units[u] = *fitted;
    }
  plans.push_back(std::move(all));
  return plans;
}

} // namespace

Expected<std::vector<Rung>> climbLadder(const PolicyInput &input) {
  Ladder ladder(input);
  if (Error error = ladder.start(followRules(input, distTrainRules(input)),
                                 "DistTrain's plan"))
    return std::move(error);
  ladder.add("VPP and M", makePlan("disttrain", input));
  ladder.add("items", byItems(input, ladder.top()));
  ladder.add("zero bubble", splitBackwards(input, ladder.top()));
  ladder.add("saved by stage", byStages(input, ladder.top()));
  ladder.add("layout", makePlan("joint", input));
  return ladder.take();
}

} // namespace dt::planner
