//===- Policy.cpp - What policies share -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::plan {

ArrayRef<Policy> getPolicies() {
  static constexpr Policy policies[] = {
      {"megatron",
       "one layout for all, encoder and generator inside the end "
       "stages, smallest PP that fits",
       planMegatron},
      {"megatron-stages",
       "one layout for all, encoder and generator on stages "
       "of their own",
       planMegatronStages},
      {"homogeneous", "the best uniform layout", planHomogeneous},
      {"disttrain", "DistTrain's formulation, whole samples, algorithm 2",
       planDistTrain},
      {"distmm", "DISTMM's partitioner, balancer and placement", planDistMM},
      {"colocated", "units share ranks in phases, each with its own layout",
       planColocated},
      {"bubble", "encoder and generator in the backbone's bubbles", planBubble},
      {"joint", "all of these, item by item", planJoint},
  };
  return policies;
}

Expected<Plan> makePlan(StringRef name, const PolicyInput &input) {
  if (Error error = input.model().check())
    return std::move(error);
  if (Error error = checkPrecision(input.costs.cluster, input.model()))
    return std::move(error);
  if (input.batch.empty())
    return createStringError(inconvertibleErrorCode(),
                             "a plan needs a global batch of at least 1");
  std::string names;
  for (const Policy &policy : getPolicies()) {
    if (policy.name == name)
      return policy.make(input);
    names += (names.empty() ? "" : ", ") + std::string(policy.name);
  }
  return createStringError(inconvertibleErrorCode(),
                           "no policy is named '" + name +
                               "' (known: " + names + ")");
}

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> result;
  for (int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      result.push_back(d);
      if (d * d != n)
        result.push_back(n / d);
    }
  llvm::sort(result);
  return result;
}

std::vector<int> tensorSizes(const PolicyInput &input, int module) {
  std::vector<int> result;
  int most = input.costs.cluster.nodes.front().devices;
  for (const NodeKind &node : input.costs.cluster.nodes)
    most = std::max(most, node.devices);
  for (int tp = 1; tp <= std::min(most, input.model().modules[module].maxTP);
       tp *= 2)
    if (input.model().modules[module].maxTP % tp == 0)
      result.push_back(tp);
  return result;
}

Moments meanPart(const PolicyInput &input, int module, int64_t microbatches,
                 int64_t dp) {
  Moments sum = momentsOf(input.batch, input.model().modules[module].item);
  return sum * (1 / (double(microbatches) * double(dp)));
}

const LayerPrices &PriceCache::get(const Costs &costs,
                                   const std::vector<Sample> &batch, int m,
                                   const CostOptions &options,
                                   int64_t samples) {
  auto [it, isNew] = prices.try_emplace(
      {m, options.tp, int(options.save), options.sequenceParallel, samples});
  LayerPrices &result = it->second;
  if (!isNew)
    return result;
  const Module &module = costs.model.modules[m];
  const ModuleCost &cost = costs.get(0, m);
  Moments part =
      momentsOf(batch, module.item) * (double(samples) / double(batch.size()));
  std::vector<double> seconds, bytes;
  for (size_t kind = 0; kind < module.kinds.size(); ++kind) {
    seconds.push_back(cost.layer(int(kind), options, part).total());
    bytes.push_back(-1);
  }
  result.total = result.kept = result.parameters = {0};
  for (size_t i = 0; i < module.layers.size(); ++i) {
    int kind = module.layers[i];
    if (bytes[kind] < 0)
      bytes[kind] = cost.kept(int(i), int(i) + 1, options, part);
    result.total.push_back(result.total.back() + seconds[kind]);
    result.kept.push_back(result.kept.back() + bytes[kind]);
    result.parameters.push_back(result.parameters.back() +
                                module.kinds[kind].parameters);
  }
  return result;
}

UnitPlan makeUnit(const PolicyInput &input, int module, int tp, int64_t dp,
                  int pp, int vpp, Save save, bool even) {
  UnitPlan unit;
  unit.module = module;
  unit.tp = tp;
  unit.dp = dp;
  unit.pp = pp;
  unit.vpp = vpp;
  unit.save = save;
  int layers = int(input.model().modules[module].layers.size());
  int stages = pp * vpp;
  if (even || stages == 1) {
    unit.cuts = evenCuts(layers, stages);
    return unit;
  }
  CostOptions options;
  options.tp = tp;
  options.save = save;
  const LayerPrices &prices = input.prices(module, options);
  std::vector<double> byLayer;
  for (int i = 0; i < layers; ++i)
    byLayer.push_back(prices.seconds(i, i + 1));
  unit.cuts = balancedCuts(byLayer, stages);
  return unit;
}

