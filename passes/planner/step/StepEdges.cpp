//===- StepEdges.cpp - Messages and gradients of a plan's step ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/StepBuilder.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace dt::planner {

double StepBuilder::nicsOf(int u) const {
  const NodeKind &node = costs.cluster.nodes[nodeOf(u)];
  const UnitPlan &unit = plan.units[u];
  double devices = std::min<double>(node.devices, double(unit.tp) * unit.cp);
  return std::max(1.0, double(node.nics) * devices / double(node.devices));
}

/// TP ranks send their rows on their own, over all NICs that the group has.
StepBuilder::Wire StepBuilder::wireOf(int from, int to, double bytes,
                                      bool sameNode) const {
  const Cluster &cluster = costs.cluster;
  const UnitPlan &x = plan.units[from], &y = plan.units[to];
  if (sameNode) {
    double lanes = std::min(x.tp * x.cp, y.tp * y.cp);
    return {0, cluster.nodes[nodeOf(from)].inside.time(bytes / lanes)};
  }
  Link link = cluster.pointToPoint(nodeOf(from), nodeOf(to), false);
  // The slower end's NICs, each at the slower kind's rate.
  double nics = std::min(nicsOf(from), nicsOf(to));
  return {bytes / (link.bandwidth * nics), link.latency};
}

const Linear &StepBuilder::outputOf(const StageInfo &stage) const {
  const Module &module = costs.model.modules[stage.unit];
  return module.kinds[module.layers[stage.end - 1]].output;
}

void StepBuilder::addPipelineEdge(Problem &problem, const Parts &parts,
                                  size_t s) {
  const StageInfo &a = stages[s];
  const UnitPlan &unit = plan.units[a.unit];
  scheduler::Edge edge;
  edge.from = int(s);
  edge.to = int(s + 1);
  edge.gradient = costs.model.modules[a.unit].hasBackward();
  // The mean part: what a message of activations weighs.
  double bytes = outputOf(a).at(parts.modules[a.unit].getMean());
  int from = a.position, to = stages[s + 1].position;
  if (from == to) { // the turn of a V
    overhead.push_back(0);
    problem.edges.push_back(std::move(edge));
    return;
  }
  Wire near = wireOf(a.unit, a.unit, bytes, true),
       far = wireOf(a.unit, a.unit, bytes, false);
  std::vector<bool> inside = staysInside(a.unit, from, to);
  int64_t staying = std::count(inside.begin(), inside.end(), true);
  // Of a folded problem the slowest replica stands for all.
  Wire wire = staying == unit.dp ? near : far;
  edge.latency = toTime(wire.total());
  if (!fold && staying > 0 && staying < unit.dp)
    for (int r = 0; r < int(unit.dp); ++r)
      edge.routes.push_back(
          {-1, r, r, toTime((inside[r] ? near : far).total())});
  overhead.push_back(toTime(wire.latency));
  edge.receiveDepth = kReceiveDepth;
  problem.edges.push_back(std::move(edge));
}

std::vector<bool> StepBuilder::staysInside(int u, int from, int to) const {
  const UnitPlan &unit = plan.units[u];
  int64_t apart = int64_t(std::abs(to - from)) * unit.tp * unit.cp *
                  (unit.blocks.empty() ? unit.dp : 1);
  if (llvm::all_of(costs.cluster.nodes,
                   [&](const NodeKind &node) { return node.devices <= apart; }))
    return std::vector<bool>(unit.dp, false);
  std::vector<bool> inside;
  for (int64_t r = 0; r < unit.dp; ++r) {
    int64_t node = nodeOfReplica(u, from, r);
    inside.push_back(node >= 0 && node == nodeOfReplica(u, to, r));
  }
  return inside;
}

std::vector<int64_t> StepBuilder::nodesOf(const StageInfo &info) const {
  std::vector<int64_t> result;
  for (int64_t r = 0; r < plan.units[info.unit].dp; ++r)
    result.push_back(nodeOfReplica(info.unit, info.position, r));
  return result;
}

