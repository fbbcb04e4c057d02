//===- Disjoint.cpp - Units on ranks of their own -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// For every layout of the backbone and number of microbatches, the other units
// get as few devices as let them keep up with its beat; the backbone's data
// parallel size is the largest that leaves them room. On clusters with several
// kinds of devices each unit is put on the kind that serves it cheapest.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "dialects/dist/SharedExperts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

/// A unit's layout that keeps up; dp is 0 if there is none.
struct Sized {
  int tp = 0, pp = 1;
  int64_t dp = 0;
  Save save = Save::None;
  double seconds = 0; ///< of all replicas' parts of a microbatch
  int64_t most = 1;   ///< replicas, each with an item
  int64_t devices() const { return int64_t(tp) * pp * dp; }
};

/// Layouts of a module on one kind of node, priced once.
class Sizer {
public:
  Sizer(const PolicyInput &input, int module, int node)
      : memory(input.costs.cluster.getMemory(node)),
        items(input.cache->getTotal(module).items) {
    int layers = int(input.model().modules[module].layers.size());
    const ModuleCost &cost = input.costs.get(node, module);
    TokenSums largest = input.cache->getLargest(module);
    for (Save save : {Save::All, Save::Vjp, Save::None})
      for (int tp : tensorSizes(input, module)) {
        if (input.costs.cluster.nodes[node].devices % tp)
          continue;
        CostOptions options{tp, save};
        const LayerPrices &prices = input.prices(module, options, 1, node);
        entries.push_back({tp, layers, save, prices.total.back(),
                           prices.kept.back(), cost.state(0, layers, tp, 8),
                           cost.module(options, largest).total()});
      }
    samples = double(input.samples());
  }

  /// Fewest devices that do `meanSize` samples, the mean of a microbatch, in
  /// `seconds`.
  Sized size(double seconds, double meanSize, int64_t inFlight) const {
    Sized best;
    int64_t most = std::max<int64_t>(1, int64_t(items * meanSize / samples));
    for (const Entry &entry : entries) {
      // No number of stages needs fewer.
      double least = entry.tp * (entry.perSample * meanSize / seconds);
      if (best.dp > 0 && least > 1.000001 * double(best.devices()))
        continue;
      for (int pp : {1, 2, 3, 4}) {
        // A replica or more.
        if (best.dp > 0 && int64_t(entry.tp) * pp >= best.devices())
          break;
        if (pp > entry.layers || entry.largest / pp > 1.1 * seconds)
          continue;
        double time = entry.perSample * meanSize / pp;
        int64_t dp = std::max<int64_t>(1, int64_t(std::ceil(time / seconds)));
        Sized one{entry.tp, pp, dp, entry.save, time, most};
        if (dp > most || (best.dp > 0 && one.devices() >= best.devices()))
          continue;
        double kept = entry.keptPerSample * meanSize / double(dp) / pp *
                      double(inFlight + pp);
        if (entry.state / pp + kept > 0.92 * memory)
          continue;
        best = one;
      }
    }
    return best;
  }

private:
  struct Entry {
    int tp, layers;
    Save save;
    double perSample, keptPerSample, state, largest;
  };
  double memory, items, samples;
  std::vector<Entry> entries;
};

/// The backbone's layout; the others are sized to keep up with it.
struct Backbone {
  int tp, pp, vpp;
  Save save;
  double slack; ///< beat of the others over the backbone's
  int ep = 1;
  /// Replicas are a multiple of.
  int64_t getJoined() const { return dist::countJoined(ep, tp, 1); }
  CostOptions getOptions() const {
    CostOptions options{tp, save};
    options.ep = ep;
    return options;
  }
};

class Disjoint {
public:
  /// `nodes`: kind of node of every unit.
  Disjoint(const PolicyInput &input, std::vector<int> nodes)
      : input(input), nodes(std::move(nodes)) {
    const Cluster &cluster = input.costs.cluster;
    for (size_t m = 0; m < input.model().modules.size(); ++m)
      sizers.emplace_back(input, int(m), this->nodes[m]);
    capacity.assign(cluster.nodes.size(), 0);
    // Parts of nodes of one device count as one kind.
    for (size_t i = 0; i < cluster.nodes.size(); ++i)
      capacity[kindOf(int(i))] += cluster.getNumDevices(int(i));
    several = llvm::any_of(
        capacity, [&](int64_t c) { return c > 0 && c < input.gpus(); });
  }

