//===- StepBuilder.cpp - A plan as a scheduling problem -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/sim/StepBuilder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace dt::plan {

namespace {

constexpr double kNano = 1e9;

Time toTime(double seconds) { return Time(std::llround(seconds * kNano)); }

} // namespace

StepBuilder::StepBuilder(const Costs &costs, const Plan &plan,
                         const StepOptions &options)
    : costs(costs), plan(plan), options(options) {
  layOutRanks();
  stageBase.assign(plan.units.size(), -1);
  for (size_t u = 0; u < plan.units.size(); ++u)
    if (!plan.units[u].inside)
      addStages(int(u));
  for (size_t u = 0; u < plan.units.size(); ++u)
    if (plan.units[u].inside) {
      int host = plan.units[u].inside->unit, at = plan.units[u].inside->stage;
      int count = plan.units[host].pp * plan.units[host].vpp;
      stages[stageBase[host] + (at < 0 ? count + at : at)].guests.push_back(
          int(u));
    }
}

CostOptions StepBuilder::optionsOf(int unit) const {
  // What runs inside a unit runs at that unit's layout.
  const UnitPlan &host = plan.units[hostOf(unit)];
  CostOptions result;
  result.tp = host.tp;
  result.cp = host.cp;
  result.save = plan.units[unit].save;
  result.sequenceParallel = plan.sequenceParallel;
  return result;
}

/// One rank of the problem for a replica's TP group, unless units of unequal TP
/// share ranks: then one for as many as all TP sizes divide by.
void StepBuilder::layOutRanks() {
  for (size_t a = 0; a < plan.units.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      const UnitPlan &x = plan.units[a], &y = plan.units[b];
      if (x.inside || y.inside)
        continue;
      shared |= x.firstRank < y.firstRank + y.getRanks() &&
                y.firstRank < x.firstRank + x.getRanks();
    }
  grain = 0;
  int64_t next = 0;
  for (const UnitPlan &unit : plan.units) {
    rankBase.push_back(next);
    if (unit.inside)
      continue;
    grain = std::gcd(grain, int64_t(unit.tp) * unit.cp);
    grain = shared ? std::gcd(grain, unit.firstRank) : grain;
    next += unit.dp * unit.pp;
  }
  ranks = int(shared ? (plan.ranks + grain - 1) / grain : next);
}

std::vector<int> StepBuilder::ranksOf(int u, int position,
                                      int64_t replica) const {
  const UnitPlan &unit = plan.units[u];
  int64_t group = int64_t(position) * unit.dp + replica;
  if (!shared)
    return {int(rankBase[u] + group)};
  int64_t size = int64_t(unit.tp) * unit.cp;
  int64_t first = (unit.firstRank + group * size) / grain;
  std::vector<int> result(size / grain);
  std::iota(result.begin(), result.end(), int(first));
  return result;
}

void StepBuilder::addStages(int u) {
  const UnitPlan &unit = plan.units[u];
  stageBase[u] = int(stages.size());
  for (int s = 0; s < unit.pp * unit.vpp; ++s)
    stages.push_back({u, s, {}});
}

int StepBuilder::firstStageOf(int u) const {
  const UnitPlan &unit = plan.units[u];
  if (!unit.inside)
    return stageBase[u];
  const UnitPlan &host = plan.units[unit.inside->unit];
  int at = unit.inside->stage;
  return stageBase[unit.inside->unit] + (at < 0 ? host.pp * host.vpp + at : at);
}

int StepBuilder::lastStageOf(int u) const {
  const UnitPlan &unit = plan.units[u];
  return unit.inside ? firstStageOf(u) : stageBase[u] + unit.pp * unit.vpp - 1;
}

void StepBuilder::timesOf(const StageInfo &stage, const Parts &parts, int k,
                          int r, Times &times, double &kept) const {
  const UnitPlan &unit = plan.units[stage.unit];
  auto add = [&](int u, int begin, int end) {
    CostOptions layout = optionsOf(u);
    const ModuleCost &cost = costs.get(nodeOf(hostOf(u)), u);
    const Moments &part = parts.get(u, k, r);
    times += cost.layers(begin, end, layout, part);
    kept += cost.kept(begin, end, layout, part);
  };
  add(stage.unit, unit.cuts[stage.index], unit.cuts[stage.index + 1]);
  for (int guest : stage.guests)
    add(guest, 0, int(costs.model.modules[guest].layers.size()));
}