/// What travels of every item of `carrier`: (microbatch, from, to) in one
/// number, then bytes; sorted.
std::vector<std::pair<int64_t, double>>
StepBuilder::gatherItems(const Parts &parts, const ModelEdge &edge,
                         int carrier) const {
  int opposite = carrier == edge.from ? edge.to : edge.from;
  const Parts::Items &items = parts.modules[carrier];
  const Parts::Items &other = parts.modules[opposite];
  // Owner's replica: of the sample in the other module, if that counts samples.
  bool bySample = costs.model.modules[opposite].item == ItemKind::Sample;
  std::vector<int32_t> replicaOf(other.owner.size(), 0);
  if (bySample)
    for (size_t i = 0; i < other.owner.size(); ++i)
      replicaOf[other.owner[i]] = other.replica[i];
  int64_t senders = parts.modules[edge.from].replicas,
          receivers = parts.modules[edge.to].replicas;
  std::vector<std::pair<int64_t, double>> sent;
  sent.reserve(items.sizes.size());
  // Part by part, so that only what starts alike is to be sorted.
  size_t sorted = 0;
  for (size_t part = 0; part < items.parts.size(); ++part) {
    int64_t k = int64_t(part) / items.replicas,
            mine = int64_t(part) % items.replicas;
    for (int32_t i : items.parts[part]) {
      int64_t theirs =
          bySample ? replicaOf[items.owner[i]] : mine % other.replicas;
      int64_t a = carrier == edge.from ? mine : theirs,
              b = carrier == edge.from ? theirs : mine;
      sent.emplace_back((k * senders + a) * receivers + b,
                        edge.bytes.at(TokenSums::of(items.sizes[i])));
    }
    if (carrier == edge.from || mine + 1 == items.replicas) {
      std::sort(sent.begin() + sorted, sent.end());
      sorted = sent.size();
    }
  }
  return sent;
}

void StepBuilder::addBroker(Problem &problem, const Parts &parts,
                            const ModelEdge &edge) {
  // The items that travel are the consumer's if it counts something else than
  // samples, else the producer's.
  bool toSamples = costs.model.modules[edge.to].item == ItemKind::Sample;
  int carrier = toSamples ? edge.from : edge.to;
  if (parts.modules[carrier].sizes.empty())
    return addEvenBroker(problem, parts, edge, carrier);
  int64_t senders = parts.modules[edge.from].replicas,
          receivers = parts.modules[edge.to].replicas;
  std::vector<std::pair<int64_t, double>> sent =
      gatherItems(parts, edge, carrier);
  // Of a class's messages the longest stands for all.
  int64_t froms = classes[edge.from], tos = classes[edge.to];
  std::vector<int64_t> fromNodes = nodesOf(stages[lastStageOf(edge.from)]),
                       toNodes = nodesOf(stages[firstStageOf(edge.to)]);
  // Both are straight lines over the bytes.
  double farLatency = wireOf(edge.from, edge.to, 0, false).total(),
         nearLatency = wireOf(edge.from, edge.to, 0, true).total();
  double farByte = wireOf(edge.from, edge.to, 1, false).total() - farLatency,
         nearByte = wireOf(edge.from, edge.to, 1, true).total() - nearLatency;
  std::vector<std::pair<int64_t, Time>> messages;
  for (size_t i = 0; i < sent.size();) {
    int64_t key = sent[i].first;
    double bytes = 0;
    for (; i < sent.size() && sent[i].first == key; ++i)
      bytes += sent[i].second;
    int64_t sender = key / receivers % senders, receiver = key % receivers;
    int64_t node = fromNodes[sender];
    bool near = node >= 0 && node == toNodes[receiver];
    double seconds =
        near ? nearLatency + nearByte * bytes : farLatency + farByte * bytes;
    int64_t a = classOf(edge.from, sender), b = classOf(edge.to, receiver),
            k = key / receivers / senders;
    int64_t one = (k * froms + a) * tos + b;
    if (messages.empty() || messages.back().first != one)
      messages.emplace_back(one, 0);
    messages.back().second = std::min(messages.back().second, -toTime(seconds));
  }
  if (fold)
    std::sort(messages.begin(), messages.end());
  std::vector<scheduler::Route> routes;
  for (size_t i = 0; i < messages.size(); ++i) {
    int64_t key = messages[i].first;
    if (i == 0 || messages[i - 1].first != key)
      routes.push_back({int(key / tos / froms), int(key / tos % froms),
                        int(key % tos), -messages[i].second});
  }
  addRoutes(problem, edge, std::move(routes));
}

void StepBuilder::addRoutes(Problem &problem, const ModelEdge &edge,
                            std::vector<scheduler::Route> routes) {
  if (routes.empty())
    return;
  overhead.push_back(toTime(wireOf(edge.from, edge.to, 0, false).latency));
  scheduler::Edge &result = problem.edges.emplace_back();
  result.from = lastStageOf(edge.from);
  result.to = firstStageOf(edge.to);
  result.gradient = costs.model.modules[edge.from].hasBackward();
  result.routes = std::move(routes);
  result.receiveDepth = kReceiveDepth;
}

