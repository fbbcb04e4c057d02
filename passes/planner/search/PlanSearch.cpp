//===- PlanSearch.cpp - Coarse to fine ------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/PlanSearch.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Parallel.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace llvm;

namespace dt::planner {

/// Plans that are simulated at once.
constexpr int kTogether = 6;

/// Simulations that one of a plan counts as: tasks of it, folded, over those of
/// a common one. On shared ranks the replicas that one of the backbone meets
/// differ.
static int sizeOf(const PolicyInput &input, const Plan &plan) {
  int64_t stages = 0, alike = plan.units[input.model().pace].dp;
  for (const UnitPlan &unit : plan.units)
    stages += unit.pp * unit.vpp *
              (plan.sharesRanks() ? std::max<int64_t>(1, unit.dp / alike) : 1);
  return 1 + int(plan.microbatches * stages / 3000);
}

/// The part of all that a search simulates that a plan may be.
constexpr int kLargest = 4;

bool PlanSearch::isWorth(const Plan &plan, double limit) {
  double bound = ledger.look(input, plan);
  // Where nothing fits yet, what does not fit says how much is missing.
  return (bound < limit || std::isinf(limit)) && left > 0 &&
         (std::isinf(limit) || kLargest * sizeOf(input, plan) <= budget) &&
         ledger.take(plan);
}

std::vector<double> PlanSearch::tryTogether(MutableArrayRef<Trial> plans) {
  for (Trial &trial : plans) {
    placeBlocks(input, trial.plan);
    left -= sizeOf(input, trial.plan);
  }
  StepOptions options;
  options.fold = true;
  options.orderEffort = 20000;
  options.parts.effort = 8000;
  options.parts.itemEffort = 0;
  options.parts.sums = &sums;
  options.timeOnly = true;
  // There are thousands of layouts of many devices.
  options.scheduleEffort = input.isSmall() ? 32000 : 16000;
  std::vector<double> steps(plans.size(), INFINITY);
  std::vector<std::optional<Error>> errors(plans.size());
  parallelFor(0, plans.size(), [&](size_t i) {
    StepOptions own = options;
    own.parts.mean = plans[i].plan.assign == Assign::Items;
    auto result = simulateFitting(input.costs, plans[i].plan, input.batch, own);
    if (result)
      steps[i] = result->predicted.step;
    else
      errors[i] = result.takeError();
  });
  for (size_t i = 0; i < plans.size(); ++i) {
    if (errors[i]) {
      reason.note(std::move(*errors[i]));
      continue;
    }
    std::vector<Entry> &entries = found[plans[i].family];
    auto at =
        llvm::upper_bound(entries, steps[i], [](double value, const Entry &e) {
          return value < e.step;
        });
    entries.insert(at, {steps[i], plans[i].plan});
  }
  return steps;
}

double PlanSearch::getBest() const {
  double best = INFINITY;
  for (auto &[family, entries] : found)
    best = std::min(best, entries.front().step);
  return best;
}

void PlanSearch::tryAnyway(StringRef family, std::vector<Plan> plans) {
  std::vector<Trial> trials;
  for (Plan &plan : plans)
    if (ledger.take(plan))
      trials.push_back({family.str(), std::move(plan)});
  int before = left;
  tryTogether(trials);
  left = before;
}

std::vector<PlanSearch::Ranked> PlanSearch::rank(const Families &families,
                                                 int most) const {
  std::vector<Ranked> ranked;
  for (auto &[family, plans] : families)
    for (const Plan &plan : plans)
      ranked.push_back({estimate(input, plan), 0, &family, &plan});
  llvm::stable_sort(ranked, [](const Ranked &a, const Ranked &b) {
    return a.estimate < b.estimate;
  });
  // Estimates compare plans of one family and one TP of the backbone better
  // than others: where few can be simulated, the further behind a plan is in
  // such a class, the less it says.
  double often = input.isSmall() ? 0 : 0.6;
  std::map<std::pair<const std::string *, int>, int> places;
  for (Ranked &one : ranked) {
    int tp = one.plan->units[input.model().pace].tp;
    one.seconds =
        one.estimate * (1 + often * places[{one.family, tp}]++ / most);
  }
  llvm::stable_sort(ranked, [](const Ranked &a, const Ranked &b) {
    return a.seconds < b.seconds;
  });
  // Of plans that differ in little the best comes first, the others behind
  // all: neighbours are looked at later.
  std::set<
      std::tuple<const std::string *, int, int64_t, int, int, Save, int64_t>>
      seen;
  std::stable_partition(ranked.begin(), ranked.end(), [&](const Ranked &one) {
    const UnitPlan &pace = one.plan->units[input.model().pace];
    return seen
        .insert({one.family, pace.tp, pace.dp, pace.pp, pace.vpp, pace.save,
                 one.plan->microbatches})
        .second;
  });
  std::set<const std::string *> started;
  std::stable_partition(ranked.begin(), ranked.end(), [&](const Ranked &one) {
    return started.insert(one.family).second;
  });
  return ranked;
}

void PlanSearch::tryBest(const Families &families, int most, double far) {
  int tried = 0, failed = 0;
  std::vector<Trial> together;
  auto flush = [&] {
    for (double step : tryTogether(together))
      ++(std::isinf(step) ? failed : tried);
    together.clear();
  };
  int mostFailed = input.isSmall() && std::isinf(input.known) ? 3 * most : most;
  for (const Ranked &one : rank(families, most)) {
    if (tried >= most || failed >= mostFailed)
      break;
    // Memory by estimate is too pessimistic at times: some are tried anyway.
    bool fits = !std::isinf(one.estimate);
    double best = std::min(getBest(), input.known);
    if ((!std::isinf(best) && (!fits || one.estimate > far * best)) ||
        !isWorth(*one.plan, 1.2 * best))
      continue;
    together.push_back({*one.family, *one.plan});
    together.back().plan.predicted.objective = fits ? one.estimate : 0;
    if (int(together.size()) >= std::min({kTogether, most - tried, left}))
      flush();
  }
  flush();
}

void PlanSearch::close(const Families &families) {
  closed = true;
  std::vector<std::tuple<double, const std::string *, const Plan *>> open;
  for (auto &[family, plans] : families)
    for (const Plan &plan : plans)
      open.emplace_back(ledger.look(input, plan), &family, &plan);
  llvm::stable_sort(open, [](const auto &a, const auto &b) {
    return std::get<0>(a) < std::get<0>(b);
  });
  std::vector<Trial> together;
  for (auto [bound, family, plan] : open) {
    if (bound >= getBest() || int(together.size()) >= left)
      break;
    if (ledger.take(*plan))
      together.push_back({*family, *plan});
    if (int(together.size()) == kTogether) {
      tryTogether(together);
      together.clear();
    }
  }
  tryTogether(together);
}

void PlanSearch::branch(const Branch &branch) {
  if (!found.count(branch.from))
    return;
  std::vector<Entry> starts = found[branch.from];
  std::vector<Trial> together;
  for (int i = 0; i < std::min<int>(branch.most, int(starts.size())); ++i)
    for (Plan &plan : branch.derive(input, starts[i].plan))
      if (int(together.size()) < left && isWorth(plan, getBest()))
        together.push_back({branch.to, std::move(plan)});
  tryTogether(together);
}

void PlanSearch::improve(int families) {
  std::vector<std::pair<double, std::string>> order;
  for (auto &[family, entries] : found)
    order.emplace_back(entries.front().step, family);
  llvm::sort(order);
  order.resize(std::min<size_t>(order.size(), families));
  int budget = left;
  for (size_t i = 0; i < order.size(); ++i) {
    Entry start = found[order[i].second].front();
    if (start.step > 1.3 * getBest())
      break;
    // Each family gets up to half of what is left.
    int least = budget >> (i + 1);
    while (left > least && step(order[i].second, start, least))
      ;
  }
}

std::vector<Plan> PlanSearch::byEstimate(std::vector<Plan> plans) const {
  std::vector<std::pair<double, size_t>> order;
  for (const Plan &plan : plans)
    order.emplace_back(estimate(input, plan), order.size());
  llvm::sort(order);
  std::vector<Plan> sorted;
  for (auto [seconds, i] : order)
    sorted.push_back(std::move(plans[i]));
  return sorted;
}

bool PlanSearch::step(StringRef family, Entry &start, int least) {
  std::vector<Trial> together;
  auto flush = [&] {
    std::vector<double> steps = tryTogether(together);
    auto first = llvm::min_element(steps);
    bool better = first != steps.end() && *first < start.step;
    if (better)
      start = {*first, std::move(together[first - steps.begin()].plan)};
    together.clear();
    return better;
  };
  for (Plan &plan : byEstimate(neighboursOf(input, start.plan, uniform))) {
    if (left - int(together.size()) > least && isWorth(plan, start.step))
      together.push_back({family.str(), std::move(plan)});
    if (int(together.size()) == kTogether && flush())
      return true;
  }
  return flush();
}

void PlanSearch::spread() {
  Ledger done;
  while (left > 0) {
    const Entry *next = nullptr;
    std::string family;
    for (auto &[name, entries] : found)
      for (const Entry &entry : entries)
        if (entry.step < (next ? next->step : 1.3 * getBest()) &&
            !done.has(entry.plan)) {
          next = &entry;
          family = name;
        }
    if (!next)
      break;
    Entry start = *next;
    done.take(start.plan);
    step(family, start, 0);
  }
}

const PlanSearch::Entry &PlanSearch::getSimplest() const {
  double limit = getBest() * (1 + kNegligible);
  const Entry *simplest = nullptr;
  Complexity least;
  for (auto &[family, entries] : found)
    for (const Entry &entry : entries) {
      if (entry.step > limit)
        break;
      Complexity own = getComplexity(entry.plan);
      if (!simplest ||
          std::pair(own, entry.step) < std::pair(least, simplest->step)) {
        simplest = &entry;
        least = own;
      }
    }
  return *simplest;
}

void PlanSearch::simplify() {
  if (std::isinf(getBest()))
    return;
  left = input.isSmall() ? 8 * kTogether : kTogether;
  while (left > 0) {
    Plan start = getSimplest().plan;
    std::vector<Trial> together;
    for (Plan &plan : byEstimate(simplerThan(input, start, uniform)))
      if (int(together.size()) < std::min(kTogether, left) &&
          isWorth(plan, (1 + kNegligible) * getBest()))
        together.push_back({"simpler", std::move(plan)});
    tryTogether(together);
    if (!(getComplexity(getSimplest().plan) < getComplexity(start)))
      break;
  }
}

int PlanSearch::simulateInFull(ArrayRef<const Entry *> entries,
                               Candidates &candidates) {
  std::vector<std::optional<Expected<PlannedStep>>> results(entries.size());
  // As whoever reads the plan simulates it, who may find that it lacks memory.
  std::vector<Plan> plans;
  for (const Entry *entry : entries)
    plans.push_back(entry->plan);
  StepOptions options;
  options.scheduleEffort = input.scheduleEffort;
  parallelFor(0, entries.size(), [&](size_t i) {
    results[i].emplace(
        simulateFitting(input.costs, plans[i], input.batch, options));
  });
  int fits = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    Expected<PlannedStep> &result = *results[i];
    if (!result) {
      reason.note(result.takeError());
      continue;
    }
    ++fits;
    plans[i].predicted = result->predicted;
    candidates.add(std::move(plans[i]));
  }
  return fits;
}

