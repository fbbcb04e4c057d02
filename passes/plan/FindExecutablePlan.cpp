//===- FindExecutablePlan.cpp - The best of a policy's plans ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/PlanFinder.h"

namespace dt::plan {

using llvm::Error;
using llvm::Expected;
using planner::Plan;

namespace {

/// So many are compiled at most until one fits.
constexpr int64_t kCompiled = 16;

/// What policies found, by their names.
using Asked = std::map<std::string, std::vector<Plan>>;

/// Every policy is searched to its end.
void askAll(const planner::PolicyInput &input, Asked &asked) {
  for (const planner::Policy &policy : planner::getPolicies())
    if (auto found = expectedToOptional(planner::findPlans(policy.name, input)))
      asked[policy.name] = found->getPlans().vec();
}

} // namespace

Expected<Plan> findExecutablePlan(llvm::StringRef policy,
                                  const planner::PolicyInput &input,
                                  const PlannedProgram &program,
                                  AcceptPlan accepts, Refusals &refusals,
                                  const planner::Robustness *robustness,
                                  MeasurePlan measure) {
  PlanFinder finder(input, program, accepts, refusals);
  bool joint = policy == "joint";
  planner::PolicyInput asking = input;
  asking.scheduleEffort = PlanFinder::kScheduleEffort;
  auto own = planner::findPlans(policy, asking);
  if (!own && !joint)
    return own.takeError();
  std::vector<Plan> plans;
  double known = INFINITY; // seconds; others far behind were left out
  if (own) {
    plans = own->getPlans().vec();
    known = own->getFastest().predicted.step;
  }
  Asked asked = {{policy.str(), plans}};
  std::vector<Plan> others;
  if (joint) {
    if (own)
      asked.merge(own->others);
    others = listPlans(input, program);
  }
  llvm::consumeError(own.takeError());
  llvm::append_range(plans, others);
  bool askedAll = !joint;
  while (true) {
    finder.reconsider(/*varied=*/joint);
    for (const auto &[name, found] : asked)
      finder.tryOwn(name, found);
    if (joint)
      finder.search(others, plans);
    // What is known may be no program: then it leaves nothing out.
    if (!askedAll &&
        (finder.found.empty() || finder.found.getFastest().predicted.step >
                                     planner::PolicyInput::kBehind * known)) {
      askAll(asking, asked);
      askedAll = true;
      continue;
    }
    if (joint) {
      finder.found.searched = finder.getSearched();
      finder.found.limit = finder.getLimit(policy);
    }
    if (finder.found.empty() || finder.numRefused == kCompiled)
      return finder.explainNone();
    auto best = finder.choose(robustness, measure);
    if (!best && best.errorIsA<planner::DoesNotFit>()) {
      refusals.reason.note(best.takeError());
      continue;
    }
    if (best)
      best->policy = policy.str();
    return best;
  }
}

} // namespace dt::plan
