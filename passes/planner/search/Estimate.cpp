//===- Estimate.cpp - What a plan costs, without simulating it ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Microseconds a plan, of the prices in Prices.cpp.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

double heldAt(const Plan &plan, const UnitPlan &unit, int p, int64_t inFlight) {
  int64_t after = std::max<int64_t>(0, inFlight - unit.pp);
  double held = double(std::max<int64_t>(1, inFlight - p));
  // Interleaving starts two more forwards for each rank behind, and whole
  // rounds of the chunks that come later; another round if units behind wait
  // for its microbatches.
  if (unit.vpp > 1)
    held = (2.0 * (unit.pp - 1 - p) +
            double(after > 0 ? 2 * unit.vpp - 1 : unit.vpp - 1) * unit.pp + 1) /
           unit.vpp;
  held = std::min(double(plan.microbatches), held);
  if (plan.goesBack() && unit.vpp > 1)
    held = std::min(double(plan.microbatches),
                    0.6 * (unit.pp + 0.5 + 0.5 * double(after)));
  return held;
}

std::vector<int64_t> countInFlight(const PolicyInput &input, const Plan &plan) {
  const scheduler::Traits &traits = plan.getTraits();
  const UnitPlan &pace = plan.units[input.model().pace];
  int64_t behind = 0;
  for (const UnitPlan &unit : plan.units)
    behind += unit.pp;
  // What comes before an interleaved unit runs two of its rounds ahead.
  behind += pace.vpp > 1 ? pace.pp : 0;
  bool barrier = !input.model().contrast.towers.empty();
  std::vector<int64_t> result;
  for (const UnitPlan &unit : plan.units) {
    bool own = unit.module == input.model().pace && !barrier;
    if (unit.module == input.model().pace && pace.vpp > 1)
      behind -= pace.pp;
    // Phases and batch-syncs have all there at once, bubbles what the backbone
    // has in flight; that is one if it takes turns on its only stage's ranks.
    bool turns = traits.sharesRanks && !traits.runsInPhases;
    result.push_back(own && turns && pace.pp == 1     ? 1
                     : own                            ? behind
                     : barrier || traits.runsInPhases ? plan.microbatches
                     : turns                          ? pace.pp + 1
                                                      : behind);
    behind = std::max<int64_t>(1, behind - unit.pp);
  }
  return result;
}

namespace {

/// What estimates of a unit rest on: prices of its layers, and the factor from
/// the priced samples to a part.
struct UnitPrices {
  UnitPrices(const PolicyInput &input, const Plan &plan, int u)
      : unit(plan.units[u]), node(input.nodeOf(plan, u)),
        back(plan.goesBack()) {
    double samples =
        double(input.samples()) / (double(plan.microbatches) * double(unit.dp));
    double priced = PolicyInput::nearestPower(samples);
    layers = input.pricesOf(plan, u, priced);
    factor = samples / priced;
    // Those on the first kind have more or less than the mean part.
    double all = 0, most = 0;
    for (const UnitPlan::Block &block : unit.blocks) {
      all += double(block.replicas) * block.speed;
      most = std::max<double>(most, block.speed);
    }
    if (!unit.blocks.empty()) {
      factor *= unit.blocks.front().speed * double(unit.dp) / all;
      fullest = most / unit.blocks.front().speed;
    }
  }
  /// Calls f(stage, position) for all stages.
  template <typename Function> void forStages(Function f) const {
    for (int s = 0; s < unit.pp * unit.vpp; ++s)
      f(s, scheduler::positionOf(s, unit.pp, back));
  }

