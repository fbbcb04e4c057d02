//===- Policy.cpp - What policies share -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

Policies &getPolicies() {
  static Policies policies = {
      {"megatron",
       "one layout for all, encoder and generator on the end stages' "
       "ranks, smallest PP that fits",
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
      {"context",
       "joint with context and expert parallelism (not executable yet)",
       planContext},
  };
  return policies;
}

namespace {

/// Nodes of one kind of device that follow one another, or all nodes.
struct View {
  Cluster cluster;
  int64_t firstRank = 0;
};

/// Two devices as one: its rates are what `rate` makes of theirs, the rest is
/// worse in everything.
DeviceKind join(const DeviceKind &a, const DeviceKind &b,
                function_ref<double(double, double)> rate) {
  DeviceKind result = a;
  for (auto &[precision, flops] : a.flops) {
    auto other = b.flops.find(precision);
    if (other == b.flops.end())
      result.flops.erase(precision);
    else
      result.flops[precision] = rate(flops, other->second);
  }
  result.name = a.name + " or " + b.name;
  result.memory = std::min(a.memory - a.reserve, b.memory - b.reserve);
  result.reserve = 0;
  result.bandwidth = rate(a.bandwidth, b.bandwidth);
  result.launch = std::max(a.launch, b.launch);
  result.gemm.peak = rate(a.gemm.peak, b.gemm.peak);
  result.gemm.rows = std::max(a.gemm.rows, b.gemm.rows);
  result.gemm.columns = std::max(a.gemm.columns, b.gemm.columns);
  result.gemm.depth = std::max(a.gemm.depth, b.gemm.depth);
  result.attention = rate(a.attention, b.attention);
  result.convolution = rate(a.convolution, b.convolution);
  result.stream = rate(a.stream, b.stream);
  return result;
}

/// All devices as one kind. `rate` joins so many devices and so many others.
Cluster joinKinds(const Cluster &cluster,
                  function_ref<double(double, int64_t, double, int64_t)> rate) {
  Cluster all = cluster;
  all.devices = {cluster.getDevice(0)};
  int64_t count = 0;
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    int64_t more = cluster.getNumDevices(int(i));
    if (i > 0)
      all.devices[0] =
          join(all.devices[0], cluster.getDevice(int(i)),
               [&](double a, double b) { return rate(a, count, b, more); });
    all.nodes[i].device = 0;
    count += more;
  }
  return all;
}

/// Clusters of one kind of device that are in this one: each kind by itself,
/// and, last, all devices as if they were the weakest.
std::vector<View> viewsOf(const Cluster &cluster) {
  std::vector<View> views;
  int64_t first = 0;
  for (size_t i = 0; i < cluster.nodes.size(); ++i) {
    const NodeKind &node = cluster.nodes[i];
    if (i == 0 || node.device != cluster.nodes[i - 1].device) {
      views.push_back({cluster, first});
      views.back().cluster.nodes.clear();
    }
    views.back().cluster.nodes.push_back(node);
    first += cluster.getNumDevices(int(i));
  }
  views.push_back({joinKinds(cluster, [](double a, int64_t, double b,
                                         int64_t) { return std::min(a, b); }),
                   0});
  return views;
}

/// The plan on ranks from `first` on, with predictions for the devices there.
/// Where replicas on the faster kind have parts that do not fit, in more
/// microbatches.
Expected<Plan> moveTo(const PolicyInput &input, Plan plan, int64_t first) {
  plan.ranks += first;
  for (UnitPlan &unit : plan.units)
    unit.firstRank += first;
  const UnitPlan &pace = plan.units[input.model().pace];
  int64_t n = plan.microbatches, rounds = pace.vpp > 1 ? pace.pp : 1;
  for (int64_t halves = 2;; halves += halves / 2) {
    if (halves > 2) {
      plan.microbatches = n * halves / 2 / rounds * rounds;
      int64_t parts = plan.microbatches * pace.dp;
      plan.micro = (input.samples() + parts - 1) / parts;
    }
    placeBlocks(input, plan);
    auto step = simulateFitting(input.costs, plan, input.batch);
    if (step) {
      plan.predicted = step->predicted;
      return plan;
    }
    if (pace.blocks.empty() || halves > 6)
      return step.takeError();
    consumeError(step.takeError());
  }
}

/// Policies know one kind of device. On a cluster with several they plan with
/// all devices as the first kind, as the weakest, and with each kind alone;
/// what is best on the devices as they are is the policy's plan. `joint`
/// chooses a kind for every unit itself, or several; instead of the weakest it
/// looks at the mean.
Expected<Candidates> findOnKinds(const Policy &policy,
                                 const PolicyInput &input) {
  Candidates all;
  Reason reason;
  if (auto found = policy.find(input))
    all = std::move(*found);
  else
    reason.note(found.takeError());
  bool joint = policy.find == planJoint;
  std::vector<View> views = viewsOf(input.costs.cluster);
  if (joint)
    views.back().cluster = meanOfKinds(input.costs.cluster);
  for (const View &view : views) {
    Costs costs(view.cluster, input.model(), input.costs.profile);
    int most = input.simulations;
    PolicyInput shown{costs, input.batch,
                      joint ? std::max(most / 4, std::min(most, 12)) : most,
                      input.finalists};
    auto found = policy.find(shown);
    if (!found) {
      reason.note(found.takeError());
      continue;
    }
    for (const Plan &plan : found->getPlans())
      if (joint || &plan == &found->getFastest() ||
          &plan == &found->getSimplest()) {
        if (auto moved = moveTo(input, plan, view.firstRank))
          all.add(std::move(*moved));
        else
          reason.note(moved.takeError());
      }
  }
  if (all.empty())
    return createStringError(reason.get());
  all.searched.reset(); // bounds of one view are none of another
  return all;
}

} // namespace

