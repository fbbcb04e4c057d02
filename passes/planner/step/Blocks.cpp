//===- Blocks.cpp - Units on several kinds of devices ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Which replicas are on which kind, and how fast these are beside one another.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/Step.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

int slowestNode(const Costs &costs, const Plan &plan, int unit, int64_t first,
                int64_t ranks) {
  auto kinds = costs.cluster.getNodeKinds(first, ranks);
  if (kinds.size() == 1)
    return *kinds.begin();
  // Of parts of any usual size: kinds differ in rates, and in what messages of
  // a TP group take.
  CostOptions options = plan.getOptions(unit);
  TokenSums part = TokenSums::of(1024) * 4;
  std::vector<double> seconds;
  for (int node : kinds)
    seconds.push_back(costs.get(node, unit).module(options, part).total());
  return *kinds.begin() + int(max_element(seconds) - seconds.begin());
}

namespace {

/// Whole replicas on each kind, in the order of ranks. One that begins on the
/// last devices of a kind counts as one of the next.
std::vector<UnitPlan::Block> cutBlocks(const Cluster &cluster,
                                       const UnitPlan &unit) {
  int64_t size = int64_t(unit.tp) * unit.pp, next = unit.firstRank,
          end = next + unit.getRanks(), kindEnd = 0;
  std::vector<UnitPlan::Block> blocks;
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    kindEnd += cluster.getNumDevices(int(i));
    if (i + 1 < cluster.nodes.size() &&
        cluster.nodes[i].device == cluster.nodes[i + 1].device)
      continue;
    if (int64_t fit = (std::min(end, kindEnd) - next) / size; fit > 0) {
      blocks.push_back({fit, 1});
      next += fit * size;
    }
  }
  return blocks;
}

/// The blocks of a unit; `items`: of the batch.
std::vector<UnitPlan::Block> weighBlocks(const Costs &costs,
                                         const TokenSums &items,
                                         const Plan &plan,
                                         const UnitPlan &unit) {
  int u = unit.module;
  std::vector<UnitPlan::Block> blocks = cutBlocks(costs.cluster, unit);
  if (blocks.size() < 2)
    return {};
  // A replica with so much of the mean part, on its ranks' slowest kind.
  auto secondsOf = [&](int64_t first, int64_t ranks, double share) {
    int node = slowestNode(costs, plan, u, first, ranks);
    TokenSums part =
        items * (share / (double(plan.microbatches) * double(unit.dp)));
    return costs.get(node, u).module(plan.getOptions(u), part).total();
  };
  // Smaller parts have slower kernels, so shares are found in two steps.
  std::vector<double> shares(blocks.size(), 1);
  for (int round = 0; round < 2; ++round) {
    std::vector<double> speeds;
    int64_t first = unit.firstRank;
    double mean = 0;
    for (auto [block, share] : zip_equal(blocks, shares)) {
      int64_t ranks = block.replicas * int64_t(unit.tp) * unit.pp;
      speeds.push_back(share / secondsOf(first, ranks, share));
      mean += speeds.back() * double(block.replicas) / double(unit.dp);
      first += ranks;
    }
    if (!std::isfinite(mean) || mean <= 0)
      return {};
    for (auto [speed, share] : zip_equal(speeds, shares))
      share = speed / mean;
  }
  double most = *max_element(shares);
  for (auto [block, share] : zip_equal(blocks, shares))
    block.speed = std::max(1, int(std::lround(1000 * share / most)));
  return blocks;
}

} // namespace

void placeBlocks(const Costs &costs, ArrayRef<TokenSums> items, Plan &plan) {
  for (UnitPlan &unit : plan.units)
    unit.blocks.clear();
  bool weighs = plan.assign == Assign::Items && plan.balancesParts();
  // Replicas on shared ranks would all have to be simulated.
  auto isAlone = [&](const UnitPlan &unit) {
    return none_of(plan.units, [&](const UnitPlan &other) {
      return &other != &unit && other.meets(unit);
    });
  };
  for (UnitPlan &unit : plan.units)
    if (weighs && isAlone(unit) && unit.dp > 1 && unit.cp == 1 &&
        unit.ep == 1 &&
        costs.cluster.hasSeveralKinds(unit.firstRank, unit.getRanks()))
      unit.blocks = weighBlocks(costs, items[unit.module], plan, unit);
}

} // namespace dt::planner