  /// Whether weights and half of what 1F1B keeps fit: no schedule needs less.
  bool mayFit(const Backbone &layout, int64_t micro) const {
    int pace = input.model().pace, node = nodes[pace];
    const Module &module = input.model().modules[pace];
    const LayerPrices &prices =
        input.prices(pace, layout.getOptions(), 1, node);
    double kept = prices.kept.back();
    double weights = module.bytes.weight;
    weights += module.trainable ? module.bytes.gradient : 0;
    // All stages hold a microbatch each once the pipeline is full.
    double fraction = layout.pp > 1 ? 0.5 : 1;
    return prices.parameters.back() * weights / (layout.tp * layout.pp) +
               fraction * kept * double(micro) <=
           input.costs.cluster.getMemory(node);
  }

  int64_t getMostReplicas(const Backbone &layout) const {
    return capacity[kindOf(nodes[input.model().pace])] /
           (int64_t(layout.tp) * layout.pp);
  }

  /// The largest DP up to `most` that leaves room for the others; nothing if
  /// there is none.
  std::optional<Plan> make(const Backbone &layout, int64_t micro,
                           int64_t most) const {
    // The others' need grows with DP: a few steps of bisection.
    std::optional<UnitSizes> best;
    int64_t joined = layout.getJoined(), low = 1, high = most / joined;
    while (low <= high) {
      int64_t dp = best || low == 1 ? (low + high + 1) / 2 : low;
      auto sizes = size(layout, micro, dp * joined);
      // Devices of one kind need not be in one place.
      if (sizes && (!several || toPlan(layout, micro, *sizes))) {
        best = std::move(sizes);
        low = dp + 1;
      } else {
        high = dp - 1;
      }
    }
    if (!best)
      return std::nullopt;
    // With uneven data simulations in full take the longer, the more replicas
    // there are: more than they bring.
    if (input.isEven())
      if (auto plan = toPlan(layout, micro, spendIdle(*best)))
        return plan;
    return toPlan(layout, micro, *best);
  }

private:
  int kindOf(int node) const {
    int first = 0;
    while (input.costs.cluster.nodes[first].device !=
           input.costs.cluster.nodes[node].device)
      ++first;
    return first;
  }

  /// What all units have for a backbone of so many replicas; nothing if there
  /// are too few devices.
  struct UnitSizes {
    int64_t microbatches;
    double beat; ///< seconds of a microbatch in a stage of the backbone
    SmallVector<Sized, 4> units;
  };
  std::optional<UnitSizes> size(const Backbone &layout, int64_t micro,
                                int64_t dp) const {
    const Model &model = input.model();
    int64_t n = input.divideSamples(dp * micro);
    if (layout.vpp > 1 && n > layout.pp)
      n = n / layout.pp * layout.pp;
    double meanSize = double(input.samples()) / double(n);
    double priced = PolicyInput::nearestPower(meanSize / double(dp));
    const LayerPrices &prices = input.cache->get(nodes[model.pace], model.pace,
                                                 layout.getOptions(), priced);
    double uneven = input.cache->getUnevenness(n, dp, true);
    double beat = prices.total.back() * meanSize / double(dp) / priced /
                  layout.pp * uneven;
    // Where microbatches differ, large ones may meet; before a barrier of the
    // batch all are kept.
    int64_t inFlight =
        model.contrast.towers.empty()
            ? std::min<int64_t>(n, layout.pp + (uneven > 1.02 ? 2 : 0))
            : n;
    SmallVector<int64_t, 4> used(capacity.size(), 0);
    UnitSizes result{n, beat, {}};
    for (size_t m = 0; m < model.modules.size(); ++m) {
      Sized one = int(m) == model.pace
                      ? Sized{layout.tp, layout.pp, dp, layout.save}
                      : sizers[m].size(beat * layout.slack, meanSize, inFlight);
      int kind = kindOf(nodes[m]);
      used[kind] += one.devices();
      if (one.dp == 0 || used[kind] > capacity[kind])
        return std::nullopt;
      result.units.push_back(one);
    }
    return result;
  }

  /// Who just keeps up is late in the end: devices that are left go to who has
  /// most to do on each, until it needs half of the beat.
  UnitSizes spendIdle(UnitSizes sizes) const {
    SmallVector<int64_t, 4> left(capacity.begin(), capacity.end());
    for (auto [unit, node] : zip_equal(sizes.units, nodes))
      left[kindOf(node)] -= unit.devices();
    auto canGrow = [&](size_t m) {
      const Sized &unit = sizes.units[m];
      return int(m) != input.model().pace && unit.dp < unit.most &&
             unit.seconds > double(unit.dp) * sizes.beat / 2 &&
             unit.tp * unit.pp <= left[kindOf(nodes[m])];
    };
    while (true) {
      int next = -1;
      for (size_t m = 0; m < sizes.units.size(); ++m)
        if (canGrow(m) &&
            (next < 0 ||
             sizes.units[m].seconds / double(sizes.units[m].dp) >
                 sizes.units[next].seconds / double(sizes.units[next].dp)))
          next = int(m);
      if (next < 0)
        return sizes;
      Sized &unit = sizes.units[next];
      ++unit.dp;
      left[kindOf(nodes[next])] -= unit.tp * unit.pp;
    }
  }

