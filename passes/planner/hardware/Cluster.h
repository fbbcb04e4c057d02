//===- Cluster.h - The hardware a plan is made for --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Devices, nodes and links, read from JSON (docs/cluster.schema.json). Several
// kinds of nodes may be in one cluster. All figures are in seconds, bytes and
// FLOPs; bandwidths are what programs achieve in one direction, not the sum of
// both that data sheets name.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_HARDWARE_CLUSTER_H
#define PASSES_PLANNER_HARDWARE_CLUSTER_H

#include "passes/planner/hardware/Measured.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dt::planner {

/// alpha-beta: a message of b bytes takes latency + b / bandwidth, or as long
/// as was measured.
struct Link {
  double latency = 0, bandwidth = 0;
  /// Bytes a second, by bytes; or null.
  std::shared_ptr<const Curve> measured = nullptr;
  double time(double bytes) const {
    return measured ? bytes / measured->at(bytes) : latency + bytes / bandwidth;
  }
  void speedUp(double factor) {
    bandwidth *= factor;
    if (measured)
      measured = std::make_shared<Curve>(measured->times(factor));
  }
};

/// Share of the peak that products reach:
///   peak * m/(m + rows) * n/(n + columns) * k/(k + depth)
/// for an m x k by k x n product. The three halves stand for tiles that are not
/// full and pipelines that are not filled.
struct GemmEfficiency {
  double peak = 1, rows = 0, columns = 0, depth = 0;
  double at(double m, double n, double k) const {
    return peak * (m / (m + rows)) * (n / (n + columns)) * (k / (k + depth));
  }
};

/// What was measured of one precision; null: not measured. Rates contain what
/// starting a kernel and moving its operands take.
struct MeasuredRates {
  std::shared_ptr<const ProductRates> products;
  /// The same of gradients of weights, which sum over the rows.
  std::shared_ptr<const ProductRates> weights;
  /// FLOP/s of fused attention by FLOPs a byte, forward and back.
  std::shared_ptr<const Curve> attention, attentionBack;
  /// Bytes a second of other kernels, by the bytes of one.
  std::shared_ptr<const Curve> stream;
};

struct DeviceKind {
  std::string name;
  std::string
      target; ///< what programs for it are compiled for; empty: not said
  std::map<std::string, double> flops; ///< peak by precision: bf16, f16, …
  /// The name of the rates of modules that compute in a precision: where a
  /// device has none of its own for TF32, that is float32.
  std::string rateName(const std::string &precision) const {
    return precision == "tf32" && !flops.count(precision) ? "f32" : precision;
  }
  /// Its peak; 0: the device has no rate for it.
  double peak(const std::string &precision) const {
    auto rate = flops.find(rateName(precision));
    return rate == flops.end() ? 0 : rate->second;
  }
  double memory = 0;    ///< bytes
  double bandwidth = 0; ///< of the memory, data sheet
  double launch = 0;    ///< seconds a kernel costs at least
  GemmEfficiency gemm;
  double attention = 1; ///< share of the peak in fused attention
  double convolution = 1;
  double stream = 1; ///< share of the bandwidth in elementwise work
  /// Bytes of the memory that a plan leaves free: context, workspaces,
  /// fragmentation.
  double reserve = 0;
  std::map<std::string, MeasuredRates> measured; ///< by precision
};

/// So many of all ranks take so much longer for their tasks.
struct Straggler {
  double slowdown = 1, share = 0;
};

struct NodeKind {
  int device = 0; ///< index into Cluster::devices
  int devices = 1, count = 1;
  Link inside;  ///< between two devices of a node (NVLink, PCIe, memory)
  Link reduce;  ///< the same of sums of all ranks, which compute too
  Link network; ///< of one NIC
  int nics = 1; ///< shared by the devices of a node
  /// Pieces into which products of a TP group and the collectives beside them
  /// are cut, so that one piece travels by the devices' copy engines while the
  /// next is computed (DistTrain's StepCCL); 1: products wait for collectives.
  int pieces = 1;
  /// Cores that all ranks of a node share; 0: every device computes alone.
  int cores = 0;
  std::vector<Straggler> stragglers; ///< others are as fast as priced
};

