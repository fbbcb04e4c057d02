//===- Bound.cpp - What a plan takes at least -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A bound on the simulated step that needs no order of tasks. It rests on this:
// a part takes no less than its share of a larger one (launches and small
// products), and where sizes differ, computing is convex in the size and
// messages are no dearer in one piece.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

/// Samples of a part: at least and at most; at least so many parts have some.
struct PartSizes {
  double least = 0, most = 0, filled = 1;
};

/// A unit's stages, by sums over the layers before each.
class UnitBound {
public:
  UnitBound(const PolicyInput &input, const Plan &plan, int u,
            const PartSizes &sizes);

  /// Of one replica in a step, of layers [begin, end).
  double work(int begin, int end) const {
    double reduce = apart ? apart->reduce[end] - apart->reduce[begin] : 0,
           own = priced->seconds(begin, end);
    if (apart)
      own -= priced->reduce[end] - priced->reduce[begin];
    return own * factor + reduce * apartFactor;
  }
  double kept(int begin, int end) const {
    return (priced->kept[end] - priced->kept[begin]) * factor;
  }
  /// Of a stage; one that runs again in one piece keeps what comes into it.
  double keptBy(int stage) const {
    int begin = unit.cuts[stage];
    bool again = unit.getSave(stage) == Save::None;
    return kept(begin, again ? begin + 1 : unit.cuts[stage + 1]);
  }
  /// Of the smallest part, forward and back to the inputs' gradients (`whole`:
  /// and the weights').
  double forward(int begin, int end) const {
    return smallest ? forwardOf(*smallest, begin, end) : 0;
  }
  double backward(int begin, int end, bool whole) const {
    return smallest ? backwardOf(*smallest, begin, end, whole) : 0;
  }
  /// Of a part of mean size, there from layer `begin` to the last and back to
  /// layer `until`.
  double thereAndBack(int begin, int until, bool whole) const {
    int end = unit.cuts.back();
    return apart ? 0
                 : (forwardOf(*priced, begin, end) +
                    backwardOf(*priced, until, end, whole)) *
                       factor / microbatches;
  }
  /// Bytes a device may use, and of them those of weights, gradients and
  /// optimizer state.
  double memory = 0;
  double state(int begin, int end) const {
    return cost.state(begin, end, host.tp, host.zero ? host.dp * host.cp : 1,
                      host.ep);
  }
  /// Seconds until all replicas have the parameters of layers, once updated.
  double gather(int begin, int end) const;

  const UnitPlan &unit, &host;

private:
  static double forwardOf(const LayerPrices &prices, int begin, int end) {
    return prices.forward[end] - prices.forward[begin];
  }
  static double backwardOf(const LayerPrices &prices, int begin, int end,
                           bool whole) {
    return prices.seconds(begin, end) - forwardOf(prices, begin, end) -
           (whole ? 0 : prices.weight[end] - prices.weight[begin]);
  }

  const Cluster &cluster;
  int node;
  const Module &module;
  const ModuleCost &cost;
  std::shared_ptr<const LayerPrices> priced, apart, smallest;
  double factor, apartFactor = 0, microbatches;
};

} // namespace

/// Up to a multiple of PriceCache::kGrain, of many sizes to few.
static double roundUp(double samples, bool exact) {
  if (!exact)
    samples = std::exp2(std::ceil(std::log2(samples) * 8 - 1e-9) / 8);
  return std::ceil(samples / PriceCache::kGrain - 1e-9) * PriceCache::kGrain;
}

UnitBound::UnitBound(const PolicyInput &input, const Plan &plan, int u,
                     const PartSizes &sizes)
    : unit(plan.units[u]), host(plan.units[plan.getHost(u)]),
      cluster(input.costs.cluster), node(cluster.getNodeKind(host.firstRank)),
      module(input.model().modules[u]), cost(input.costs.get(node, u)) {
  memory = cluster.getMemory(node);
  microbatches = double(plan.microbatches);
  double all = double(input.samples());
  auto get = [&](double samples) { return input.pricesOf(plan, u, samples); };
  bool uniform = input.cache->isUniform(input.costs, input.batch, u);
  // Measured rates need not be convex.
  bool convex =
      !input.costs.isMeasured(u) && cluster.getDevice(node).measured.empty();
  double size = uniform  ? roundUp(sizes.most, true)
                : convex ? roundUp(all / sizes.filled, false)
                         : roundUp(all, false);
  priced = get(size);
  factor = all / double(host.dp) / size;
  if (!uniform) {
    double whole = roundUp(all, false);
    apart = get(whole);
    apartFactor = all / double(host.dp) / whole;
    return;
  }
  double least =
      std::floor(sizes.least / PriceCache::kGrain) * PriceCache::kGrain;
  if (least > 0)
    smallest = get(least);
}

