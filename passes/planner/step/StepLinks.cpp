//===- StepLinks.cpp - NICs and uplinks of a plan's step ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Which links messages and sums of gradients go over. As many devices as share
// a NIC have one, and a TP group sends by that of its first device, for the
// time that all of its NICs need.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/StepBuilder.h"

#include <algorithm>

namespace dt::planner {

void StepBuilder::addLinks(EngineOptions &engine) const {
  const Cluster &cluster = costs.cluster;
  for (const NodeKind &node : cluster.nodes)
    engine.links += node.count * node.nics;
  for (const Level &level : cluster.levels) {
    EngineOptions::Level &own = engine.levels.emplace_back();
    own.rails = level.rails;
    int at = 0;
    for (const NodeKind &node : cluster.nodes)
      for (int end = at + node.count; at < end; ++at)
        for (int nic = 0; nic < node.nics; ++nic) {
          own.uplink.push_back(engine.links + at / level.nodes * level.rails +
                               nic % level.rails);
          own.share.push_back(level.rails * level.oversubscription /
                              (double(level.nodes) * node.nics));
        }
    engine.links += ((at - 1) / level.nodes + 1) * level.rails;
  }
}

void StepBuilder::addMessages(const Problem &problem,
                              EngineOptions &engine) const {
  for (int64_t rank : planRank) {
    Cluster::Site site = costs.cluster.getSite(rank);
    engine.nic.push_back(int(site.nic));
    engine.node.push_back(int(site.node));
  }
  engine.overhead = overhead;
  for (const scheduler::Edge &edge : problem.edges) {
    double lanes = 1; // of what all ranks do together
    if (size_t(std::max(edge.from, edge.to)) < stages.size())
      lanes = std::min(nicsOf(stages[edge.from].unit),
                       nicsOf(stages[edge.to].unit));
    engine.lanes.push_back(lanes);
  }
}

/// Rings go from node to node in their order, on every rail by itself: over a
/// switch's uplink as over one node's NICs.
std::vector<std::pair<int, Time>>
StepBuilder::takesOf(const EngineOptions &engine, int u, int position,
                     double seconds) const {
  std::vector<std::pair<int, Time>> takes;
  if (seconds <= 0)
    return takes;
  const UnitPlan &unit = plan.units[u];
  std::map<int, int64_t> nodeOfNic;
  for (int64_t r = 0; r < unit.dp; ++r)
    for (int i = 0; i < unit.tp * unit.cp; ++i) {
      Cluster::Site site = costs.cluster.getSite(unit.getRank(position, r) + i);
      nodeOfNic[int(site.nic)] = site.node;
    }
  for (auto [nic, node] : nodeOfNic)
    takes.emplace_back(nic, toTime(seconds));
  for (const EngineOptions::Level &level : engine.levels) {
    // By uplink and node.
    std::map<std::pair<int, int64_t>, double> shares;
    for (auto [nic, node] : nodeOfNic)
      shares[{level.uplink[nic], node}] += level.share[nic];
    int first = level.uplink.front();
    auto switchesOf = [&](const auto &entry) {
      return (entry.first.first - first) / level.rails;
    };
    if (switchesOf(*shares.begin()) == switchesOf(*shares.rbegin()))
      continue;
    std::map<int, double> most;
    for (auto [at, share] : shares)
      most[at.first] = std::max(most[at.first], share);
    for (auto [uplink, share] : most)
      takes.emplace_back(uplink, toTime(seconds * share));
  }
  return takes;
}

} // namespace dt::planner