  const UnitPlan &unit;
  int node;
  bool back;
  std::shared_ptr<const LayerPrices> layers;
  double factor;
  double fullest = 1; ///< part of a replica, over those on the first kind
};

/// By pipeline position.
using Positions = SmallVector<double, 64>;

/// Seconds of one microbatch in a unit's slowest stage and in all of them.
struct UnitTimes {
  double slowest = 0, whole = 0, stages = 1;
};

UnitTimes timesOf(const UnitPrices &prices) {
  const UnitPlan &unit = prices.unit;
  UnitTimes result;
  result.whole = prices.layers->total.back() * prices.factor;
  result.stages = prices.unit.pp;
  Positions seconds(unit.pp, 0);
  prices.forStages([&](int s, int position) {
    seconds[position] +=
        prices.layers->seconds(unit.cuts[s], unit.cuts[s + 1]) * prices.factor;
  });
  result.slowest = *std::max_element(seconds.begin(), seconds.end());
  return result;
}

/// What is left of summing gradients once the last task is done, and the
/// parameters to all replicas.
double reductionTime(const PolicyInput &input, const UnitPrices &prices) {
  const Module &module = input.model().modules[prices.unit.module];
  if (!module.trainable)
    return 0;
  const UnitPlan &unit = prices.unit;
  const Cluster &cluster = input.costs.cluster;
  Group group = cluster.getGroup(prices.node, unit.dp * unit.cp, unit.tp);
  double parameters = module.getParameters() / unit.tp / unit.pp;
  double buckets =
      cluster.nodes.front().cores > 0
          ? 1
          : std::max(1.0, double(module.layers.size()) / (unit.pp * unit.vpp));
  return cluster.reduceScatter(group, parameters * module.bytes.gradient) /
             buckets +
         cluster.allGather(group, parameters * module.bytes.weight);
}

/// A unit's largest item over the mean part, where a replica may get it alone;
/// else 0.
double shareOfLargest(const PolicyInput &input, const Plan &plan,
                      const UnitPrices &prices) {
  int u = prices.unit.module;
  if (u == input.model().pace || plan.assign != Assign::Items)
    return 0;
  const ItemCost &cost = input.costs.items[u];
  double mean = cost.at(input.cache->getTotal(u)) /
                (double(plan.microbatches) * double(prices.unit.dp));
  TokenSums largest = input.cache->getLargest(u);
  return mean > 0 ? cost.at(largest) / mean : 0;
}

/// Bytes of a rank at the fullest position of a unit, about as StepMemory.cpp
/// counts them: what is there all the time, what the microbatches take that
/// keep the pipeline busy, and what one of them takes.
struct Needs {
  double always = 0, busy = 0, one = 0;
  double total() const { return always + busy; }
};

/// `largest`: see shareOfLargest().
Needs needsOf(const PolicyInput &input, const Plan &plan,
              const UnitPrices &prices, double largest, int64_t inFlight) {
  const UnitPlan &unit = prices.unit;
  const Module &module = input.model().modules[unit.module];
  double weight = module.bytes.weight;
  if (module.trainable)
    weight += module.bytes.gradient +
              module.bytes.optimizer / double(unit.getShards());
  // Blocks of sums are as large as gradients.
  if (module.trainable && unit.getSumRanks() > 1 &&
      input.costs.cluster.isOnHost())
    weight += module.bytes.gradient;
  // A replica may get the largest item, and then hold as much of it as others
  // of all theirs.
  double factor = prices.factor * std::max(prices.fullest, largest);
  const LayerPrices &layers = *prices.layers;
  bool splits = plan.getTraits().splitsBackward && module.trainable;
  SmallVector<Needs, 64> needs(unit.pp);
  for (int p = 0; p < unit.pp; ++p)
    needs[p].always =
        (layers.workspace + 4 * layers.message) * factor + unit.getBeyond(p);
  prices.forStages([&](int s, int p) {
    int begin = unit.cuts[s], end = unit.cuts[s + 1];
    needs[p].always +=
        (layers.parameters[end] - layers.parameters[begin]) / unit.tp * weight +
        (splits ? layers.late[end] - layers.late[begin] : 0) * factor;
    if (module.hasBackward())
      needs[p].one +=
          (layers.kept[end] - layers.kept[begin] + 3 * layers.message) * factor;
  });
  Needs *fullest = nullptr;
  for (int p = 0; p < unit.pp; ++p) {
    needs[p].busy = heldAt(plan, unit, p, inFlight) * needs[p].one;
    if (!fullest || needs[p].total() > fullest->total())
      fullest = &needs[p];
  }
  return *fullest;
}

} // namespace

double estimateMemory(const PolicyInput &input, const Plan &plan, int unit,
                      int64_t inFlight) {
  UnitPrices prices(input, plan, unit);
  return needsOf(input, plan, prices, shareOfLargest(input, plan, prices),
                 inFlight)
      .total();
}