/// Switches that join groups of `nodes` nodes, each with the NICs of one rail
/// of them (number modulo `rails`). What leaves a switch goes over its uplink,
/// with the bandwidth of all its NICs over `oversubscription`.
struct Level {
  int nodes = 1, rails = 1;
  double oversubscription = 1;
};

/// Where a group of ranks lives: `inside` ranks on each of `nodes` nodes, and
/// `sharing` groups of the kind at work at once on every node's NICs.
struct Group {
  int64_t inside = 1, nodes = 1, sharing = 1;
  int node = 0; ///< kind of node
  int64_t size() const { return inside * nodes; }
};

class Cluster {
public:
  std::string name;
  std::vector<DeviceKind> devices;
  std::vector<NodeKind> nodes;
  std::vector<Level> levels; ///< from the nodes up; none: NICs are all there is
  /// Where figures come from that nobody gave or measured; empty: a file.
  std::string assumed;
  /// Whether programs send from the memory that they compute in, as the CPU's
  /// do; unless somebody knows: where ranks compute on cores of a node.
  std::optional<bool> onHost = std::nullopt;

  bool isOnHost() const { return onHost.value_or(nodes.front().cores > 0); }
  int64_t getNumDevices() const;
  int64_t getNumDevices(int node) const {
    return int64_t(nodes[node].devices) * nodes[node].count;
  }
  const DeviceKind &getDevice(int node) const {
    return devices[nodes[node].device];
  }
  /// Where a rank is, when ranks fill nodes in the order of the file: the kind
  /// of node, over all kinds the numbers of the node and of the NIC that it
  /// sends by, and its place in the node, from 0.
  struct Site {
    int kind = 0;
    int64_t node = 0, nic = 0, place = 0;
  };
  Site getSite(int64_t rank) const;
  int getNodeKind(int64_t rank) const { return getSite(rank).kind; }
  int64_t getNode(int64_t rank) const { return getSite(rank).node; }
  /// Of ranks that follow one another; -1 if they are in several.
  int64_t getNodeOfAll(int64_t first, int64_t ranks) const {
    int64_t node = getNode(first);
    return node == getNode(first + ranks - 1) ? node : -1;
  }
  /// Kinds of nodes that a range of ranks lies on.
  llvm::iota_range<int> getNodeKinds(int64_t first, int64_t ranks) const;
  /// Of devices, on those or on all nodes.
  bool hasSeveralKinds(int64_t first, int64_t ranks) const;
  bool hasSeveralKinds() const { return hasSeveralKinds(0, getNumDevices()); }
  /// Bytes that a plan may use on a device.
  double getMemory(int node) const {
    return getDevice(node).memory - getDevice(node).reserve;
  }
  /// The least of it on a range of ranks.
  double getLeastMemory(int64_t first, int64_t ranks) const;
  /// A group of `size` ranks, `stride` apart, on nodes of a kind. The first
  /// stands at place `first` of its node: where that is late in the node, even
  /// a small group is on two.
  Group getGroup(int node, int64_t size, int64_t stride,
                 int64_t first = 0) const;

  /// Seconds. Ring or tree, whichever is faster; over nodes first inside, then
  /// between them.
  double allReduce(const Group &group, double bytes) const;
  double allGather(const Group &group, double bytes) const; ///< of the result
  double reduceScatter(const Group &group, double bytes) const {
    return allGather(group, bytes);
  }
  double allToAll(const Group &group, double bytes) const; ///< of a rank
  /// Of these seconds, those that each NIC is at work in a ring of allGather().
  double onNics(const Group &group, double bytes) const;
  /// Between two ranks, by kind of node.
  Link pointToPoint(int from, int to, bool sameNode) const;

  /// The same cluster with this many devices: nodes are taken in order, the
  /// last one may be part of a node. Error if there are not so many.
  llvm::Expected<Cluster> take(int64_t devices) const;
};

/// `file` is for messages.
llvm::Expected<Cluster> parseCluster(llvm::StringRef json,
                                     llvm::StringRef file);
llvm::Expected<Cluster> readCluster(llvm::StringRef file);

} // namespace dt::planner

#endif // PASSES_PLANNER_HARDWARE_CLUSTER_H