Expected<Candidates> findPlans(StringRef name, const PolicyInput &input) {
  if (Error error = input.model().check())
    return std::move(error);
  if (Error error = checkPrecision(input.costs.cluster, input.model()))
    return std::move(error);
  if (input.batch.empty())
    return createStringError("a plan needs a global batch of at least 1");
  // A simulation takes as long as the batch is large.
  PolicyInput own = input;
  if (input.samples() > 4096)
    own.simulations =
        int(std::max<int64_t>(4, input.simulations * 4096 / input.samples()));
  std::string names;
  for (const Policy &policy : getPolicies()) {
    if (policy.name == name)
      return input.costs.cluster.hasSeveralKinds() ? findOnKinds(policy, own)
                                                   : policy.find(own);
    names += (names.empty() ? "" : ", ") + std::string(policy.name);
  }
  return createStringError("no policy is named '" + name +
                           "' (known: " + names + ")");
}

void placeBlocks(const PolicyInput &input, Plan &plan) {
  if (!input.costs.cluster.hasSeveralKinds())
    return;
  std::vector<TokenSums> items;
  for (size_t m = 0; m < input.model().modules.size(); ++m)
    items.push_back(input.cache->getTotal(input.costs, input.batch, int(m)));
  placeBlocks(input.costs, items, plan);
}

Cluster meanOfKinds(const Cluster &cluster) {
  return joinKinds(cluster, [](double a, int64_t countA, double b,
                               int64_t countB) {
    return (a * double(countA) + b * double(countB)) / double(countA + countB);
  });
}

Expected<Plan> makePlan(StringRef name, const PolicyInput &input) {
  auto found = findPlans(name, input);
  if (!found)
    return found.takeError();
  return found->choose();
}

Expected<Candidates> named(Expected<Candidates> found, StringRef policy) {
  if (found)
    for (Plan &plan : found->getPlans())
      plan.policy = policy.str();
  return found;
}

std::vector<int> tensorSizes(const PolicyInput &input, int module) {
  std::vector<int> result;
  // A TP group is inside a node, and all of a node's devices are in one.
  auto suits = [&](int tp) {
    return input.model().modules[module].maxTP % tp == 0 &&
           any_of(input.costs.cluster.nodes, [&](const NodeKind &node) {
             return node.devices >= tp && node.devices % tp == 0;
           });
  };
  for (int tp = 1; tp <= input.model().modules[module].maxTP; tp *= 2)
    if (suits(tp))
      result.push_back(tp);
  return result;
}