  std::optional<Plan> toPlan(const Backbone &layout, int64_t micro,
                             const UnitSizes &sizes) const {
    Plan plan;
    plan.micro = micro;
    plan.microbatches = sizes.microbatches;
    plan.schedule = layout.vpp > 1 ? "interleaved" : "1f1b";
    for (size_t m = 0; m < sizes.units.size(); ++m) {
      const Sized &unit = sizes.units[m];
      plan.units.push_back(
          makeUnit(input, int(m), unit.tp, unit.dp, unit.pp,
                   int(m) == input.model().pace ? layout.vpp : 1, unit.save));
    }
    plan.units[input.model().pace].ep = layout.ep;
    if (!placeUnits(input, plan, several ? nodes : std::vector<int>()))
      return std::nullopt;
    return plan;
  }

  const PolicyInput &input;
  std::vector<int> nodes;
  std::vector<Sizer> sizers;
  std::vector<int64_t> capacity;
  bool several = false; ///< kinds of devices
};

/// With every size of microbatches that may fit, experts over as few ranks as
/// that takes.
void addPlans(const PolicyInput &input, const Disjoint &disjoint,
              Backbone layout, ArrayRef<int> shares, std::vector<Plan> &plans) {
  int pace = input.model().pace,
      layers = int(input.model().modules[pace].layers.size());
  int64_t replicas = disjoint.getMostReplicas(layout);
  for (int64_t micro : microSizes(input, {1, 2, 3, 4, 6, 8, 12})) {
    int64_t most = std::min(replicas, input.divideSamples(micro));
    bool may = false;
    for (int ep : micro > input.samples() ? ArrayRef<int>() : shares) {
      layout.ep = ep;
      layout.vpp = 1;
      if (most < layout.getJoined() || !disjoint.mayFit(layout, micro))
        continue;
      may = true;
      auto plan = disjoint.make(layout, micro, most);
      if (!plan)
        continue;
      plans.push_back(*plan);
      // One replica less is sometimes better: fewer uneven parts.
      int64_t dp = plan->units[pace].dp;
      for (int vpp : {2, 4})
        if (layout.pp > 1 && layout.pp * vpp <= layers &&
            plan->microbatches >= layout.pp) {
          layout.vpp = vpp;
          if (auto more = disjoint.make(layout, micro, dp))
            plans.push_back(*more);
        }
      if (shares.size() == 1 || std::isfinite(estimate(input, *plan)))
        break;
    }
    if (!may)
      break;
  }
}

void addPlans(const PolicyInput &input, const Disjoint &disjoint,
              std::vector<Plan> &plans) {
  const Module &pace = input.model().modules[input.model().pace];
  int layers = int(pace.layers.size());
  for (int tp : tensorSizes(input, input.model().pace)) {
    std::vector<int> shares = pace.listExpertRanks(tp, 1, input.gpus() / tp);
    if (shares.empty()) // nothing is described
      shares = {1};
    for (int pp = 1; pp <= std::min(layers, 40); pp += pp < 16   ? 1
                                                       : pp < 24 ? 2
                                                                 : 4)
      for (Save save : {Save::All, Save::Vjp, Save::None})
        for (double slack : {0.8, 1.0})
          addPlans(input, disjoint, {tp, pp, 1, save, slack}, shares, plans);
  }
}

} // namespace

std::vector<Plan> disjointPlans(const PolicyInput &input) {
  const Cluster &cluster = input.costs.cluster;
  size_t modules = input.model().modules.size();
  // One kind of node for each kind of device, the first of its nodes.
  std::vector<int> kinds;
  for (size_t i = 0; i < cluster.nodes.size(); ++i)
    if (llvm::none_of(kinds, [&](int kind) {
          return cluster.nodes[kind].device == cluster.nodes[i].device;
        }))
      kinds.push_back(int(i));
  std::vector<Plan> plans;
  // All ways to put units on kinds; few modules, few kinds.
  size_t ways = 1;
  for (size_t m = 0; m < modules && ways < 64; ++m)
    ways *= kinds.size();
  for (size_t way = 0; way < ways; ++way) {
    std::vector<int> nodes;
    size_t rest = way;
    for (size_t m = 0; m < modules; ++m) {
      nodes.push_back(kinds[rest % kinds.size()]);
      rest /= kinds.size();
    }
    addPlans(input, Disjoint(input, nodes), plans);
  }
  return plans;
}

} // namespace dt::planner