void PlanSearch::addSimpler(ArrayRef<const Entry *> entries, int most,
                            Candidates &candidates) {
  // Of equally complex ones the fastest, the simplest first.
  std::map<Complexity, const Entry *> order;
  for (const Entry *entry : entries)
    order.try_emplace(getComplexity(entry->plan), entry);
  int tried = 0;
  for (auto &[complexity, entry] : order) {
    if (tried++ == most ||
        !(complexity < getComplexity(candidates.getSimplest())))
      break;
    simulateInFull(entry, candidates);
  }
}

Expected<Candidates> PlanSearch::finish(int most) {
  std::vector<const Entry *> entries;
  for (auto &[family, list] : found)
    for (const Entry &entry : list)
      if (!std::isinf(entry.step))
        entries.push_back(&entry);
  llvm::stable_sort(entries, [](const Entry *a, const Entry *b) {
    return a->step < b->step;
  });
  Candidates candidates;
  most = std::max(most, input.finalists);
  int fitting = 0, i = 0, size = int(entries.size());
  double first = 0;
  // What a folded simulation says is a little off.
  while (i < std::min(size, 4 * most) && fitting < most) {
    if (!fitting)
      first = entries[i]->step;
    if (entries[i]->step > 1.1 * first)
      break;
    int count = std::min(2, size - i);
    while (count < std::min({kTogether, most - fitting, size - i}) &&
           entries[i + count]->step <= 1.1 * first)
      ++count;
    fitting += simulateInFull(ArrayRef(entries).slice(i, count), candidates);
    i += count;
  }
  if (candidates.empty())
    return reason.explain();
  ArrayRef rest =
      ArrayRef(entries).drop_front(i).take_while([&](const Entry *entry) {
        return entry->step <= (1 + 2 * kNegligible) * first;
      });
  addSimpler(rest, most, candidates);
  if (closed)
    candidates.searched = ledger.get();
  return candidates;
}

} // namespace dt::planner