std::vector<int64_t> microSizes(const PolicyInput &input,
                                ArrayRef<int64_t> few) {
  std::vector<int64_t> result = few.vec();
  double tokens =
      meanPart(input, input.model().pace, input.samples(), 1).tokens;
  int64_t next = 1;
  while (next <= result.back())
    next *= 2;
  for (; double(next) * tokens <= 16384 && next <= input.samples(); next *= 2)
    result.push_back(next);
  return result;
}

TokenSums meanPart(const PolicyInput &input, int module, int64_t microbatches,
                   int64_t dp) {
  const TokenSums &sum =
      input.cache->getTotal(input.costs, input.batch, module);
  return sum * (1 / (double(microbatches) * double(dp)));
}

/// Stages a rank that are tried.
static ArrayRef<int> getRounds(const scheduler::Traits &traits) {
  static constexpr int kOne[] = {1}, kTwo[] = {2}, kMore[] = {2, 3, 4, 5, 8};
  if (traits.goesBack)
    return kTwo;
  return traits.interleaves ? ArrayRef<int>(kMore) : ArrayRef<int>(kOne);
}

std::optional<Plan> withRounds(const PolicyInput &input, const Plan &plan,
                               StringRef schedule, int vpp) {
  Plan other = plan;
  other.schedule = schedule.str();
  UnitPlan &unit = other.units[input.model().pace];
  int layers = int(input.model().modules[unit.module].layers.size());
  if (vpp > 1 && (unit.pp < 2 || unit.pp * vpp > layers))
    return std::nullopt;
  if (vpp != unit.vpp || other.goesBack() != plan.goesBack()) {
    UnitPlan cut = makeUnit(input, unit.module, unit.tp, unit.dp, unit.pp, vpp,
                            unit.save, /*even=*/false, other.goesBack());
    unit.cuts = cut.cuts;
    unit.vpp = vpp;
    unit.saves.clear();
  }
  return other;
}

std::vector<StringRef> sharingSchedules() {
  std::vector<StringRef> names;
  for (const scheduler::Registry::Entry &entry :
       scheduler::Registry::get().getEntries())
    if (entry.traits.planned && entry.traits.sharesRanks)
      names.push_back(entry.name);
  return names;
}

std::vector<Plan> withSchedules(const PolicyInput &input, const Plan &plan,
                                bool anyPlacement) {
  const UnitPlan &pace = plan.units[input.model().pace];
  std::vector<Plan> plans;
  for (const scheduler::Registry::Entry &entry :
       scheduler::Registry::get().getEntries()) {
    const scheduler::Traits &traits = entry.traits;
    if (!traits.planned ||
        (!anyPlacement && traits.sharesRanks != plan.sharesRanks()))
      continue;
    // Splitting backwards redoes nothing where nothing was kept; programs
    // would hold everything that is done again.
    if (traits.splitsBackward && pace.save == Save::None)
      continue;
    for (int vpp : getRounds(traits))
      if (entry.name != plan.schedule || vpp != pace.vpp)
        if (auto other = withRounds(input, plan, entry.name, vpp))
          plans.push_back(std::move(*other));
  }
  return plans;
}

std::vector<Plan> splitBackwards(const PolicyInput &input, const Plan &plan) {
  std::vector<Plan> plans = withSchedules(input, plan);
  llvm::erase_if(plans, [](const Plan &other) {
    const scheduler::Traits &traits = other.getTraits();
    return !traits.splitsBackward || traits.order != scheduler::OrderOf::Search;
  });
  return plans;
}

UnitPlan makeUnit(const PolicyInput &input, int module, int tp, int64_t dp,
                  int pp, int vpp, Save save, bool even, bool back) {
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
  unit.cuts = input.cache->getCuts(input.costs, input.batch, module, options,
                                   pp, vpp, back);
  return unit;
}

} // namespace dt::planner