double UnitBound::gather(int begin, int end) const {
  if (!module.trainable || !unit.zero || host.ep > 1 ||
      cluster.nodes.front().cores > 0)
    return 0;
  return cluster.allGather(cluster.getGroup(node, host.dp * host.cp, host.tp),
                           cost.rankParameters(begin, end, host.tp) *
                               module.weightBytes);
}

namespace {

class Bound {
public:
  Bound(const PolicyInput &input, const Plan &plan);
  double get();

private:
  PartSizes sizesOf(int u) const;
  /// Before the first task of a unit, and behind the last: of what feeds it.
  double before(int u) const;
  double behind(int u) const;
  /// From the end of a unit's forward to the begin of its backward, of one
  /// microbatch.
  double beyond(int u) const;
  /// Bytes that other units have at least on any of the devices of one.
  double takenByOthers(int u) const;
  struct Around {
    double before, behind, beyond, taken;
  };
  double ofPosition(int u, int position, const Around &around) const;
  int stageAt(const UnitPlan &unit, int round, int position) const {
    int first = round * unit.pp;
    return first + scheduler::positionOf(first + position, unit.pp, back);
  }
  template <typename Function>
  double mostOfEdges(int ModelEdge::*end, int u, Function f) const;

  const PolicyInput &input;
  const Plan &plan;
  bool split, back;
  std::vector<UnitBound> units;
};

} // namespace

/// As Parts.cpp deals samples and items out.
PartSizes Bound::sizesOf(int u) const {
  const UnitPlan &host = plan.units[plan.getHost(u)];
  int64_t all = input.samples(), n = plan.microbatches,
          dp = plan.units[input.model().pace].dp, parts = n * dp;
  bool balanced =
      plan.assign == Assign::Items &&
      (plan.reorder == Reorder::Intra || plan.reorder == Reorder::Both);
  int64_t most = divideCeil(uint64_t(all), uint64_t(parts)),
          least = all / parts;
  if (!balanced) {
    most = std::max<int64_t>(plan.micro,
                             int64_t(divideCeil(uint64_t(all), uint64_t(dp))) -
                                 (n - 1) * plan.micro);
    least = parts * plan.micro == all ? plan.micro : 0;
  }
  if (u == input.model().pace || (plan.units[u].inside && host.dp == dp))
    return {double(least), double(most),
            balanced ? double(std::min(parts, all))
                     : std::ceil(double(all) / double(most))};
  double items =
      input.cache->getTotal(input.costs, input.batch, u).items / double(all);
  if (items <= 0)
    return {};
  // Even parts of uneven samples have more of some than of others.
  if (balanced &&
      !input.cache->isUniform(input.costs, input.batch, input.model().pace))
    return {0, double(all), 1};
  double replicas = double(host.dp);
  PartSizes sizes{0, double(most * dp), 1};
  if (balanced && !plan.units[u].inside)
    sizes = {std::floor(double(least * dp) * items / replicas) / items,
             std::ceil(double(most * dp) * items / replicas) / items, 1};
  else if (host.dp == 1)
    sizes.least = double(least * dp);
  return sizes;
}

/// Of tasks of so many microbatches; the last may be of fewer.
static PartSizes ofTasks(int span, const PartSizes &sizes) {
  return {sizes.least, sizes.most * span, std::ceil(sizes.filled / span)};
}

Bound::Bound(const PolicyInput &input, const Plan &plan)
    : input(input), plan(plan), split(plan.getTraits().splitsBackward),
      back(plan.goesBack()) {
  units.reserve(plan.units.size());
  for (size_t u = 0; u < plan.units.size(); ++u)
    units.emplace_back(input, plan, int(u),
                       ofTasks(plan.units[u].span, sizesOf(int(u))));
}

/// Edges between units that run beside each other.
template <typename Function>
double Bound::mostOfEdges(int ModelEdge::*end, int u, Function f) const {
  double most = 0;
  for (const ModelEdge &edge : input.model().edges)
    if (edge.*end == u && !plan.units[edge.from].inside &&
        !plan.units[edge.to].inside)
      most = std::max(most, f(edge));
  return most;
}

static int countLayers(const UnitBound &unit) { return unit.unit.cuts.back(); }

double Bound::before(int u) const {
  return mostOfEdges(&ModelEdge::to, u, [&](const ModelEdge &edge) {
    return before(edge.from) +
           units[edge.from].forward(0, countLayers(units[edge.from]));
  });
}