void StepBuilder::addTimes(schedule::Problem &problem,
                           const Parts &parts) const {
  int n = parts.microbatches;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageInfo &info = stages[s];
    const UnitPlan &unit = plan.units[info.unit];
    schedule::Stage &stage = problem.stages[s];
    size_t count = size_t(n) * unit.dp;
    stage.forward.values.assign(count, 0);
    stage.input = stage.weight = stage.activation = stage.forward;
    // Equal parts cost the same: only the last is remembered, data are either
    // uniform or not.
    Moments last{-1, -1, -1};
    Times times;
    double kept = 0;
    for (int k = 0; k < n; ++k)
      for (int r = 0; r < unit.dp; ++r) {
        const Moments &part = parts.get(info.unit, k, r);
        if (!info.guests.empty() || part.tokens != last.tokens ||
            part.squares != last.squares || part.items != last.items) {
          times = {};
          kept = 0;
          timesOf(info, parts, k, r, times, kept);
          last = part;
        }
        size_t at = size_t(k) * unit.dp + r;
        stage.forward.values[at] = toTime(times.forward);
        stage.input.values[at] = toTime(times.input);
        stage.weight.values[at] = toTime(times.weight);
        stage.activation.values[at] = int64_t(kept);
      }
    const Module &module = costs.model.modules[info.unit];
    stage.hasBackward = module.hasBackward();
    stage.hasWeight = module.trainable;
    for (int guest : info.guests) {
      stage.hasBackward |= costs.model.modules[guest].hasBackward();
      stage.hasWeight |= costs.model.modules[guest].trainable;
    }
    stage.weightActivation = stage.activation;
    for (int64_t &bytes : stage.weightActivation.values)
      bytes = bytes * 4 / 10; // inputs of products; scores and masks are free
  }
}

void StepBuilder::addBroker(schedule::Problem &problem, const Parts &parts,
                            const ModelEdge &edge) const {
  int from = lastStageOf(edge.from), to = firstStageOf(edge.to);
  if (from == to)
    return; // inside one stage
  schedule::Edge result;
  result.from = from;
  result.to = to;
  result.gradient = costs.model.modules[edge.from].hasBackward();
  // The items that travel are the consumer's if it counts something else than
  // samples, else the producer's.
  int carrier = costs.model.modules[edge.to].item == ItemKind::Sample
                    ? edge.from
                    : edge.to;
  const Parts::Items &items = parts.modules[carrier];
  const Parts::Items &other =
      parts.modules[carrier == edge.from ? edge.to : edge.from];
  std::map<std::tuple<int, int, int>, double> bytes;
  // Owner's replica: of the sample in the other module, if that counts samples.
  bool bySample =
      costs.model.modules[carrier == edge.from ? edge.to : edge.from].item ==
      ItemKind::Sample;
  std::vector<int32_t> replicaOf(other.owner.size(), 0);
  if (bySample)
    for (size_t i = 0; i < other.owner.size(); ++i)
      replicaOf[other.owner[i]] = other.replica[i];
  for (size_t i = 0; i < items.tokens.size(); ++i) {
    int mine = items.replica[i];
    int theirs = bySample ? replicaOf[items.owner[i]] : mine % other.replicas;
    auto key = carrier == edge.from
                   ? std::make_tuple(int(items.microbatch[i]), mine, theirs)
                   : std::make_tuple(int(items.microbatch[i]), theirs, mine);
    bytes[key] += edge.bytes.at(Moments::of(items.tokens[i]));
  }
  const Cluster &cluster = costs.cluster;
  Link link = cluster.pointToPoint(nodeOf(hostOf(edge.from)),
                                   nodeOf(hostOf(edge.to)), false, 1);
  for (auto &[key, size] : bytes) {
    schedule::Route route;
    std::tie(route.microbatch, route.from, route.to) = key;
    // Each TP rank sends its rows on its own.
    double share = std::min(plan.units[hostOf(edge.from)].tp,
                            plan.units[hostOf(edge.to)].tp);
    route.latency = toTime(link.time(size / share));
    result.routes.push_back(route);
  }
  if (result.routes.empty())
    return;
  problem.edges.push_back(std::move(result));
}

void StepBuilder::addEdges(schedule::Problem &problem,
                           const Parts &parts) const {
  for (size_t s = 0; s + 1 < stages.size(); ++s) {
    const StageInfo &a = stages[s], &b = stages[s + 1];
    if (a.unit != b.unit)
      continue;
    const UnitPlan &unit = plan.units[a.unit];
    const Module &module = costs.model.modules[a.unit];
    schedule::Edge edge;
    edge.from = int(s);
    edge.to = int(s + 1);
    edge.gradient = module.hasBackward();
    // The mean part: what a message of activations weighs.
    Moments sum;
    for (const Moments &part : parts.modules[a.unit].moments)
      sum += part;
    double count = std::max<size_t>(1, parts.modules[a.unit].moments.size());
    const LayerKind &last =
        module.kinds[module.layers[unit.cuts[a.index + 1] - 1]];
    double bytes = last.output.at(sum * (1 / count)) / (unit.tp * unit.cp);
    int node = nodeOf(a.unit);
    const NodeKind &kind = costs.cluster.nodes[node];
    bool same = int64_t(unit.tp) * unit.cp * unit.dp * unit.pp <= kind.devices;
    Link link = costs.cluster.pointToPoint(node, node, same, kind.devices);
    edge.latency = unit.pp > 1 ? toTime(link.time(bytes)) : 0;
    problem.edges.push_back(edge);
  }
  for (const ModelEdge &edge : costs.model.edges)
    addBroker(problem, parts, edge);
}

