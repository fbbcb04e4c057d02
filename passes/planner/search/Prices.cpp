//===- Prices.cpp - What searches ask for again and again -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Prices of layers are sums that are made once, and how uneven parts will be is
// known from the sorted loads of all parts.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "runtime/reorder/Partition.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

const LayerPrices &PriceCache::get(int node, int m, const CostOptions &options,
                                   double samples) {
  std::unique_ptr<LayerPrices> &known = prices[{
      node, m, options.tp, options.cp, int(options.ring), options.ep,
      options.etp, int(options.save), options.sequenceParallel, options.overlap,
      int(options.splitBackward), int64_t(std::lround(samples / kGrain))}];
  if (known)
    return *known;
  known = std::make_unique<LayerPrices>();
  LayerPrices &result = *known;
  const Module &module = costs.model.modules[m];
  const ModuleCost &cost = costs.get(node, m);
  TokenSums part = getTotal(m) * (samples / double(batch.size()));
  std::vector<Times> times;
  std::vector<double> bytes, late;
  for (size_t kind = 0; kind < module.kinds.size(); ++kind) {
    times.push_back(cost.layer(int(kind), options, part));
    bytes.push_back(cost.keptByKind(int(kind), options, part));
    late.push_back(cost.keptForWeights(int(kind), options, part));
    result.workspace =
        std::max(result.workspace, cost.workspace(int(kind), options, part));
  }
  result.message = module.kinds[module.layers.front()].output.at(part) /
                   options.getStreamShares();
  result.total = result.forward = result.weight = result.reduce = result.kept =
      result.late = result.parameters = {0};
  auto add = [](std::vector<double> &sums, double value) {
    sums.push_back(sums.back() + value);
  };
  for (int kind : module.layers) {
    double experts = module.kinds[kind].expertParameters;
    int over = std::max(options.tp, options.ep * options.getExpertTP());
    add(result.total, times[kind].total());
    add(result.forward, times[kind].forward);
    add(result.weight, times[kind].weight);
    add(result.reduce, times[kind].reduce);
    add(result.kept, bytes[kind]);
    add(result.late, late[kind]);
    add(result.parameters, module.kinds[kind].parameters -
                               experts * (1 - double(options.tp) / over));
  }
  return result;
}

double PolicyInput::nearestPower(double samples) {
  double power = samples > 0 ? std::round(std::log2(samples)) : 0;
  return std::exp2(std::clamp(power, -6.0, 10.0));
}

const LayerPrices &PolicyInput::prices(int module, const CostOptions &options,
                                       double samples, int node) const {
  return cache->get(node, module, options, nearestPower(samples));
}

int PolicyInput::nodeOf(const Plan &plan, int unit) const {
  const UnitPlan &host = plan.units[unit];
  int64_t ranks = host.blocks.empty()
                      ? host.getRanks()
                      : host.blocks.front().replicas * host.tp * host.pp;
  return slowestNode(costs, plan, unit, host.firstRank, ranks);
}

std::shared_ptr<const LayerPrices>
PolicyInput::pricesOf(const Plan &plan, int u, double samples) const {
  const UnitPlan &unit = plan.units[u];
  int node = nodeOf(plan, u);
  auto get = [&](int stage) {
    return &cache->get(node, u, plan.getOptions(u, stage), samples);
  };
  if (unit.saves.empty()) // the cache has them
    return {std::shared_ptr<void>(), get(0)};
  auto result = std::make_shared<LayerPrices>();
  for (auto sums :
       {&LayerPrices::total, &LayerPrices::forward, &LayerPrices::weight,
        &LayerPrices::reduce, &LayerPrices::kept, &LayerPrices::late,
        &LayerPrices::parameters}) {
    std::vector<double> &to = (*result).*sums;
    to = {0};
    for (int s = 0; s < unit.pp * unit.vpp; ++s) {
      const std::vector<double> &from = (*get(s)).*sums;
      for (int i = unit.cuts[s]; i < unit.cuts[s + 1]; ++i)
        to.push_back(to.back() + from[i + 1] - from[i]);
    }
  }
  for (int s = 0; s < unit.pp * unit.vpp; ++s)
    result->workspace = std::max(result->workspace, get(s)->workspace);
  result->message = get(0)->message;
  return result;
}