namespace {

int hostOf(const Plan &plan, int unit) {
  return plan.units[unit].inside ? plan.units[unit].inside->unit : unit;
}

/// Layers' prices and the factor from the priced samples to a part.
std::pair<const LayerPrices &, double> pricesOf(const PolicyInput &input,
                                                const Plan &plan, int u) {
  const UnitPlan &unit = plan.units[u], &host = plan.units[hostOf(plan, u)];
  CostOptions options;
  options.tp = host.tp;
  options.save = unit.save;
  options.sequenceParallel = plan.sequenceParallel;
  double samples =
      double(input.samples()) / (double(plan.microbatches) * double(host.dp));
  // The backbone's parts are priced as they are, the others' in proportion.
  int64_t priced = u == input.model().pace ? plan.micro : 1;
  return {input.prices(u, options, priced), samples / double(priced)};
}

/// Seconds of one microbatch in a unit's slowest stage and in all of them.
struct UnitTimes {
  double slowest = 0, whole = 0, stages = 1;
};

UnitTimes timesOf(const PolicyInput &input, const Plan &plan, int u) {
  const UnitPlan &unit = plan.units[u];
  auto [prices, factor] = pricesOf(input, plan, u);
  UnitTimes result;
  result.whole = prices.total.back() * factor;
  result.stages = plan.units[hostOf(plan, u)].pp;
  if (unit.inside) {
    result.slowest = result.whole;
    return result;
  }
  std::vector<double> position(unit.pp, 0);
  for (int s = 0; s < unit.pp * unit.vpp; ++s)
    position[s % unit.pp] +=
        prices.seconds(unit.cuts[s], unit.cuts[s + 1]) * factor;
  result.slowest = *std::max_element(position.begin(), position.end());
  return result;
}

double reductionTime(const PolicyInput &input, const Plan &plan, int u) {
  const Module &module = input.model().modules[u];
  if (!module.trainable)
    return 0;
  const UnitPlan &host = plan.units[hostOf(plan, u)];
  const Cluster &cluster = input.costs.cluster;
  Group group =
      cluster.getGroup(cluster.getNodeKind(host.firstRank), host.dp, host.tp);
  double parameters =
      module.getParameters() / host.tp / (plan.units[u].inside ? 1 : host.pp);
  return cluster.reduceScatter(group, parameters * module.gradientBytes) +
         cluster.allGather(group, parameters * module.weightBytes);
}

} // namespace

double estimateMemory(const PolicyInput &input, const Plan &plan,
                      const UnitPlan &unit, int64_t inFlight) {
  int u = unit.module;
  const UnitPlan &host = plan.units[hostOf(plan, u)];
  const Module &module = input.model().modules[u];
  auto [prices, factor] = pricesOf(input, plan, u);
  double weight = module.weightBytes;
  if (module.trainable)
    weight += module.gradientBytes + module.optimizerBytes / double(host.dp);
  double worst = 0;
  for (int p = 0; p < unit.pp; ++p) {
    double bytes = 0;
    int64_t held = std::min<int64_t>(plan.microbatches,
                                     std::max<int64_t>(1, inFlight - p));
    for (int v = 0; v < unit.vpp; ++v) {
      int begin = unit.cuts[v * unit.pp + p],
          end = unit.cuts[v * unit.pp + p + 1];
      bytes += (prices.parameters[end] - prices.parameters[begin]) / host.tp *
                   weight +
               double(held) * (prices.kept[end] - prices.kept[begin]) * factor;
    }
    worst = std::max(worst, bytes);
  }
  return worst;
}

double estimate(const PolicyInput &input, const Plan &plan) {
  const Cluster &cluster = input.costs.cluster;
  size_t count = plan.units.size();
  std::vector<double> slowest(count, 0), memory(count, 0);
  double fill = 0, reduce = 0, phased = 0;
  int64_t depth = 0;
  for (const UnitPlan &unit : plan.units)
    depth += unit.inside ? 0 : unit.pp;
  bool shared = plan.schedule == "phased" || plan.schedule == "nested";
  int64_t inFlight = depth;
  for (size_t u = 0; u < count; ++u) {
    UnitTimes times = timesOf(input, plan, int(u));
    int host = hostOf(plan, int(u));
    // What runs inside a unit makes one of its stages longer, no other.
    slowest[host] += times.slowest;
    if (!plan.units[u].inside) {
      int vpp = plan.units[u].vpp;
      double rest = shared && int(u) != input.model().pace ? 0 : times.whole;
      fill += rest / vpp * double(times.stages - 1) / times.stages +
              (shared ? 0 : times.slowest);
      if (shared && int(u) != input.model().pace)
        phased += times.whole * double(plan.microbatches);
    }
    reduce = std::max(reduce, reductionTime(input, plan, int(u)));
    memory[host] += estimateMemory(
        input, plan, plan.units[u],
        shared && int(u) != input.model().pace ? plan.microbatches : inFlight);
    if (!plan.units[u].inside)
      inFlight = std::max<int64_t>(1, inFlight - plan.units[u].pp);
  }
  double total = 0;
  for (size_t u = 0; u < count; ++u) {
    int node = cluster.getNodeKind(plan.units[u].firstRank);
    total += memory[u];
    if ((shared ? total : memory[u]) > cluster.getMemory(node))
      return INFINITY;
  }
  double steady = *std::max_element(slowest.begin(), slowest.end());
  if (shared)
    steady = slowest[input.model().pace];
  // In bubbles a part of the others' work is free.
  if (plan.schedule == "nested")
    phased = std::max(0.0, phased - 0.7 * fill);
  return fill + steady * double(plan.microbatches - 1) + phased + reduce;
}

Expected<Plan> fastest(const PolicyInput &input, std::vector<Plan> plans) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < plans.size(); ++i)
    order.emplace_back(estimate(input, plans[i]), i);
  llvm::sort(order);
  StepOptions options;
  std::optional<Plan> best;
  std::string reason = "no layout of the units fits the devices";
  bool reasoned = false;
  int simulated = 0;
  for (auto [seconds, i] : order) {
    // Memory by estimate is too pessimistic at times: some are tried anyway.
    if (simulated >= input.simulations || (best && std::isinf(seconds)) ||
        (best && seconds > 1.3 * best->predicted.step) || simulated >= 60)
      break;
    ++simulated;
    auto result = simulateStep(input.costs, plans[i], input.batch, options);
    if (!result) {
      std::string text = toString(result.takeError());
      if (!reasoned)
        reason = text;
      reasoned = true;
      continue;
    }
    if (!best || result->predicted.step < best->predicted.step) {
      best = plans[i];
      best->predicted = result->predicted;
      best->predicted.objective = seconds;
    }
  }
  if (!best)
    return createStringError(inconvertibleErrorCode(), reason);
  return *best;
}

} // namespace dt::plan