schedule::Problem StepBuilder::build(const Parts &parts) {
  schedule::Problem problem;
  problem.ranks = ranks;
  problem.microbatches = parts.microbatches;
  std::vector<int> unitIndex(plan.units.size(), 0);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    unitIndex[u] = int(problem.units.size());
    if (!plan.units[u].inside)
      problem.units.push_back(
          {costs.model.modules[u].name, plan.units[u].runAhead});
  }
  for (const StageInfo &info : stages) {
    const UnitPlan &unit = plan.units[info.unit];
    schedule::Stage stage;
    stage.name = costs.model.modules[info.unit].name;
    if (unit.pp * unit.vpp > 1)
      stage.name += "." + std::to_string(info.index);
    stage.unit = unitIndex[info.unit];
    for (int64_t r = 0; r < unit.dp; ++r)
      stage.replicas.push_back(ranksOf(info.unit, info.index % unit.pp, r));
    problem.stages.push_back(std::move(stage));
  }
  edgeItems.clear();
  for (const ModelEdge &edge : costs.model.edges) {
    bool toSamples = costs.model.modules[edge.to].item == ItemKind::Sample;
    Moments sum;
    for (const Moments &part :
         parts.modules[toSamples ? edge.from : edge.to].moments)
      sum += part;
    edgeItems.push_back(sum);
  }
  addTimes(problem, parts);
  addEdges(problem, parts);
  return problem;
}

std::vector<int> StepBuilder::stagesOf(const UnitPlan &unit,
                                       int position) const {
  std::vector<int> result;
  for (int v = 0; v < unit.vpp; ++v)
    result.push_back(stageBase[unit.module] + v * unit.pp + position);
  return result;
}

/// Gradients of each pipeline position over its replicas, then the optimizer.
void StepBuilder::addReductions(EngineOptions &engine) const {
  engine.optimizer.assign(ranks, 0);
  for (const UnitPlan &unit : plan.units) {
    int u = unit.module;
    if (!costs.model.modules[u].trainable)
      continue;
    const UnitPlan &host = plan.units[hostOf(u)];
    int node = nodeOf(hostOf(u));
    const ModuleCost &cost = costs.get(node, u);
    const DeviceKind &device = costs.cluster.getDevice(node);
    Group group =
        costs.cluster.getGroup(node, host.dp * host.cp, int64_t(host.tp));
    for (int position = 0; position < host.pp; ++position) {
      double parameters = 0;
      if (unit.inside) {
        int at = firstStageOf(u) - stageBase[hostOf(u)];
        if (at % host.pp != position)
          continue;
        parameters = costs.model.modules[u].getParameters();
      } else {
        for (int v = 0; v < unit.vpp; ++v)
          parameters += cost.parameters(unit.cuts[v * unit.pp + position],
                                        unit.cuts[v * unit.pp + position + 1]);
      }
      parameters /= host.tp;
      const Module &module = costs.model.modules[u];
      double gradients = parameters * module.gradientBytes;
      double time = unit.zero ? costs.cluster.reduceScatter(group, gradients) +
                                    costs.cluster.allGather(
                                        group, parameters * module.weightBytes)
                              : costs.cluster.allReduce(group, gradients);
      double own = unit.zero ? parameters / double(host.dp) : parameters;
      double update = own *
                      (module.gradientBytes + module.weightBytes +
                       2 * module.optimizerBytes) /
                      (device.bandwidth * device.stream);
      Reduction reduction;
      reduction.name = module.name;
      reduction.duration = toTime(time);
      reduction.stages = unit.inside ? std::vector<int>{firstStageOf(u)}
                                     : stagesOf(unit, position);
      for (int64_t r = 0; r < host.dp; ++r)
        for (int rank : ranksOf(hostOf(u), position, r)) {
          reduction.ranks.push_back(rank);
          engine.optimizer[rank] += toTime(update);
        }
      engine.reductions.push_back(std::move(reduction));
    }
  }
}

EngineOptions
StepBuilder::getEngineOptions(const schedule::Problem &problem) const {
  EngineOptions engine;
  addReductions(engine);
  const Cluster &cluster = costs.cluster;
  const NodeKind &first = cluster.nodes.front();
  engine.barrier = toTime(
      2 * std::ceil(std::log2(double(std::max<int64_t>(2, plan.ranks)))) *
      first.network.latency);
  if (plan.ranks == 1)
    engine.barrier = 0;
  // Where ranks share the cores of their node.
  if (first.cores > 0) {
    int64_t perNode = std::max<int64_t>(1, first.devices / grain);
    for (int64_t begin = 0; begin < ranks; begin += perNode) {
      EngineOptions::Cores cores;
      cores.cores = first.cores;
      for (int64_t r = begin; r < std::min<int64_t>(begin + perNode, ranks);
           ++r)
        cores.ranks.push_back(int(r));
      engine.cores.push_back(std::move(cores));
    }
  }
  return engine;
}

} // namespace dt::plan
