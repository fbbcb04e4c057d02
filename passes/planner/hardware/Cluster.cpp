//===- Cluster.cpp - Sizes, groups and collectives ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/hardware/Cluster.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

int64_t Cluster::getNumDevices() const {
  int64_t sum = 0;
  for (size_t i = 0; i < nodes.size(); ++i)
    sum += getNumDevices(int(i));
  return sum;
}

Cluster::Site Cluster::getSite(int64_t rank) const {
  Site site;
  const NodeKind *node = nodes.data();
  for (; site.kind + 1 < int(nodes.size()); ++site.kind, ++node) {
    if (rank < getNumDevices(site.kind))
      break;
    rank -= getNumDevices(site.kind);
    site.node += node->count;
    site.nic += int64_t(node->count) * node->nics;
  }
  site.node += rank / node->devices;
  site.place = rank % node->devices;
  site.nic += rank / node->devices * node->nics +
              site.place * node->nics / node->devices;
  return site;
}

iota_range<int> Cluster::getNodeKinds(int64_t first, int64_t ranks) const {
  return seq_inclusive(getNodeKind(first), getNodeKind(first + ranks - 1));
}

bool Cluster::hasSeveralKinds(int64_t first, int64_t ranks) const {
  return any_of(getNodeKinds(first, ranks), [&](int node) {
    return nodes[node].device != nodes[getNodeKind(first)].device;
  });
}

double Cluster::getLeastMemory(int64_t first, int64_t ranks) const {
  double least = INFINITY;
  for (int node : getNodeKinds(first, ranks))
    least = std::min(least, getMemory(node));
  return least;
}

Group Cluster::getGroup(int node, int64_t size, int64_t stride,
                        int64_t first) const {
  Group group;
  group.node = node;
  int64_t devices = nodes[node].devices;
  stride = std::max<int64_t>(1, stride);
  int64_t perNode = std::max<int64_t>(1, devices / stride);
  group.inside = std::min(size, perNode);
  group.nodes = (size + group.inside - 1) / group.inside;
  if (group.nodes == 1 && first + (size - 1) * stride >= devices) {
    group.nodes = 2;
    group.inside = (size + 1) / 2;
  }
  // Ranks between two members belong to other groups of the kind.
  group.sharing = std::max<int64_t>(1, std::min(stride, devices));
  return group;
}

namespace {

/// What a member of the group gets of its node's NICs.
Link networkOf(const Cluster &cluster, const Group &group) {
  const NodeKind &node = cluster.nodes[group.node];
  Link link = node.network;
  // Members of one group in a node use as many NICs as they are, others too.
  double nics =
      std::min<double>(node.nics, double(group.inside * group.sharing));
  link.bandwidth *= nics / double(group.sharing);
  return link;
}

/// A ring of n in which every member passes on (n-1)/n of `bytes`.
double ring(const Link &link, int64_t n, double bytes) {
  if (n < 2)
    return 0;
  if (link.measured)
    return double(n - 1) * link.time(bytes / double(n));
  return double(n - 1) * link.latency +
         bytes * double(n - 1) / double(n) / link.bandwidth;
}

double tree(const Link &link, int64_t n, double bytes) {
  return n < 2 ? 0 : std::ceil(std::log2(double(n))) * link.time(bytes);
}

} // namespace

double Cluster::allGather(const Group &group, double bytes) const {
  if (group.size() < 2 || bytes <= 0)
    return 0;
  const Link &inside = nodes[group.node].inside;
  if (group.nodes == 1)
    return ring(inside, group.inside, bytes);
  // Over nodes every member of a node carries its share, then inside. The
  // network link is what the members of a node have together.
  return ring(networkOf(*this, group), group.nodes, bytes) +
         ring(inside, group.inside, bytes);
}

double Cluster::onNics(const Group &group, double bytes) const {
  if (group.nodes < 2 || bytes <= 0)
    return 0;
  Link link = networkOf(*this, group);
  link.latency = 0;
  return ring(link, group.nodes, bytes);
}

double Cluster::allReduce(const Group &group, double bytes) const {
  if (group.size() < 2 || bytes <= 0)
    return 0;
  const Link &inside = nodes[group.node].reduce;
  double rings = 2 * ring(inside, group.inside, bytes),
         trees = 2 * tree(inside, group.inside, bytes);
  if (group.nodes > 1) {
    Link network = networkOf(*this, group);
    rings += 2 * ring(network, group.nodes, bytes);
    trees += 2 * tree(network, group.nodes, bytes);
  }
  return std::min(rings, trees);
}

double Cluster::allToAll(const Group &group, double bytes) const {
  if (group.size() < 2 || bytes <= 0)
    return 0;
  double n = double(group.size());
  const Link &inside = nodes[group.node].inside;
  double time = (double(group.inside) - 1) * inside.time(bytes / n);
  if (group.nodes > 1) {
    Link network = networkOf(*this, group);
    double away = bytes * (n - double(group.inside)) / n;
    time += double(group.nodes - 1) * network.latency +
            away * double(group.inside) / network.bandwidth;
  }
  return time;
}

Link Cluster::pointToPoint(int from, int to, bool sameNode) const {
  if (sameNode)
    return nodes[from].inside;
  Link link = nodes[from].network;
  const Link &other = nodes[to].network;
  link.latency = std::max(link.latency, other.latency);
  link.bandwidth = std::min(link.bandwidth, other.bandwidth);
  return link;
}

Expected<Cluster> Cluster::take(int64_t wanted) const {
  if (wanted < 1)
    return createStringError("expected at least one device to plan for");
  if (wanted > getNumDevices())
    return createStringError(formatv("cluster '{0}' has {1} devices, not {2}",
                                     name, getNumDevices(), wanted));
  Cluster result = *this;
  result.nodes.clear();
  for (NodeKind node : nodes) {
    if (wanted == 0)
      break;
    int64_t whole = std::min<int64_t>(node.count, wanted / node.devices);
    int64_t rest = wanted - whole * node.devices;
    if (whole > 0)
      result.nodes.emplace_back(node).count = int(whole);
    wanted = whole == node.count ? rest : 0;
    if (whole < node.count && rest > 0) {
      node.count = 1;
      node.devices = int(rest);
      result.nodes.push_back(node);
    }
  }
  return result;
}

} // namespace dt::planner
