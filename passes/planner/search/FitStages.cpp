//===- FitStages.cpp - Cuts and saved sets of stages ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A pipeline's first stages hold the most microbatches, so they do again what
// later ones keep, and have fewer layers for it. Intervals of layers are few
// enough to find the best of all cuts.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

/// What keeps most, and so is fastest, first.
constexpr Save kSaves[] = {Save::All, Save::Vjp, Save::None};

class Fitter {
public:
  Fitter(const PolicyInput &input, const Plan &plan, int u);
  std::optional<UnitPlan> run();

private:
  /// Layers [begin, end) of a position as a stage: seconds of a microbatch and
  /// the fastest saved set that fits; infinite if none does.
  struct Choice {
    double seconds = INFINITY;
    Save save = Save::None;
  };
  Choice choose(int position, int begin, int end) const;
  /// As StepMemory.cpp counts them, about.
  double bytesOf(size_t save, int position, int begin, int end) const;
  /// Stages of one layer or more, none of which takes longer than `limit`: with
  /// the least sum of `weigh`(sum, seconds).
  template <typename Function>
  double cut(double limit, Function weigh, UnitPlan &result) const;
  /// With the cuts that are there.
  bool chooseByPosition(UnitPlan &result) const;

  const Plan &plan;
  const UnitPlan &unit;
  int layers;
  double factor = 1;               ///< from the priced samples to a part
  const LayerPrices *prices[3];    ///< by kSaves
  double workspace[3] = {};        ///< the same
  std::vector<double> state = {0}; ///< and blocks of sums, before each layer
  std::vector<double> held;        ///< microbatches, by position
  double capacity;                 ///< bytes of a device, for all of these
  double message = 0;              ///< bytes of a part between layers
};

} // namespace

Fitter::Fitter(const PolicyInput &input, const Plan &plan, int u)
    : plan(plan), unit(plan.units[u]), layers(unit.cuts.back()) {
  const Cluster &cluster = input.costs.cluster;
  int node = input.nodeOf(plan, u);
  const ModuleCost &cost = input.costs.get(node, u);
  double samples = double(input.samples()) /
                   (double(plan.microbatches) * double(unit.dp)),
         priced = PolicyInput::nearestPower(samples);
  factor = samples / priced;
  TokenSums part =
      meanPart(input, u, plan.microbatches, unit.dp) * (1.0 / unit.sub);
  CostOptions options = plan.getOptions(u);
  const Module &module = cost.getModule();
  message = module.kinds[module.layers[0]].output.at(part) /
            options.getStreamShares();
  for (auto [i, save] : llvm::enumerate(kSaves)) {
    options.save = save;
    prices[i] = &input.cache->get(node, u, options, priced);
    for (size_t kind = 0; kind < cost.getModule().kinds.size(); ++kind)
      workspace[i] =
          std::max(workspace[i], cost.workspace(int(kind), options, part));
  }
  for (int i = 0; i < layers; ++i) {
    double bytes =
        cost.state(i, i + 1, unit.tp, unit.getShards(), unit.getExpertRanks());
    if (cluster.isOnHost())
      bytes += cost.sumBlocks(i, i + 1, unit.tp, unit.getSumRanks(), unit.zero,
                              unit.getExpertRanks());
    state.push_back(state.back() + bytes);
  }
  // The simulator has the last word.
  capacity = 0.99 * cluster.getLeastMemory(unit.firstRank, unit.getRanks()) -
             cost.snapshot(0, layers, unit.tp, unit.getShards(),
                           unit.getExpertRanks());
  std::vector<int64_t> inFlight = countInFlight(input, plan);
  for (size_t other = 0; plan.sharesRanks() && other < plan.units.size();
       ++other)
    if (int(other) != u)
      capacity -= estimateMemory(input, plan, int(other), inFlight[other]);
  for (int p = 0; p < unit.pp; ++p)
    held.push_back(std::min(double(plan.microbatches),
                            heldAt(plan, unit, p, inFlight[u])));
}

