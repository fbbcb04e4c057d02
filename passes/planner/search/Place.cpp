//===- Place.cpp - Which ranks units lie on -------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace llvm;

namespace dt::planner {

bool placeUnits(const PolicyInput &input, Plan &plan, ArrayRef<int> nodes) {
  const Model &model = input.model();
  const Cluster &cluster = input.costs.cluster;
  auto kind = [&](int unit) { return nodes.empty() ? -1 : nodes[unit]; };
  std::vector<int> order(plan.units.size());
  std::iota(order.begin(), order.end(), 0);
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
  auto key = [&](int u) {
    return std::pair(-plan.units[u].tp * plan.units[u].cp, distance(u));
  };
  llvm::stable_sort(order, [&](int a, int b) { return key(a) < key(b); });
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
  for (const UnitPlan &unit : plan.units)
    plan.ranks = std::max(plan.ranks, unit.firstRank + unit.getRanks());
  return plan.ranks <= input.gpus();
}

void placeBlocks(const PolicyInput &input, Plan &plan) {
  if (!input.costs.cluster.hasSeveralKinds())
    return;
  std::vector<TokenSums> items;
  for (size_t m = 0; m < input.model().modules.size(); ++m)
    items.push_back(input.cache->getTotal(int(m)));
  placeBlocks(input.costs, items, plan);
}

} // namespace dt::planner