const std::vector<int> &PriceCache::getCuts(int module,
                                            const CostOptions &options, int pp,
                                            int vpp, bool back) {
  std::unique_ptr<std::vector<int>> &known =
      cuts[{module, options.tp, int(options.save), pp, vpp, back}];
  if (known)
    return *known;
  const LayerPrices &prices = get(0, module, options, 1);
  std::vector<double> byLayer;
  for (size_t i = 0; i + 1 < prices.total.size(); ++i)
    byLayer.push_back(prices.seconds(int(i), int(i) + 1));
  known = std::make_unique<std::vector<int>>(
      balancedRounds(byLayer, pp, vpp, back));
  return *known;
}

TokenSums PriceCache::findLargest(int module) const {
  std::vector<ItemSize> sizes =
      itemsOf(batch, costs.model.modules[module].item);
  if (sizes.empty())
    return {};
  const ItemCost &cost = costs.items[module];
  return TokenSums::of(
      *llvm::max_element(sizes, [&](const ItemSize &a, const ItemSize &b) {
        return cost.isAbove(b, a);
      }));
}

TokenSums PriceCache::getLargest(int module) {
  auto [it, isNew] = largest.try_emplace(module);
  if (isNew)
    it->second = findLargest(module);
  return it->second;
}

bool PriceCache::isUniform(int module) {
  auto [it, isNew] = uniform.try_emplace(module, true);
  if (!isNew)
    return it->second;
  ItemKind kind = costs.model.modules[module].item;
  ArrayRef<ItemSize> first = batch.front().getSizes(kind);
  return it->second = !first.empty() && llvm::all_equal(first) &&
                      llvm::all_of(batch, [&](const Sample &sample) {
                        return sample.getSizes(kind) == first;
                      });
}

const TokenSums &PriceCache::getTotal(int module) {
  auto [it, isNew] = totals.try_emplace(module);
  if (isNew)
    it->second = momentsOf(batch, costs.model.modules[module].item);
  return it->second;
}

double PriceCache::getUnevenness(int64_t n, int64_t dp, bool balanced) {
  auto [found, isNew] = drawn.try_emplace({balanced ? n : -n, dp}, 1);
  if (!isNew)
    return found->second;
  // Numbers of parts within 3 % of one another are taken as the same.
  int64_t parts = n * dp;
  if (balanced && parts > 64)
    parts =
        std::lround(std::exp(std::round(std::log(double(parts)) * 32) / 32));
  std::vector<int64_t> &sorted = loads[balanced ? parts : -parts];
  if (sorted.empty()) {
    const ItemCost &cost = costs.items[costs.model.pace];
    std::vector<int64_t> &samples = loads[0]; // one by one
    if (samples.empty())
      for (const Sample &sample : batch) {
        samples.push_back(ItemCost::toLoad(cost.at(
            momentsOf(sample, costs.model.modules[costs.model.pace].item))));
        load += double(samples.back());
      }
    if (balanced) {
      reorder::PartitionOptions options;
      options.groups = int32_t(parts);
      for (const std::vector<int32_t> &part :
           reorder::partitionLPT(samples, options).groups) {
        sorted.push_back(0);
        for (int32_t sample : part)
          sorted.back() += samples[sample];
      }
      llvm::sort(sorted, std::greater<int64_t>());
    } else {
      // As drawn: sample i on replica i mod dp.
      sorted.assign(parts, 0);
      int64_t micro =
          std::max<int64_t>(1, (int64_t(samples.size()) + parts - 1) / parts);
      for (size_t i = 0; i < samples.size(); ++i) {
        int64_t k = std::min(n - 1, int64_t(i) / dp / micro);
        sorted[k * dp + int64_t(i) % dp] += samples[i];
      }
    }
  }
  if (!balanced) {
    // Replicas do not wait for one another until the end.
    double all = 0;
    std::vector<int64_t> sums(dp, 0);
    for (int64_t i = 0; i < parts; ++i) {
      sums[i % dp] += sorted[i];
      all += double(sorted[i]);
    }
    found->second = all > 0
                        ? double(*std::max_element(sums.begin(), sums.end())) *
                              double(dp) / all
                        : 1;
    return found->second;
  }
  // Largest first: the first of a microbatch is its slowest.
  double slowest = 0;
  int64_t groups = 0;
  for (int64_t p = 0; p < parts; p += dp, ++groups)
    slowest += double(sorted[p]);
  found->second =
      load > 0 ? slowest / double(groups) * double(parts) / load : 1;
  return found->second;
}

} // namespace dt::planner
