//===- PlanFinder.cpp - Plans that can be executed --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/PlanFinder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Parallel.h"

#include <algorithm>
#include <cmath>
#include <utility>

using llvm::Error;
using llvm::Expected;

namespace dt::plan {

using planner::UnitPlan;

/// The most promising plans, which are simulated.
static constexpr size_t kSimulated = 48;
/// So many at once.
static constexpr size_t kTogether = 6;

double PlanFinder::getMost() const {
  return found.empty()
             ? INFINITY
             : found.getFastest().predicted.step * (1 + planner::kNegligible);
}

std::vector<PlanFinder::Trial> PlanFinder::simulate(std::vector<Plan> plans) {
  std::vector<Trial> trials;
  for (Plan &plan : plans)
    trials.push_back({std::move(plan)});
  for (size_t i = 0; i < trials.size(); i += kTogether)
    simulateTogether(llvm::MutableArrayRef(trials).slice(
        i, std::min(kTogether, trials.size() - i)));
  return trials;
}

void PlanFinder::simulateTogether(llvm::MutableArrayRef<Trial> trials) {
  double most = getMost();
  std::vector<Trial *> open;
  for (Trial &trial : trials) {
    planner::placeBlocks(input, trial.plan);
    refusals.tell(trial.plan);
    if (!asked.empty())
      finders[printDecisions(trial.plan, input.model())].insert(asked);
    // Nothing that may be chosen is left out.
    double bound = ledger.look(input, trial.plan);
    trial.fits = std::isfinite(bound);
    if ((bound < most || found.empty()) && ledger.take(trial.plan))
      open.push_back(&trial);
  }
  planner::StepOptions options;
  options.scheduleEffort = kScheduleEffort;
  std::vector<std::optional<Expected<planner::PlannedStep>>> steps(open.size());
  llvm::parallelFor(0, open.size(), [&](size_t i) {
    steps[i].emplace(planner::simulateFitting(input.costs, open[i]->plan,
                                              input.batch, options));
  });
  for (auto [trial, step] : llvm::zip_equal(open, steps))
    settle(*trial, std::move(*step));
}

void PlanFinder::settle(Trial &trial, Expected<planner::PlannedStep> step) {
  Plan &plan = trial.plan;
  trial.fits = step || !step.errorIsA<planner::DoesNotFit>();
  if (!step)
    return reason.note(step.takeError());
  double objective = plan.predicted.objective;
  plan.predicted = step->predicted;
  plan.predicted.objective = objective ? objective : step->predicted.step;
  if (Error error = accepts(plan, /*isOrdered=*/true))
    return reason.note(std::move(error));
  trial.step = plan.predicted.step;
  found.add(plan);
}

void PlanFinder::simulateWhatFits(llvm::ArrayRef<Plan> plans) {
  // By plan: what is tried next comes last.
  std::vector<std::vector<Plan>> open;
  for (Plan plan : plans) {
    int64_t first = std::exchange(plan.microbatches, 0);
    std::vector<Plan> &own = open.emplace_back();
    for (Plan &other : withMicrobatches(plan, program))
      if (!makeExecutable(other, input, program) && other.microbatches >= first)
        own.insert(own.begin(), std::move(other));
  }
  auto isDone = [](const std::vector<Plan> &own) { return own.empty(); };
  for (llvm::erase_if(open, isDone); !open.empty();
       llvm::erase_if(open, isDone)) {
    std::vector<Plan> next;
    std::vector<bool> known;
    for (std::vector<Plan> &own : open) {
      known.push_back(ledger.has(own.back()));
      next.push_back(std::move(own.back()));
      own.pop_back();
    }
    for (auto [own, trial, isKnown] :
         llvm::zip_equal(open, simulate(std::move(next)), known))
      if (trial.fits || isKnown)
        own.clear();
  }
}

/// Bytes of the fullest device, about: what is nearest to fitting is tried
/// first where nothing fits.
double PlanFinder::memoryOf(const Plan &plan) const {
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

std::vector<PlanFinder::Ranked> PlanFinder::rank(std::vector<Plan> &plans) {
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

void PlanFinder::tryOwn(llvm::StringRef policy, std::vector<Plan> plans) {
  asked = policy.str();
  std::vector<Plan> ranked;
  for (auto [seconds, bytes, i] : rank(plans))
    ranked.push_back(plans[i]);
  simulateWhatFits(ranked);
  asked.clear();
}

double PlanFinder::getLimit(llvm::StringRef chooser) const {
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

void PlanFinder::tryBest(std::vector<Plan> plans) {
  std::vector<Ranked> order = rank(plans);
  size_t next = 0;
  while (true) {
    std::vector<Plan> together;
    for (; next < order.size() && together.size() < kTogether; ++next) {
      auto [seconds, bytes, i] = order[next];
      if (!found.empty() && (next >= kSimulated || std::isinf(seconds)))
        break;
      // Where nothing fits by estimate, some are tried all the same.
      if (next >= 4 * kSimulated)
        break;
      together.push_back(plans[i]);
    }
    if (together.empty())
      break;
    simulateWhatFits(together);
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
    simulate({plans[i]});
  }
}

std::map<int64_t, planner::Searched::Size> PlanFinder::getSizes() const {
  std::map<int64_t, planner::Searched::Size> sizes;
  for (int64_t number : llvm::make_first_range(program.microbatches))
    sizes[number] = {ledger.getBound(number), true};
  for (const Plan &plan : found.getPlans())
    if (auto &size = sizes[plan.microbatches];
        size.isBound || plan.predicted.step < size.step)
      size = {plan.predicted.step, false};
  return sizes;
}

void PlanFinder::climb(
    Plan start,
    llvm::function_ref<std::vector<Plan>(const Plan &)> neighbours) {
  for (bool better = true; better;) {
    better = false;
    for (Trial &trial : simulate(neighbours(start)))
      // Below a thousandth it is no reason.
      if (trial.step < start.predicted.step * 0.999) {
        start = std::move(trial.plan);
        better = true;
      }
  }
}

void PlanFinder::improve() {
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

void PlanFinder::simplify() {
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
    llvm::erase_if(others, [&](Plan &other) {
      return makeExecutable(other, input, program) ||
             !(planner::getComplexity(other) < most);
    });
    simulate(std::move(others));
    if (!(planner::getComplexity(found.getSimplest()) < most))
      return;
  }
}

void PlanFinder::search(const std::vector<Plan> &plans,
                        const std::vector<Plan> &all) {
  tryBest(plans);
  if (found.empty())
    tryBest(withLess(all));
  if (found.empty())
    return;
  improve();
  simplify();
}

planner::Searched PlanFinder::getSearched() const {
  planner::Searched searched = ledger.get();
  searched.refused = numRefused;
  if (program.microbatches.size() > 1)
    searched.sizes = getSizes();
  return searched;
}

void PlanFinder::reconsider(bool varied) {
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
  llvm::erase_if(others, [&](Plan &plan) {
    return makeExecutable(plan, input, program).has_value();
  });
  simulate(std::move(others));
}

void PlanFinder::drop(const Plan &plan) {
  std::string decided = printDecisions(plan, input.model());
  planner::Candidates others;
  for (Plan &other : found.getPlans())
    if (printDecisions(other, input.model()) != decided)
      others.add(std::move(other));
  found = std::move(others);
}

Expected<Plan> PlanFinder::pick(const planner::Robustness *robustness) {
  std::string why;
  while (!found.empty()) {
    auto best = robustness ? planner::chooseRobust(input, found, *robustness)
                           : found.choose();
    if (!best)
      return best;
    Error error = accepts(*best, /*isOrdered=*/false);
    if (!error)
      return best;
    why = toString(std::move(error));
    drop(*best);
  }
  return llvm::make_error<planner::DoesNotFit>(0, 0, 0, why);
}

Expected<Plan> PlanFinder::choose(const planner::Robustness *robustness,
                                  MeasurePlan measure) {
  auto best = pick(robustness);
  if (!best)
    return best;
  Plan chosen = *best;
  if (Error error = predict(*best, measure)) {
    ++numRefused;
    drop(chosen);
    refused = std::move(*best);
    return error;
  }
  return best;
}

Error PlanFinder::predict(Plan &plan, MeasurePlan measure) {
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

Error PlanFinder::explainNone() const {
  const std::string &measured = refusals.reason.get();
  std::string why = measured.empty() ? reason.get() : measured;
  return llvm::createStringError(
      "no plan was found that can be executed: " +
      (why.empty() ? "there is no configuration" : why));
}

} // namespace dt::plan