/// How much longer whole samples take over replicas of unequal speed than
/// samples that could be cut anywhere.
static double unevennessOf(const UnitPlan &unit, double samples, double n) {
  double all = 0;
  for (const UnitPlan::Block &block : unit.blocks)
    all += n * double(block.replicas) * block.speed;
  auto done = [&](double time) {
    double sum = 0;
    for (const UnitPlan::Block &block : unit.blocks)
      sum += n * double(block.replicas) * std::floor(time * block.speed);
    return sum;
  };
  double low = samples / all, high = low + 1;
  for (int i = 0; i < 30; ++i) {
    double middle = (low + high) / 2;
    (done(middle) >= samples ? high : low) = middle;
  }
  return high * all / samples;
}

static double estimatePlaced(const PolicyInput &input, const Plan &plan) {
  const Cluster &cluster = input.costs.cluster;
  size_t count = plan.units.size();
  std::vector<double> slowest(count, 0);
  std::vector<Needs> needs(count);
  double fill = 0, reduce = 0, phased = 0, item = 0;
  const scheduler::Traits &traits = plan.getTraits();
  bool shared = traits.sharesRanks;
  std::vector<int64_t> inFlight = countInFlight(input, plan);
  for (size_t u = 0; u < count; ++u) {
    UnitPrices prices(input, plan, int(u));
    UnitTimes times = timesOf(prices);
    // A guest makes one stage of the backbone longer, no other.
    slowest[plan.isGuest(int(u)) ? input.model().pace : int(u)] +=
        times.slowest;
    if (plan.isGuest(int(u))) {
      fill += times.whole;
    } else {
      int vpp = plan.units[u].vpp;
      double rest = shared && int(u) != input.model().pace ? 0 : times.whole;
      fill += rest / vpp * double(times.stages - 1) / times.stages +
              (shared ? 0 : times.slowest);
      if (shared && int(u) != input.model().pace)
        phased += times.whole * double(plan.microbatches);
    }
    // The largest item alone, in one stage.
    double largest = shareOfLargest(input, plan, prices);
    if (largest > 0)
      item = std::max(item, times.whole / plan.units[u].pp *
                                std::max(0.0, largest - 1));
    reduce = std::max(reduce, reductionTime(input, prices));
    Needs own = needsOf(input, plan, prices, largest, inFlight[u]);
    Needs &all = needs[shared ? 0 : u];
    all.always += own.always;
    all.busy += own.busy;
    all.one += own.one;
  }
  const UnitPlan &pace = plan.units[input.model().pace];
  double uneven = pace.blocks.empty()
                      ? input.cache->getUnevenness(plan.microbatches, pace.dp,
                                                   plan.assign != Assign::Given)
                      : unevennessOf(pace, double(input.samples()),
                                     double(plan.microbatches));
  // With fewer microbatches than keep it busy a pipeline waits for each.
  double crowded = 1;
  for (size_t u = 0; u < count; ++u) {
    const UnitPlan &unit = plan.units[u];
    double free = cluster.getLeastMemory(unit.firstRank, unit.getRanks()) -
                  needs[u].always;
    bool waits = traits.order == scheduler::OrderOf::Search;
    if ((waits ? needs[u].one : needs[u].busy) > free)
      return INFINITY;
    crowded = std::max(crowded, needs[u].busy / free);
  }
  slowest[input.model().pace] *= uneven;
  double steady = *std::max_element(slowest.begin(), slowest.end());
  if (shared) {
    steady = slowest[input.model().pace];
    fill += steady;
  }
  // A third is left with split backwards, that is: at most.
  if (traits.splitsBackward)
    fill /= 2;
  // In bubbles a part of the others' work is free; a single stage has none.
  if (shared && !traits.runsInPhases && pace.pp > 1)
    phased = std::max(0.0, phased - 0.7 * fill);
  return fill + steady * crowded * double(plan.microbatches - 1) + phased +
         reduce + item;
}

double estimate(const PolicyInput &input, const Plan &plan) {
  if (!input.costs.cluster.hasSeveralKinds())
    return estimatePlaced(input, plan);
  Plan placed = plan;
  placeBlocks(input, placed);
  return estimatePlaced(input, placed);
}

} // namespace dt::planner