/// Without items: one message between each pair of classes, as large as an even
/// share.
void StepBuilder::addEvenBroker(Problem &problem, const Parts &parts,
                                const ModelEdge &edge, int carrier) {
  std::vector<scheduler::Route> routes;
  const Parts::Items &items = parts.modules[carrier];
  int64_t senders = plan.units[edge.from].dp,
          receivers = plan.units[edge.to].dp;
  auto nodeOfUnit = [&](int u) {
    const UnitPlan &unit = plan.units[u];
    return costs.cluster.getNodeOfAll(unit.firstRank, unit.getRanks());
  };
  int64_t node = nodeOfUnit(edge.from);
  bool inside = node >= 0 && node == nodeOfUnit(edge.to);
  for (int k = 0; k < parts.microbatches; ++k) {
    TokenSums sum = items.getSum(k);
    if (sum.empty())
      continue;
    double bytes = edge.bytes.at(sum) / double(std::max(senders, receivers));
    Time latency = toTime(wireOf(edge.from, edge.to, bytes, inside).total());
    for (int64_t a = 0; a < classes[edge.from]; ++a)
      for (int64_t b = 0; b < classes[edge.to]; ++b)
        routes.push_back({k, int(a), int(b), latency});
  }
  addRoutes(problem, edge, std::move(routes));
}

void StepBuilder::addEdges(Problem &problem, const Parts &parts) {
  overhead.clear();
  brokers.clear();
  for (size_t s = 0; s + 1 < stages.size(); ++s)
    if (stages[s].unit == stages[s + 1].unit)
      addPipelineEdge(problem, parts, s);
  for (const ModelEdge &edge : costs.model.edges) {
    size_t count = problem.edges.size();
    addBroker(problem, parts, edge);
    brokers.push_back(problem.edges.size() > count ? int(count) : -1);
  }
}

/// Embeddings of the other towers to a replica of a unit, loss and gradients of
/// its own rows against all rows of the others.
double StepBuilder::contrastTime(int u, const Parts &parts) const {
  constexpr double kElement = 4;
  const UnitPlan &unit = plan.units[u];
  double width = costs.model.contrast.width, own = 0, others = 0;
  for (int tower : costs.model.contrast.towers) {
    double items = 0;
    for (const TokenSums &part : parts.modules[tower].moments)
      items += part.items;
    (tower == u ? own : others) += items;
  }
  Group group =
      costs.cluster.getGroup(nodeOf(u), plan.ranks / unit.tp, unit.tp);
  const DeviceKind &device = costs.cluster.getDevice(nodeOf(u));
  double rows = own / double(unit.dp);
  // Products forward, and two for the gradients.
  double flops = 6 * rows * others * width;
  double rate = device.peak(costs.model.modules[u].precision) *
                device.gemm.at(std::max(1.0, rows), std::max(1.0, others),
                               std::max(1.0, width));
  return costs.cluster.allGather(group, others * width * kElement) +
         flops / rate;
}

/// The task of all ranks that hold embeddings, over the whole batch.
void StepBuilder::addContrast(Problem &problem, const Parts &parts) {
  scheduler::Stage sync;
  sync.name = "contrast";
  sync.batchSync = true;
  sync.hasBackward = sync.hasWeight = false;
  std::set<int> all;
  std::vector<int> from;
  double seconds = 0;
  for (int tower : costs.model.contrast.towers) {
    int stage = lastStageOf(tower);
    sync.unit = problem.stages[stage].unit;
    seconds = std::max(seconds, contrastTime(tower, parts));
    from.push_back(stage);
    forRanks(problem.stages[stage], [&](int rank) { all.insert(rank); });
  }
  sync.replicas.emplace_back(all.begin(), all.end());
  sync.forward = scheduler::Table(toTime(seconds));
  int index = int(problem.stages.size());
  problem.stages.push_back(std::move(sync));
  for (int stage : from) {
    scheduler::Edge &edge = problem.edges.emplace_back();
    edge.from = stage;
    edge.to = index;
    edge.gradient = problem.stages[stage].hasBackward;
    overhead.push_back(0);
  }
}

/// Gradients of every stage over its replicas, layer by layer as the last
/// microbatch is done with them, then the optimizer, and what it updated to all
/// replicas.
void StepBuilder::addReductions(EngineOptions &engine) const {
  engine.optimizer.assign(ranks, 0);
  for (size_t s = 0; s < stages.size(); ++s)
    if (costs.model.modules[stages[s].unit].trainable)
      addReduction(engine, int(s));
}

