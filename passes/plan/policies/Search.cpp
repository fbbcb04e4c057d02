//===- Search.cpp - Coarse to fine ----------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::plan {

namespace {

/// All decisions in a line: plans with equal lines are the same.
std::string keyOf(const Plan &plan) {
  std::string key;
  raw_string_ostream os(key);
  os << plan.microbatches << ' ' << plan.schedule << ' ' << int(plan.assign)
     << int(plan.reorder);
  for (const UnitPlan &unit : plan.units) {
    os << '|' << unit.tp << ' ' << unit.dp << ' ' << unit.pp << ' ' << unit.vpp
       << ' ' << unit.cp << ' ' << unit.ep << ' ' << int(unit.save) << ' '
       << unit.firstRank << ' ' << unit.runAhead;
    if (unit.inside)
      os << 'i' << unit.inside->unit << ' ' << unit.inside->stage;
    for (int cut : unit.cuts)
      os << ',' << cut;
  }
  return key;
}

} // namespace

double Search::tryOne(StringRef family, const Plan &plan, double limit) {
  // Interleaving asks for more memory than what it is tried beside.
  if (left <= 0 || lowerBound(input, plan) >= limit ||
      (plan.schedule == "interleaved" && std::isinf(estimate(input, plan))) ||
      !seen.try_emplace(keyOf(plan), 0).second)
    return INFINITY;
  --left;
  StepOptions options;
  options.fold = true;
  options.links = false;
  options.orderEffort = 20000;
  options.parts.effort = 8000;
  options.parts.itemEffort = 0;
  options.parts.mean = plan.assign == Assign::Items;
  options.parts.sums = &sums;
  options.timeOnly = true;
  options.scheduleEffort = 16000;
  auto result = simulateStep(input.costs, plan, input.batch, options);
  if (!result) {
    reason.note(result.takeError());
    return INFINITY;
  }
  double step = result->predicted.step;
  std::vector<Entry> &entries = found[family.str()];
  auto at = llvm::upper_bound(entries, step, [](double value, const Entry &e) {
    return value < e.step;
  });
  entries.insert(at, {step, plan});
  return step;
}

double Search::getBest() const {
  double best = INFINITY;
  for (auto &[family, entries] : found)
    best = std::min(best, entries.front().step);
  return best;
}

void Search::tryBest(StringRef family, std::vector<Plan> plans, int most) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < plans.size(); ++i)
    order.emplace_back(estimate(input, plans[i]), i);
  llvm::sort(order);
  // Estimates compare layouts of one TP better than others: every TP of the
  // backbone has its turn.
  std::map<int, int> turns;
  std::vector<std::pair<int, size_t>> byTurn;
  for (size_t i = 0; i < order.size(); ++i)
    byTurn.emplace_back(
        turns[plans[order[i].second].units[input.model().pace].tp]++, i);
  llvm::sort(byTurn);
  int tried = 0, failed = 0;
  for (auto [turn, at] : byTurn) {
    auto [seconds, i] = order[at];
    // Memory by estimate is too pessimistic at times: some are tried anyway.
    double best = getBest();
    bool fits = !std::isinf(seconds), any = !std::isinf(best);
    if (tried >= most || failed >= 3 * most)
      break;
    if (any && (!fits || seconds > 1.5 * best))
      continue;
    int before = left;
    plans[i].predicted.objective = fits ? seconds : 0;
    double step = tryOne(family, plans[i], 1.2 * best);
    (std::isinf(step) ? failed : tried) += before - left;
  }
}

void Search::branch(StringRef from, StringRef to, int most,
                    function_ref<std::vector<Plan>(const Plan &)> neighbours) {
  auto it = found.find(from.str());
  if (it == found.end())
    return;
  std::vector<Entry> starts = it->second;
  for (int i = 0; i < std::min<int>(most, int(starts.size())); ++i)
    for (const Plan &plan : neighbours(starts[i].plan))
      tryOne(to, plan, 1.05 * getBest());
}

std::vector<std::string> Search::rankFamilies() const {
  std::vector<std::pair<double, std::string>> order;
  for (auto &[family, entries] : found)
    order.emplace_back(entries.front().step, family);
  llvm::sort(order);
  std::vector<std::string> names;
  for (auto &[step, family] : order)
    names.push_back(family);
  return names;
}

