//===- Policy.cpp - What policies share -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "dialects/dist/SharedExperts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

using namespace llvm;

namespace dt::planner {

Policies &getPolicies() {
  static Policies policies = {
      {"megatron",
       "one layout for all, encoder and generator on the end stages' "
       "ranks, smallest PP that fits",
       [](const PolicyInput &input) { return listMegatron(input, false); }},
      {"megatron-stages",
       "one layout for all, encoder and generator on stages of their own",
       [](const PolicyInput &input) { return listMegatron(input, true); }},
      {"homogeneous", "the best uniform layout", listHomogeneous},
      {"disttrain", "DistTrain's formulation, whole samples, algorithm 2",
       listDistTrain},
      {"distmm", "DISTMM's partitioner, balancer and placement", listDistMM},
      {"colocated", "units share ranks in phases, each with its own layout",
       listColocated},
      {"bubble", "encoder and generator in the backbone's bubbles", listBubble},
      {"joint", "all of these, item by item", listJoint, /*mixesKinds=*/true,
       /*takesAll=*/true},
  };
  return policies;
}

std::vector<int> tensorSizes(const PolicyInput &input, int module) {
  std::vector<int> result;
  // A TP group is inside a node, and all of a node's devices are in one.
  auto suits = [&](int tp) {
    return input.model().modules[module].maxTP % tp == 0 &&
           any_of(input.costs.cluster.nodes, [&](const NodeKind &node) {
             return node.devices >= tp && node.devices % tp == 0;
           });
  };
  for (int tp = 1; tp <= input.model().modules[module].maxTP; tp *= 2)
    if (suits(tp))
      result.push_back(tp);
  return result;
}

std::vector<int64_t> microSizes(const PolicyInput &input,
                                ArrayRef<int64_t> few) {
  std::vector<int64_t> result = few.vec();
  double tokens =
      meanPart(input, input.model().pace, input.samples(), 1).tokens;
  int64_t next = 1;
  while (next <= result.back())
    next *= 2;
  for (; double(next) * tokens <= 16384 && next <= input.samples(); next *= 2)
    result.push_back(next);
  return result;
}

TokenSums meanPart(const PolicyInput &input, int module, int64_t microbatches,
                   int64_t dp) {
  const TokenSums &sum = input.cache->getTotal(module);
  return sum * (1 / (double(microbatches) * double(dp)));
}

/// Stages a rank that are tried.
static ArrayRef<int> getRounds(const scheduler::Traits &traits) {
  static constexpr int kOne[] = {1}, kTwo[] = {2}, kMore[] = {2, 3, 4, 5, 8};
  if (traits.goesBack)
    return kTwo;
  return traits.interleaves ? ArrayRef<int>(kMore) : ArrayRef<int>(kOne);
}

/// The plan with another schedule, its backbone in so many rounds; nothing if
/// there are too few layers or stages.
static std::optional<Plan> withRounds(const PolicyInput &input,
                                      const Plan &plan, StringRef schedule,
                                      int vpp) {
  Plan other = plan;
  other.schedule = schedule.str();
  UnitPlan &unit = other.units[input.model().pace];
  int layers = int(input.model().modules[unit.module].layers.size());
  if (vpp > 1 && (unit.pp < 2 || unit.pp * vpp > layers))
    return std::nullopt;
  if (vpp != unit.vpp || other.goesBack() != plan.goesBack()) {
    UnitPlan cut = makeUnit(input, unit.module, unit.tp, unit.dp, unit.pp, vpp,
                            unit.save, /*even=*/false, other.goesBack());
    unit.cuts = cut.cuts;
    unit.vpp = vpp;
    unit.saves.clear();
  }
  return other;
}

std::vector<StringRef> sharingSchedules() {
  std::vector<StringRef> names;
  for (const auto &entry : scheduler::Registry::get().getEntries())
    if (entry.traits.planned && entry.traits.sharesRanks)
      names.push_back(entry.name);
  return names;
}

std::vector<Plan> withSchedules(const PolicyInput &input, const Plan &plan,
                                bool anyPlacement) {
  const UnitPlan &pace = plan.units[input.model().pace];
  std::vector<Plan> plans;
  for (const auto &entry : scheduler::Registry::get().getEntries()) {
    const scheduler::Traits &traits = entry.traits;
    if (!traits.planned ||
        (!anyPlacement && traits.sharesRanks != plan.sharesRanks()))
      continue;
    // Splitting backwards redoes nothing where nothing was kept; programs
    // would hold everything that is done again.
    if (traits.splitsBackward && pace.save == Save::None)
      continue;
    for (int vpp : getRounds(traits))
      if (entry.name != plan.schedule || vpp != pace.vpp)
        if (auto other = withRounds(input, plan, entry.name, vpp))
          plans.push_back(std::move(*other));
  }
  return plans;
}

std::vector<Plan> splitBackwards(const PolicyInput &input, const Plan &plan) {
  std::vector<Plan> plans = withSchedules(input, plan);
  llvm::erase_if(plans, [](const Plan &other) {
    const scheduler::Traits &traits = other.getTraits();
    return !traits.splitsBackward || traits.order != scheduler::OrderOf::Search;
  });
  return plans;
}

void addBySchedule(const PolicyInput &input, std::vector<Plan> plans,
                   const std::string &prefix, Families &families) {
  for (Plan &plan : plans) {
    if (!plan.getTraits().interleaves)
      for (Plan &other : splitBackwards(input, plan))
        families[prefix + other.schedule].push_back(std::move(other));
    families[prefix + plan.schedule].push_back(std::move(plan));
  }
}

std::vector<Plan> varyExperts(const PolicyInput &input, const Plan &plan,
                              int u) {
  const UnitPlan &unit = plan.units[u];
  std::vector<Plan> plans;
  if (!unit.etp)
    for (int ep :
         input.model().modules[u].listExpertRanks(unit.tp, unit.cp, unit.dp))
      if (ep != unit.ep)
        plans.emplace_back(plan).units[u].ep = ep;
  return plans;
}

std::optional<Plan> withLayout(const PolicyInput &input, const Plan &plan,
                               int u, int tp, int cp, int64_t dp, int pp) {
  Plan other = plan;
  UnitPlan &unit = other.units[u];
  int layers = int(input.model().modules[u].layers.size());
  const Cluster &cluster = input.costs.cluster;
  int node = cluster.nodes[cluster.getNodeKind(unit.firstRank)].devices;
  bool paces = u == input.model().pace;
  if (std::min<int64_t>({cp, dp, pp}) < 1 || pp * unit.vpp > layers ||
      !is_contained(tensorSizes(input, u), tp) || (cp > 1 && tp * cp > node) ||
      (paces && dp > input.samples()))
    return std::nullopt;
  if (tp != unit.tp || pp != unit.pp) {
    unit.cuts = makeUnit(input, u, tp, dp, pp, unit.vpp, unit.save,
                         /*even=*/false, plan.goesBack())
                    .cuts;
    unit.saves.clear();
  }
  // A replica's microbatches stay as large.
  if (paces) {
    int64_t n = plan.microbatches * unit.dp / dp,
            rounds = plan.getTraits().interleaves && n > pp ? pp : 1;
    n = std::clamp<int64_t>(n / rounds * rounds, 1, input.samples() / dp);
    other.microbatches = n;
    other.micro = input.divideSamples(n * dp);
  }
  std::tie(unit.tp, unit.cp, unit.dp, unit.pp) = std::tuple(tp, cp, dp, pp);
  unit.ring = unit.ring && cp > 1;
  if (!unit.etp &&
      !is_contained(input.model().modules[u].listExpertRanks(tp, cp, dp),
                    unit.ep))
    unit.ep = 1;
  return other;
}

std::vector<Plan> tradeRanks(const PolicyInput &input, const Plan &plan,
                             int u) {
  const UnitPlan &unit = plan.units[u];
  std::vector<Plan> plans;
  // What else is on the ranks lies by their stages.
  if (unit.etp || !unit.blocks.empty() ||
      (plan.sharesRanks() && plan.units.size() > 1))
    return plans;
  if (unit.cp > 1 && input.model().modules[u].keys.ring)
    plans.emplace_back(plan).units[u].ring = !unit.ring;
  // Only the backbone's samples are divided over ranks.
  int count = u == input.model().pace ? 4 : 3;
  for (int more = 0; more < count; ++more)
    for (int less = 0; less < count; ++less) {
      std::array<int64_t, 4> sizes = {unit.tp, unit.dp, unit.pp, unit.cp};
      if (more == less || sizes[less] < 2)
        continue;
      sizes[more] *= 2;
      sizes[less] /= 2;
      auto [tp, dp, pp, cp] = sizes;
      if (auto other =
              withLayout(input, plan, u, int(tp), int(cp), dp, int(pp)))
        plans.push_back(std::move(*other));
    }
  return plans;
}

std::vector<Plan> cutTokens(const PolicyInput &input, const Plan &plan) {
  int pace = input.model().pace;
  const UnitPlan &unit = plan.units[pace];
  std::vector<Plan> plans;
  for (int cp : {2, 4, 8})
    if (auto other =
            withLayout(input, plan, pace, unit.tp, cp, unit.dp / cp, unit.pp);
        other && placeUnits(input, *other))
      plans.push_back(std::move(*other));
  return plans;
}

UnitPlan makeUnit(const PolicyInput &input, int module, int tp, int64_t dp,
                  int pp, int vpp, Save save, bool even, bool back) {
  UnitPlan unit;
  std::tie(unit.module, unit.tp, unit.dp, unit.pp, unit.vpp, unit.save) =
      std::tuple(module, tp, dp, pp, vpp, save);
  int layers = int(input.model().modules[module].layers.size());
  unit.cuts = even || pp * vpp == 1
                  ? evenCuts(layers, pp * vpp)
                  : input.cache->getCuts(module, {tp, save}, pp, vpp, back);
  return unit;
}

} // namespace dt::planner