Fitter::Choice Fitter::choose(int position, int begin, int end) const {
  for (auto [i, save] : llvm::enumerate(kSaves))
    if (bytesOf(i, position, begin, end) + unit.getBeyond(position) <= capacity)
      return {prices[i]->seconds(begin, end) * factor, save};
  return {};
}

double Fitter::bytesOf(size_t save, int position, int begin, int end) const {
  const std::vector<double> &kept = prices[save]->kept;
  return state[end] - state[begin] +
         held[position] * ((kept[end] - kept[begin]) * factor + 3 * message) +
         workspace[save] + 4 * message;
}

template <typename Function>
double Fitter::cut(double limit, Function weigh, UnitPlan &result) const {
  size_t width = size_t(layers) + 1;
  std::vector<double> before(width, INFINITY);
  before[0] = 0;
  std::vector<std::vector<int>> from(unit.pp, std::vector<int>(width, -1));
  for (int p = 0; p < unit.pp; ++p) {
    std::vector<double> now(width, INFINITY);
    for (int begin = p; begin < layers; ++begin) {
      if (std::isinf(before[begin]))
        continue;
      for (int end = begin + 1; end <= layers - (unit.pp - 1 - p); ++end) {
        double seconds = choose(p, begin, end).seconds;
        if (std::isinf(seconds) || seconds > limit)
          break;
        double sum = weigh(before[begin], seconds);
        if (sum < now[end]) {
          now[end] = sum;
          from[p][end] = begin;
        }
      }
    }
    before = std::move(now);
  }
  if (std::isinf(before[layers]))
    return INFINITY;
  result.cuts.assign(unit.pp + 1, layers);
  result.saves.resize(unit.pp);
  for (int p = unit.pp - 1; p >= 0; --p) {
    result.cuts[p] = from[p][result.cuts[p + 1]];
    result.saves[p] = choose(p, result.cuts[p], result.cuts[p + 1]).save;
  }
  return before[layers];
}

bool Fitter::chooseByPosition(UnitPlan &result) const {
  result.saves.resize(unit.pp * unit.vpp);
  for (int p = 0; p < unit.pp; ++p) {
    auto fits = [&](size_t i) {
      double bytes = unit.getBeyond(p);
      for (int s = 0; s < unit.pp * unit.vpp; ++s)
        if (plan.getPosition(unit, s) == p)
          bytes += bytesOf(i, p, unit.cuts[s], unit.cuts[s + 1]);
      return bytes <= capacity;
    };
    size_t i = 0;
    while (i < std::size(kSaves) && !fits(i))
      ++i;
    if (i == std::size(kSaves))
      return false;
    for (int s = 0; s < unit.pp * unit.vpp; ++s)
      if (plan.getPosition(unit, s) == p)
        result.saves[s] = kSaves[i];
  }
  return true;
}

std::optional<UnitPlan> Fitter::run() {
  UnitPlan result = unit;
  if (unit.vpp > 1) {
    if (!chooseByPosition(result))
      return std::nullopt;
  } else {
    double slowest = cut(
        INFINITY, [](double a, double b) { return std::max(a, b); }, result);
    if (std::isinf(slowest))
      return std::nullopt;
    cut(slowest, std::plus<double>(), result);
  }
  result.save = result.saves.back();
  if (llvm::all_equal(result.saves))
    result.saves.clear();
  return result;
}

std::optional<UnitPlan> fitStages(const PolicyInput &input, const Plan &plan,
                                  int unit) {
  const UnitPlan &own = plan.units[unit];
  if (any_of(plan.units, [&](const UnitPlan &other) {
        return other.meets(own) && other.getRanks() != own.getRanks();
      }))
    return std::nullopt;
  return Fitter(input, plan, unit).run();
}

} // namespace dt::planner
