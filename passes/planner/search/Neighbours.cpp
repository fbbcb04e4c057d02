//===- Neighbours.cpp - Plans next to a plan ------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/PlanSearch.h"

#include "dialects/dist/SharedExperts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

class Neighbours {
public:
  Neighbours(const PolicyInput &input, bool uniform)
      : input(input), uniform(uniform) {}

  std::vector<Plan> of(const Plan &plan) {
    result.clear();
    varySchedule(plan);
    varyMicrobatches(plan);
    bool disjoint = !plan.sharesRanks() && !uniform;
    for (size_t u = 0; u < plan.units.size(); ++u) {
      varySave(plan, int(u));
      varySlices(plan, int(u));
      for (Plan &other : varyExperts(input, plan, int(u)))
        add(std::move(other));
      if (disjoint) {
        varyReplicas(plan, int(u));
        varyStages(plan, int(u));
      }
    }
    return std::move(result);
  }

  std::vector<Plan> simpler(const Plan &plan) {
    std::vector<Plan> plans = of(plan);
    for (size_t u = 0; u < plan.units.size(); ++u) {
      const UnitPlan &unit = plan.units[u];
      if (uniform)
        continue;
      if (!plan.sharesRanks())
        for (int pp : {unit.pp / 2, 1})
          restage(plan, int(u), pp);
      else if (unit.vpp > 1)
        mergeRounds(plan, int(u));
    }
    llvm::append_range(plans, std::move(result));
    result.clear();
    Complexity own = getComplexity(plan);
    llvm::erase_if(plans, [&](const Plan &other) {
      return !(getComplexity(other) < own);
    });
    return plans;
  }

private:
  /// Places the units again, on the kinds of devices that they were on.
  void add(Plan plan) {
    if (any_of(plan.units, [](const UnitPlan &unit) {
          return !unit.etp &&
                 !dist::canShareExperts(unit.ep, unit.tp, unit.cp, unit.dp);
        }))
      return;
    if (!plan.sharesRanks() && !uniform) {
      std::vector<int> nodes;
      const Cluster &cluster = input.costs.cluster;
      bool several = false, over = false;
      for (const UnitPlan &unit : plan.units) {
        nodes.push_back(cluster.getNodeKind(unit.firstRank));
        several |=
            cluster.nodes[nodes.back()].device != cluster.nodes.front().device;
        over |= !unit.blocks.empty();
      }
      several &= !over; // those go from one kind to the next
      for (int &node : nodes)
        while (node > 0 &&
               cluster.nodes[node - 1].device == cluster.nodes[node].device)
          --node;
      if (!placeUnits(input, plan, several ? nodes : std::vector<int>()))
        return;
      if (!several)
        addFilled(plan);
    }
    result.push_back(std::move(plan));
  }

  /// The same with idle devices given to whoever beside the backbone has most
  /// to do on each of its own.
  void addFilled(Plan plan) {
    bool any = false;
    while (true) {
      int to = -1;
      double most = 0;
      for (size_t u = 0; u < plan.units.size(); ++u) {
        const UnitPlan &unit = plan.units[u];
        int64_t size = int64_t(unit.tp) * unit.pp;
        if (int(u) == input.model().pace || plan.ranks + size > input.gpus())
          continue;
        double work = input.costs.work(int(u), input.cache->getTotal(int(u)));
        if (work / double(unit.getRanks()) > most) {
          most = work / double(unit.getRanks());
          to = int(u);
        }
      }
      if (to < 0)
        break;
      plan.units[to].dp += 1;
      plan.ranks += int64_t(plan.units[to].tp) * plan.units[to].pp;
      any = true;
    }
    if (any && placeUnits(input, plan))
      result.push_back(std::move(plan));
  }

  void varySchedule(const Plan &plan) {
    for (Plan &other : withSchedules(input, plan)) {
      int64_t pp = other.units[input.model().pace].pp;
      if (other.getTraits().interleaves && other.microbatches > pp) {
        other.microbatches = other.microbatches / pp * pp;
        setMicro(other);
      }
      add(std::move(other));
    }
  }

  void setMicro(Plan &plan) const {
    plan.micro = input.divideSamples(plan.microbatches *
                                     plan.units[input.model().pace].dp);
  }