void Search::improve(function_ref<std::vector<Plan>(const Plan &)> neighbours,
                     int families) {
  std::vector<std::string> order = rankFamilies();
  if (int(order.size()) > families)
    order.resize(families);
  int budget = left;
  for (size_t i = 0; i < order.size(); ++i) {
    Entry start = found[order[i]].front();
    if (start.step > 1.2 * getBest())
      break;
    // Each family gets an equal share of what is left.
    int least = budget - budget * int(i + 1) / int(order.size());
    bool better = true;
    while (better && left > least) {
      better = false;
      for (Plan &plan : neighbours(start.plan)) {
        double step =
            left > least ? tryOne(order[i], plan, start.step) : INFINITY;
        if (step >= start.step)
          continue;
        start = {step, std::move(plan)};
        better = true;
        break;
      }
    }
  }
}

Expected<Plan> Search::finish(int most) {
  std::optional<Plan> best;
  int fitting = 0;
  double first = 0;
  for (const std::string &family : rankFamilies()) {
    int tried = 0;
    int fits = 0;
    for (Entry &entry : found[family]) {
      // What a folded simulation says is a little off.
      if (fits == 2 || (fits && entry.step > 1.005 * first) || tried++ == 4 ||
          fitting >= most || (best && entry.step > 1.01 * best->predicted.step))
        break;
      auto result = simulateStep(input.costs, entry.plan, input.batch);
      if (!result) {
        reason.note(result.takeError());
        continue;
      }
      if (!fits++)
        first = entry.step;
      if (best && result->predicted.step >= best->predicted.step)
        continue;
      double objective = entry.plan.predicted.objective;
      best = entry.plan;
      best->predicted = result->predicted;
      best->predicted.objective = objective;
    }
    fitting += fits > 0;
  }
  if (!best)
    return createStringError(inconvertibleErrorCode(),
                             reason.get().empty()
                                 ? "no layout of the units fits the devices"
                                 : reason.get());
  return *best;
}

Expected<Plan> fastest(const PolicyInput &input, std::vector<Plan> plans) {
  Search search(input, 2 * input.simulations);
  search.tryBest("all", std::move(plans), input.simulations / 2);
  return search.finish(1);
}

bool placeUnits(const PolicyInput &input, Plan &plan, ArrayRef<int> nodes) {
  const Model &model = input.model();
  const Cluster &cluster = input.costs.cluster;
  auto kind = [&](int unit) { return nodes.empty() ? -1 : nodes[unit]; };
  std::vector<int> order;
  for (size_t u = 0; u < plan.units.size(); ++u)
    if (!plan.units[u].inside)
      order.push_back(int(u));
  // The backbone first among equals, then its neighbours, then the others.
  auto distance = [&](int u) {
    if (u == model.pace)
      return 0;
    for (const ModelEdge &edge : model.edges)
      if ((edge.from == u && edge.to == model.pace) ||
          (edge.to == u && edge.from == model.pace))
        return 1;
    return 2;
  };
  llvm::stable_sort(order, [&](int a, int b) {
    int x = plan.units[a].tp * plan.units[a].cp,
        y = plan.units[b].tp * plan.units[b].cp;
    return x != y ? x > y : distance(a) < distance(b);
  });
  // Ranks of each kind of device follow one another in the cluster.
  std::vector<int64_t> next, end;
  int64_t at = 0;
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    next.push_back(at);
    at += cluster.getNumDevices(int(i));
    end.push_back(at);
  }
  int64_t free = 0;
  for (int u : order) {
    UnitPlan &unit = plan.units[u];
    if (kind(u) < 0) {
      unit.firstRank = free;
      free += unit.getRanks();
      continue;
    }
    int64_t &from = next[kind(u)];
    // Parts of nodes of one device follow one another.
    int64_t last = end[kind(u)];
    for (size_t i = kind(u) + 1;
         i < cluster.nodes.size() &&
         cluster.nodes[i].device == cluster.nodes[kind(u)].device;
         ++i)
      last = end[i];
    if (from + unit.getRanks() > last)
      return false;
    unit.firstRank = from;
    from += unit.getRanks();
  }
  plan.ranks = 0;
  for (UnitPlan &unit : plan.units) {
    if (unit.inside)
      unit.firstRank = plan.units[unit.inside->unit].firstRank;
    plan.ranks = std::max(plan.ranks, unit.firstRank + unit.getRanks());
  }
  return plan.ranks <= input.gpus();
}

} // namespace dt::plan
