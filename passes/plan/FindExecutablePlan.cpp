//===- FindExecutablePlan.cpp - The best of a policy's plans ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/ExecutablePlan.h"
#include "passes/planner/search/Ledger.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace dt::plan {

using llvm::Error;
using llvm::Expected;
using planner::Plan;
using planner::UnitPlan;

namespace {

/// The most promising plans, which are simulated.
constexpr size_t kSimulated = 48;
/// So many are compiled at most until one fits.
constexpr int64_t kCompiled = 16;
/// Of schedules that search; what is chosen is solved to its end.
constexpr int64_t kScheduleEffort = 60000;

class Finder {
public:
  Finder(const planner::PolicyInput &input, const PlannedProgram &program,
         llvm::function_ref<Error(const Plan &)> accepts, Refusals &refusals)
      : refusals(refusals), input(input), program(program), accepts(accepts) {}

  /// What a policy found.
  void tryOwn(llvm::StringRef policy, std::vector<Plan> plans);
  /// Seconds of the fastest plan that another policy than `chooser` settles on.
  double getLimit(llvm::StringRef chooser) const;
  /// The best by estimate, and what may be as good and is simpler.
  void tryBest(std::vector<Plan> plans);
  /// From the fastest, one decision at a time; then how far units run ahead.
  void improve();
  /// From the simplest, as long as something simpler is as good.
  void simplify();

  /// The best of `plans` and what is near to it; where nothing fits, all of
  /// `all` with less kept.
  void search(const std::vector<Plan> &plans, const std::vector<Plan> &all);
  /// What is said of the search.
  planner::Searched getSearched() const;
  /// With what is known since a plan was refused: simulates it again, and what
  /// of its layout may not fit; if `varied`, also what differs from it in a
  /// decision.
  void reconsider(bool varied);
  /// The best of `found` as it is measured, with its predictions. DoesNotFit:
  /// it does not, and is no longer among `found`.
  Expected<Plan> choose(const planner::Robustness *robustness,
                        MeasurePlan measure);
  /// Why nothing is found.
  Error explainNone() const;

  /// Searched::sizes, of all numbers that there may be.
  std::map<int64_t, planner::Searched::Size> getSizes() const;

  planner::Candidates found; ///< executable, with predictions
  planner::Reason reason;    ///< why others are not
  int64_t numRefused = 0;
  planner::Ledger ledger;
  Refusals &refusals;

private:
  bool fits = true; ///< what was simulated last, as far as is known
  /// Seconds by estimate; bytes where they are infinite; index.
  using Ranked = std::tuple<double, double, size_t>;
  /// Those that can be executed, the most promising first; adds what is to be
  /// tried beside them.
  std::vector<Ranked> rank(std::vector<Plan> &plans);
  /// The simulated step, of what is added to `found`; infinite if it does not
  /// work, which is noted.
  double simulate(Plan &plan);
  /// The plan, or, of those with more and so smaller microbatches, the first
  /// that fits: estimates of memory are rough.
  void simulateWhatFits(Plan plan);
  double memoryOf(const Plan &plan) const;
  /// To what is better among `neighbours`, as long as anything is.
  void climb(Plan start,
             llvm::function_ref<std::vector<Plan>(const Plan &)> neighbours);

  /// With the memory that is allocated, which must be there.
  Error predict(Plan &plan, MeasurePlan measure);

