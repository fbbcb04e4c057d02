//===- UnitBound.cpp - What a unit takes at least -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/UnitBound.h"

namespace dt::planner {

/// Up to a multiple of PriceCache::kGrain, of many sizes to few.
static double roundUp(double samples, bool exact) {
  if (!exact)
    samples = std::exp2(std::ceil(std::log2(samples) * 8 - 1e-9) / 8);
  return std::ceil(samples / PriceCache::kGrain - 1e-9) * PriceCache::kGrain;
}

UnitBound::UnitBound(const PolicyInput &input, const Plan &plan, int u,
                     const PartSizes &sizes)
    : unit(plan.units[u]), cluster(input.costs.cluster),
      node(input.nodeOf(plan, u)), module(input.model().modules[u]),
      cost(input.costs.get(node, u)), traits(plan.getTraits()),
      split(traits.splitsBackward), back(plan.goesBack()) {
  memory = cluster.getLeastMemory(unit.firstRank, unit.getRanks());
  microbatches = double(plan.microbatches);
  double all = double(input.samples());
  auto get = [&](double samples) { return input.pricesOf(plan, u, samples); };
  bool uniform = input.cache->isUniform(u);
  // Measured rates need not be convex.
  bool convex =
      !input.costs.isMeasured(u) && cluster.getDevice(node).measured.empty();
  double size = uniform  ? roundUp(sizes.most, true)
                : convex ? roundUp(all / sizes.filled, false)
                         : roundUp(all, false);
  priced = get(size);
  factor = all / double(unit.dp) / size;
  if (!uniform) {
    double whole = roundUp(all, false);
    apart = get(whole);
    apartFactor = all / double(unit.dp) / whole;
    return;
  }
  for (int s = 0; s < getNumStages(); ++s)
    options.push_back(plan.getOptions(u, s));
  double mean = all / (microbatches * double(unit.dp));
  part = input.cache->getTotal(u) * (mean / all);
  smallestShare = unit.span > 1 ? 0 : std::max(sizes.least, sizes.grain) / mean;
  largestShare = sizes.most / mean;
  double least =
      std::floor(sizes.least / PriceCache::kGrain) * PriceCache::kGrain;
  if (least > 0)
    smallest = get(least);
}

double UnitBound::late(int stage) const {
  // The last may hand on to others, the first may have gradients of weights
  // only.
  bool halves =
      split && module.trainable && stage + 1 < getNumStages() &&
      (stage > 0 || module.inputGradient) &&
      traits.splits(getNumStages(), unit.getSave(stage) == Save::None);
  if (!halves || apart)
    return 0;
  double bytes =
      priced->late[unit.cuts[stage + 1]] - priced->late[unit.cuts[stage]];
  return std::max(0.0, bytes * factor / microbatches - sentBy(stage));
}

double UnitBound::workspace(int stage) const {
  if (apart)
    return 0;
  double most = 0;
  int last = -1;
  for (int i = unit.cuts[stage]; i < unit.cuts[stage + 1]; ++i) {
    int kind = module.layers[i];
    if (kind != std::exchange(last, kind))
      most = std::max(most, cost.workspace(kind, options[stage], part, split));
  }
  return most / unit.sub;
}

double UnitBound::gather(int begin, int end) const {
  if (!module.trainable || !unit.zero || unit.ep > 1 ||
      cluster.nodes.front().cores > 0)
    return 0;
  return cluster.allGather(cluster.getGroup(node, unit.getSumRanks(), unit.tp),
                           cost.rankParameters(begin, end, unit.tp) *
                               module.bytes.weight);
}

} // namespace dt::planner