double Bound::behind(int u) const {
  return mostOfEdges(&ModelEdge::to, u, [&](const ModelEdge &edge) {
    if (!input.model().modules[edge.from].hasBackward())
      return 0.0;
    return behind(edge.from) +
           units[edge.from].backward(0, countLayers(units[edge.from]), true);
  });
}

double Bound::beyond(int u) const {
  return mostOfEdges(&ModelEdge::from, u, [&](const ModelEdge &edge) {
    if (!input.model().modules[edge.to].hasBackward())
      return 0.0;
    const UnitBound &to = units[edge.to];
    return to.forward(0, countLayers(to)) + beyond(edge.to) +
           to.backward(0, countLayers(to), !split);
  });
}

double Bound::takenByOthers(int u) const {
  double sum = 0;
  const UnitPlan &own = plan.units[u];
  for (const UnitBound &other : units) {
    const UnitPlan &unit = other.unit;
    if (&unit == &own || unit.inside || unit.firstRank != own.firstRank ||
        unit.getRanks() != own.getRanks())
      continue;
    // In phases, what feeds the largest keeps the whole batch until it is done.
    bool keeps = plan.getTraits().runsInPhases && u == input.model().pace &&
                 input.model().modules[unit.module].hasBackward() &&
                 any_of(input.model().edges, [&](const ModelEdge &edge) {
                   return edge.from == unit.module && edge.to == u;
                 });
    double least = INFINITY;
    for (int p = 0; p < unit.pp; ++p) {
      double bytes = 0;
      for (int round = 0; round < unit.vpp; ++round) {
        int s = stageAt(unit, round, p);
        bytes += other.state(unit.cuts[s], unit.cuts[s + 1]) +
                 (keeps ? other.keptBy(s) : 0);
      }
      least = std::min(least, bytes);
    }
    sum += least;
  }
  return sum;
}

double Bound::ofPosition(int u, int position, const Around &around) const {
  const UnitBound &own = units[u];
  const std::vector<int> &cuts = own.unit.cuts;
  int first = -1;
  bool trains = input.model().modules[u].hasBackward();
  double work = 0, kept = 0, state = 0, held = 0, gather = 0;
  for (int round = 0; round < own.unit.vpp; ++round) {
    int s = stageAt(own.unit, round, position);
    int begin = cuts[s], end = cuts[s + 1];
    first = first < 0 ? s : first;
    work += own.work(begin, end);
    state += own.state(begin, end);
    gather += own.gather(begin, end);
    if (!trains)
      continue;
    double bytes = own.keptBy(s);
    kept += bytes;
    // From the begin of its forward to the end of its backward, of which the
    // first stage of a split one may have no half of its own. A part of mean
    // size stands for all: bytes times seconds grow faster than the part.
    held += bytes * (around.beyond +
                     own.thereAndBack(begin, split ? end : begin, !split));
  }
  for (size_t g = 0; g < units.size(); ++g)
    if (const auto &inside = plan.units[g].inside;
        inside && inside->unit == u) {
      int stages = own.unit.pp * own.unit.vpp,
          at = inside->stage < 0 ? stages + inside->stage : inside->stage;
      if (stageAt(own.unit, at / own.unit.pp, position) == at) {
        int all = countLayers(units[g]);
        work += units[g].work(0, all);
        state += units[g].state(0, all);
        if (input.model().modules[g].hasBackward())
          kept += units[g].kept(0, all);
      }
    }
  double room = own.memory - state - around.taken;
  if (room < 0 || kept / double(plan.microbatches) > room)
    return INFINITY;
  double drain =
      split || !trains ? 0 : own.backward(0, cuts[first], true) + around.behind;
  double step = around.before + own.forward(0, cuts[first]) + work +
                std::max(drain, gather);
  return std::max(step, held > 0 ? held / room : 0);
}

double Bound::get() {
  double most = 0, together = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    const UnitPlan &host = units[u].host;
    together += units[u].work(0, countLayers(units[u])) *
                double(int64_t(host.tp) * host.cp * host.dp);
    if (units[u].unit.inside)
      continue;
    Around around{before(int(u)), behind(int(u)), beyond(int(u)),
                  takenByOthers(int(u))};
    for (int p = 0; p < host.pp; ++p)
      most = std::max(most, ofPosition(int(u), p, around));
  }
  return std::max(most, together / double(plan.ranks));
}

double lowerBound(const PolicyInput &input, const Plan &plan) {
  // Replicas on several kinds of devices may have any share.
  if (any_of(plan.units, [&](const UnitPlan &unit) {
        return input.costs.cluster.hasSeveralKinds(unit.firstRank,
                                                   unit.getRanks());
      }))
    return input.cache->getWorkBound(input.costs, input.batch);
  return Bound(input, plan).get();
}

} // namespace dt::planner