  /// By what was decided: the policies that found a plan.
  std::map<std::string, std::set<std::string>> finders;
  std::string asked;           ///< whose plans are tried
  std::optional<Plan> refused; ///< the last one
  const planner::PolicyInput &input;
  const PlannedProgram &program;
  llvm::function_ref<Error(const Plan &)> accepts;
};

double Finder::simulate(Plan &plan) {
  planner::placeBlocks(input, plan);
  refusals.tell(plan);
  if (!asked.empty())
    finders[printDecisions(plan, input.model())].insert(asked);
  auto note = [&](Error error) {
    reason.note(std::move(error));
    return INFINITY;
  };
  // Nothing that may be chosen is left out.
  double most = found.empty() ? INFINITY
                              : found.getFastest().predicted.step *
                                    (1 + planner::kNegligible);
  double bound = ledger.look(input, plan);
  fits = std::isfinite(bound);
  if ((bound >= most && !found.empty()) || !ledger.take(plan))
    return INFINITY;
  planner::StepOptions options;
  options.scheduleEffort = kScheduleEffort;
  auto step = planner::simulateFitting(input.costs, plan, input.batch, options);
  fits = step || !step.errorIsA<planner::DoesNotFit>();
  if (!step)
    return note(step.takeError());
  double objective = plan.predicted.objective;
  plan.predicted = step->predicted;
  plan.predicted.objective = objective ? objective : step->predicted.step;
  // With its own times: a neighbour has those of the plan that it was made of.
  if (plan.predicted.step < most)
    if (Error error = accepts(plan))
      return note(std::move(error));
  found.add(plan);
  return plan.predicted.step;
}

void Finder::simulateWhatFits(Plan plan) {
  int64_t first = std::exchange(plan.microbatches, 0);
  for (Plan &other : withMicrobatches(plan, program)) {
    if (makeExecutable(other, input, program) || other.microbatches < first)
      continue;
    bool known = ledger.has(other);
    simulate(other);
    if (fits || known)
      return;
  }
}

/// Bytes of the fullest device, about: what is nearest to fitting is tried
/// first where nothing fits.
double Finder::memoryOf(const Plan &plan) const {
  double most = 0, together = 0;
  int64_t ranks = 0;
  for (const UnitPlan &unit : plan.units) {
    double bytes =
        planner::estimateMemory(input, plan, unit.module,
                                std::min<int64_t>(plan.microbatches, unit.pp));
    most = std::max(most, bytes);
    together += bytes;
    ranks += unit.getRanks();
  }
  return ranks > plan.ranks ? together : most;
}

std::vector<Finder::Ranked> Finder::rank(std::vector<Plan> &plans) {
  std::vector<Ranked> order;
  for (size_t i = 0; i < plans.size(); ++i) {
    std::optional<Ranked> best; // of its numbers of microbatches
    for (Plan &plan : withMicrobatches(plans[i], program)) {
      if (auto why = makeExecutable(plan, input, program)) {
        reason.note(llvm::createStringError(*why));
        continue;
      }
      ledger.look(input, plan);
      double seconds = planner::estimate(input, plan);
      Ranked own(seconds, std::isinf(seconds) ? memoryOf(plan) : 0, i);
      if (best && !(own < *best))
        continue;
      best = own;
      plans[i] = plan;
    }
    if (!best)
      continue;
    order.push_back(*best);
    if (plans[i].sequenceParallel) // to be tried without too
      plans.emplace_back(plans[i]).sequenceParallel = false;
  }
  llvm::sort(order);
  return order;
}

void Finder::tryOwn(llvm::StringRef policy, std::vector<Plan> plans) {
  asked = policy.str();
  for (auto [seconds, bytes, i] : rank(plans))
    simulateWhatFits(plans[i]);
  asked.clear();
}

double Finder::getLimit(llvm::StringRef chooser) const {
  std::map<std::string, planner::Candidates> byPolicy;
  for (const Plan &plan : found.getPlans()) {
    auto names = finders.find(printDecisions(plan, input.model()));
    if (names != finders.end())
      for (const std::string &name : names->second)
        if (name != chooser)
          byPolicy[name].add(plan);
  }
  double limit = INFINITY;
  for (auto &[name, plans] : byPolicy)
    limit = std::min(limit, plans.getSimplest().predicted.step);
  return limit;
}

void Finder::tryBest(std::vector<Plan> plans) {
  std::vector<Ranked> order = rank(plans);
  size_t next = 0;
  for (; next < order.size(); ++next) {
    auto [seconds, bytes, i] = order[next];
    if (!found.empty() && (next >= kSimulated || std::isinf(seconds)))
      break;
    // Where nothing fits by estimate, some are tried all the same.
    if (next >= 4 * kSimulated)
      break;
    simulateWhatFits(plans[i]);
  }
  if (found.empty())
    return;
  // Estimates rank plans that take equally long by chance: of those next in
  // line the simplest may be as good.
  double most = (1 + 5 * planner::kNegligible) *
                planner::estimate(input, found.getFastest());
  std::map<planner::Complexity, size_t> simpler;
  for (auto [seconds, bytes, i] : llvm::ArrayRef(order).drop_front(next))
    if (seconds <= most)
      simpler.try_emplace(planner::getComplexity(plans[i]), i);
  size_t tried = 0;
  for (auto [complexity, i] : simpler) {
    if (tried++ == kSimulated / 4 ||
        !(complexity < planner::getComplexity(found.getSimplest())))
      break;
    simulate(plans[i]);
  }
}

std::map<int64_t, planner::Searched::Size> Finder::getSizes() const {
  std::map<int64_t, planner::Searched::Size> sizes;
  for (int64_t number : llvm::make_first_range(program.microbatches))
    sizes[number] = {ledger.getBound(number), true};
  for (const Plan &plan : found.getPlans())
    if (auto &size = sizes[plan.microbatches];
        size.isBound || plan.predicted.step < size.step)
      size = {plan.predicted.step, false};
  return sizes;
}

void Finder::climb(
    Plan start,
    llvm::function_ref<std::vector<Plan>(const Plan &)> neighbours) {
  for (bool better = true; better;) {
    better = false;
    for (Plan &other : neighbours(start))
      // Below a thousandth it is no reason.
      if (simulate(other) < start.predicted.step * 0.999) {
        start = other;
        better = true;
      }
  }
}

void Finder::improve() {
  auto vary = [&](const Plan &plan) { return varyPlan(plan, input, program); };
  climb(found.getFastest(), vary);
  // Only then how far units run ahead, which would hide what else could be
  // better; of every schedule the best, since they gain unequally by it.
  std::map<std::string, Plan> starts;
  for (const Plan &plan : found.getPlans()) {
    Plan &best = starts.try_emplace(plan.schedule, plan).first->second;
    if (plan.predicted.step < best.predicted.step)
      best = plan;
  }
  double before = found.getFastest().predicted.step;
  for (auto &[schedule, plan] : starts)
    if (plan.predicted.step < 1.3 * before)
      climb(plan,
            [&](const Plan &plan) { return varyAhead(plan, input.model()); });
  if (found.getFastest().predicted.step < before)
    climb(found.getFastest(), vary);
}

void Finder::simplify() {
  while (true) {
    Plan start = found.getSimplest();
    planner::Complexity most = planner::getComplexity(start);
    std::vector<Plan> others = varyPlan(start, input, program);
    for (size_t u = 0; u < start.units.size(); ++u) {
      const UnitPlan &unit = start.units[u];
      auto change = [&](int64_t dp, int pp, int vpp, int sub) {
        Plan &other = others.emplace_back(start);
        other.units[u] =
            planner::makeUnit(input, int(u), unit.tp, dp, pp, vpp, unit.save,
                              /*even=*/false, start.goesBack());
        other.units[u].firstRank = unit.firstRank;
        other.units[u].sub = sub;
        other.units[u].overlap = unit.overlap;
      };
      if (unit.vpp > 1)
        change(unit.dp, unit.pp, 1, unit.sub);
      if (unit.pp > 1)
        change(unit.dp * unit.pp, 1, 1, 1);
      if (unit.sub > 1)
        change(unit.dp, unit.pp, unit.vpp, 1);
    }
    for (Plan &other : others)
      if (!makeExecutable(other, input, program) &&
          planner::getComplexity(other) < most)
        simulate(other);
    if (!(planner::getComplexity(found.getSimplest()) < most))
      return;
  }
}

void Finder::search(const std::vector<Plan> &plans,
                    const std::vector<Plan> &all) {
  tryBest(plans);
  if (found.empty())
    tryBest(withLess(all));
  if (found.empty())
    return;
  improve();
  simplify();
}

planner::Searched Finder::getSearched() const {
  planner::Searched searched = ledger.get();
  searched.refused = numRefused;
  if (program.microbatches.size() > 1)
    searched.sizes = getSizes();
  return searched;
}

void Finder::reconsider(bool varied) {
  if (!refused)
    return;
  Plan start = *std::exchange(refused, std::nullopt);
  ledger.forget(start);
  std::vector<Plan> others = {start};
  planner::Candidates rest;
  for (Plan &plan : found.getPlans()) {
    auto most = [](const UnitPlan &unit) {
      return unit.beyond.empty() ? 0 : *llvm::max_element(unit.beyond);
    };
    Plan before = plan;
    refusals.tell(plan);
    bool stillFits = true;
    for (auto [unit, known] : llvm::zip(plan.units, before.units)) {
      stillFits &=
          plan.predicted.memory[unit.module] + most(unit) - most(known) <=
          input.costs.cluster.getLeastMemory(unit.firstRank, unit.getRanks());
    }
    if (stillFits) {
      rest.add(std::move(plan));
      continue;
    }
    ledger.forget(plan);
    others.push_back(std::move(plan));
  }
  found = std::move(rest);
  // With less kept where that is too much.
  refusals.tell(start);
  if (varied)
    llvm::append_range(others, varyPlan(start, input, program));
  for (Plan &plan : others)
    if (!makeExecutable(plan, input, program))
      simulate(plan);
}

Expected<Plan> Finder::choose(const planner::Robustness *robustness,
                              MeasurePlan measure) {
  auto best = robustness ? planner::chooseRobust(input, found, *robustness)
                         : found.choose();
  if (!best)
    return best;
  std::string decided = printDecisions(*best, input.model());
  auto drop = [&] {
    planner::Candidates others;
    for (Plan &plan : found.getPlans())
      if (printDecisions(plan, input.model()) != decided)
        others.add(std::move(plan));
    found = std::move(others);
  };
  // Those that were slower than others have not been asked about.
  if (Error error = accepts(*best)) {
    drop();
    return llvm::make_error<planner::DoesNotFit>(0, 0, 0,
                                                 toString(std::move(error)));
  }
  if (Error error = predict(*best, measure)) {
    ++numRefused;
    drop();
    refused = std::move(*best);
    return error;
  }
  return best;
}

Error Finder::predict(Plan &plan, MeasurePlan measure) {
  // The program's own search places as many tasks as it likes.
  auto step = planner::simulateFitting(input.costs, plan, input.batch);
  if (!step && step.errorIsA<planner::DoesNotFit>())
    return step.takeError();
  if (!step) // that search found no order within memory
    return llvm::make_error<planner::DoesNotFit>(0, 0, 0,
                                                 toString(step.takeError()));
  plan.predicted = step->predicted;
  if (!measure)
    return Error::success();
  auto allocated = measure(plan);
  if (!allocated)
    return allocated.takeError();
  plan.predicted.allocated = std::move(*allocated);
  return refusals.check(plan, *step, input.costs.cluster);
}

Error Finder::explainNone() const {
  const std::string &measured = refusals.reason.get();
  std::string why = measured.empty() ? reason.get() : measured;
  return llvm::createStringError(
      "no plan was found that can be executed: " +
      (why.empty() ? "there is no configuration" : why));
}

/// What policies found, by their names.
using Asked = std::map<std::string, std::vector<Plan>>;

/// Every policy is searched to its end.
void askAll(const planner::PolicyInput &input, Asked &asked) {
  for (const planner::Policy &policy : planner::getPolicies())
    if (auto found = expectedToOptional(planner::findPlans(policy.name, input)))
      asked[policy.name] = found->getPlans().vec();
}

} // namespace

Expected<Plan>
findExecutablePlan(llvm::StringRef policy, const planner::PolicyInput &input,
                   const PlannedProgram &program,
                   llvm::function_ref<Error(const Plan &)> accepts,
                   Refusals &refusals, const planner::Robustness *robustness,
                   MeasurePlan measure) {
  Finder finder(input, program, accepts, refusals);
  bool joint = policy == "joint";
  planner::PolicyInput asking = input;
  asking.scheduleEffort = kScheduleEffort;
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