/// Of a stage. Where ranks share cores, so do their sums: all ranks are at it
/// then, when all is done.
void StepBuilder::addReduction(EngineOptions &engine, int stage) const {
  const StageInfo &info = stages[stage];
  int u = info.unit;
  const Module &module = costs.model.modules[u];
  const UnitPlan &unit = plan.units[u];
  const ModuleCost &cost = costOf(u);
  const Cluster &cluster = costs.cluster;
  const NodeKind &first = cluster.nodes.front();
  int64_t tp = unit.tp, over = std::max(tp, unit.getExpertRanks());
  auto [all, own, experts] =
      cost.parameters(info.begin, info.end, unit.tp, over);
  // Seconds; of these, on NICs.
  double sum = 0, gather = 0, busy = 0, later = 0;
  auto add = [&](double parameters, int64_t stride) {
    Group group = cluster.getGroup(
        nodeOf(u), std::max<int64_t>(1, unit.getSumRanks() * tp / stride),
        stride, cluster.getSite(unit.getRank(info.position, 0)).place);
    double gradients = parameters * module.bytes.gradient,
           weights = unit.zero ? parameters * module.bytes.weight : 0;
    sum += unit.zero ? cluster.reduceScatter(group, gradients)
                     : cluster.allReduce(group, gradients);
    gather += cluster.allGather(group, weights);
    busy += cluster.onNics(group, gradients) * (unit.zero ? 1 : 2);
    later += cluster.onNics(group, weights);
  };
  add(own - experts, tp);
  add(experts, over); // these have replicas of their own
  double updated = (unit.zero ? all : own) / double(unit.getShards());
  const DeviceKind &device = cluster.getDevice(nodeOf(u));
  double update =
      updated * (costs.profile && costs.profile->update
                     ? *costs.profile->update
                     : (module.bytes.gradient + module.bytes.weight +
                        2 * module.bytes.optimizer) /
                           (device.bandwidth * device.stream));
  GradientReduction reduction;
  reduction.stages = {stage};
  if (first.cores > 0) {
    sum += gather;
    busy += later;
    gather = later = 0;
    sum *= std::max(1.0,
                    std::min<double>(plan.ranks, first.devices) / first.cores);
  } else {
    reduction.buckets = std::max(1, info.end - info.begin);
  }
  reduction.duration = toTime(sum);
  if (engine.links > 0) {
    reduction.takes = takesOf(engine, u, info.position, busy);
    for (auto [link, time] : takesOf(engine, u, info.position, later))
      gather = std::max(gather, double(time) * 1e-9);
  }
  for (int64_t r = 0; r < classes[u]; ++r)
    for (int rank : ranksOf(info, r)) {
      reduction.ranks.push_back(rank);
      engine.optimizer[rank] += toTime(update + gather);
    }
  engine.reductions.push_back(std::move(reduction));
}

EngineOptions StepBuilder::getEngineOptions(const Problem &problem,
                                            bool links) const {
  EngineOptions engine;
  const Cluster &cluster = costs.cluster;
  const NodeKind &first = cluster.nodes.front();
  if (links && cluster.getNumDevices() > first.devices)
    addLinks(engine);
  addReductions(engine);
  bool oneNode = cluster.getNode(0) == cluster.getNode(plan.ranks - 1);
  engine.barrier = toTime(
      2 * std::ceil(std::log2(double(std::max<int64_t>(2, plan.ranks)))) *
      (oneNode ? first.inside : first.network).latency);
  if (plan.ranks == 1)
    engine.barrier = 0;
  if (first.cores > 0)
    addCores(engine);
  // Replicas of a folded problem would queue for NICs of their own.
  if (engine.links > 0 && !fold)
    addMessages(problem, engine);
  return engine;
}

/// Where ranks share the cores of their node. A rank of the problem stands for
/// a TP group, or for a part of one; ranks of a folded problem for several.
void StepBuilder::addCores(EngineOptions &engine) const {
  const NodeKind &first = costs.cluster.nodes.front();
  engine.width = width;
  std::map<int64_t, EngineOptions::Cores> nodes;
  for (int rank = 0; rank < ranks; ++rank)
    nodes[planRank[rank] / first.devices].ranks.push_back(rank);
  for (auto &[node, cores] : nodes) {
    cores.cores = first.cores;
    engine.cores.push_back(std::move(cores));
  }
}

} // namespace dt::planner