  void varyMicrobatches(const Plan &plan) {
    const UnitPlan &pace = plan.units[input.model().pace];
    for (double factor : {0.5, 0.7, 0.85, 0.93, 1.08, 1.2, 1.5, 2.0}) {
      auto n = int64_t(std::lround(double(plan.microbatches) * factor));
      if (plan.getTraits().interleaves)
        n = std::max<int64_t>(1, n / pace.pp) * pace.pp;
      if (n < 1 || n == plan.microbatches || n * pace.dp > input.samples())
        continue;
      Plan other = plan;
      other.microbatches = n;
      setMicro(other);
      add(other);
      // Larger parts may fit if less of them is kept.
      UnitPlan &unit = other.units[pace.module];
      if (factor > 1 || unit.save != Save::All || !unit.saves.empty())
        continue;
      unit.save = Save::Vjp;
      add(other);
    }
  }

  void varySave(const Plan &plan, int u) {
    for (Save save : {Save::All, Save::Vjp, Save::None})
      if (save != plan.units[u].save || !plan.units[u].saves.empty()) {
        Plan other = plan;
        other.units[u].save = save;
        other.units[u].saves.clear();
        add(other);
      }
    if (auto fitted = fitStages(input, plan, u)) {
      Plan other = plan;
      other.units[u] = *fitted;
      add(other);
    }
  }

  /// Smaller slices only pay where what a layer needs at once matters.
  void varySlices(const Plan &plan, int u) {
    const UnitPlan &unit = plan.units[u];
    TokenSums part = meanPart(input, u, plan.microbatches, unit.dp);
    CostOptions options = plan.getOptions(u);
    int node = input.costs.cluster.getNodeKind(unit.firstRank);
    const ModuleCost &cost = input.costs.get(node, u);
    double most = 0;
    for (size_t kind = 0; kind < cost.getModule().kinds.size(); ++kind)
      most = std::max(most, cost.workspace(int(kind), options, part));
    if (most / unit.sub < input.costs.cluster.getMemory(node) / 16)
      return;
    for (int sub : {2 * unit.sub, 4 * unit.sub})
      if (sub <= part.items) {
        Plan other = plan;
        other.units[u].sub = sub;
        add(other);
      }
  }

  void varyReplicas(const Plan &plan, int u) {
    const UnitPlan &unit = plan.units[u];
    for (double factor : {0.5, 0.8, 0.92, 1.08, 1.2, 1.5, 2.0}) {
      auto dp = int64_t(double(unit.dp) * factor);
      if (factor > 1)
        dp = std::max(dp, unit.dp + 1);
      if (dp < 1 || dp == unit.dp)
        continue;
      Plan other = plan;
      other.units[u].dp = dp;
      if (u == input.model().pace) {
        if (dp * plan.microbatches > input.samples())
          continue;
        setMicro(other);
      }
      add(other);
    }
  }

  /// More stages for fewer replicas and the other way round; other TP or CP.
  void varyStages(const Plan &plan, int u) {
    const UnitPlan &unit = plan.units[u];
    for (int pp : {unit.pp - 1, unit.pp + 1})
      restage(plan, u, pp);
    for (Plan &other : tradeRanks(input, plan, u))
      add(std::move(other));
  }

  /// A unit in so many stages on about as many ranks.
  void restage(const Plan &plan, int u, int pp) {
    const UnitPlan &unit = plan.units[u];
    int64_t dp = pp < 1 ? 0 : unit.dp * unit.pp / pp;
    if (auto other = withLayout(input, plan, u, unit.tp, unit.cp, dp, pp))
      add(std::move(*other));
  }

  /// A unit that shares ranks, with each rank's layers in one stage.
  void mergeRounds(const Plan &plan, int u) {
    const UnitPlan &unit = plan.units[u];
    Plan other = plan;
    other.units[u] =
        makeUnit(input, u, unit.tp, unit.dp, unit.pp, 1, unit.save);
    other.units[u].firstRank = unit.firstRank;
    add(other);
  }

  const PolicyInput &input;
  bool uniform;
  std::vector<Plan> result;
};

} // namespace

std::vector<Plan> neighboursOf(const PolicyInput &input, const Plan &plan,
                               bool uniform) {
  return Neighbours(input, uniform).of(plan);
}

std::vector<Plan> simplerThan(const PolicyInput &input, const Plan &plan,
                              bool uniform) {
  return Neighbours(input, uniform).simpler(plan);
}

} // namespace dt::planner
