//===- FindPlans.cpp - A policy's plans -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/PlanSearch.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

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
      plan.micro = input.divideSamples(plan.microbatches * pace.dp);
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

Expected<Candidates> findOwn(const Policy &policy, const PolicyInput &input) {
  auto layouts = policy.layouts(input);
  if (!layouts)
    return layouts.takeError();
  auto found = searchLayouts(input, *layouts);
  if (!found)
    return found;
  for (Plan &plan : found->getPlans())
    plan.policy = layouts->title ? layouts->title(plan) : policy.name;
  return found;
}

/// Layouts are for one kind of device. On a cluster with several they are
/// listed with all devices as the first kind, as the weakest, and with each
/// kind alone; what is best on the devices as they are is the policy's plan.
/// One that mixes kinds chooses a kind for every unit itself, or several;
/// instead of the weakest it is asked about the mean.
Expected<Candidates> findOnKinds(const Policy &policy,
                                 const PolicyInput &input) {
  Candidates all;
  Reason reason;
  if (auto found = findOwn(policy, input))
    all = std::move(*found);
  else
    reason.note(found.takeError());
  std::vector<View> views = viewsOf(input.costs.cluster);
  if (policy.mixesKinds)
    views.back().cluster = meanOfKinds(input.costs.cluster);
  for (const View &view : views) {
    Costs costs(view.cluster, input.model(), input.costs.profile);
    int most = input.simulations;
    PolicyInput shown{costs,
                      input.batch,
                      policy.mixesKinds ? std::max(most / 4, std::min(most, 12))
                                        : most,
                      input.finalists,
                      input.scheduleEffort,
                      input.known};
    auto found = findOwn(policy, shown);
    if (!found) {
      reason.note(found.takeError());
      continue;
    }
    for (const Plan &plan : found->getPlans())
      if (policy.mixesKinds || &plan == &found->getFastest() ||
          &plan == &found->getSimplest()) {
        if (auto moved = moveTo(input, plan, view.firstRank))
          all.add(std::move(*moved));
        else
          reason.note(moved.takeError());
      }
  }
  if (all.empty())
    return reason.explain();
  all.searched.reset(); // bounds of one view are none of another
  return all;
}

/// What is next to the best of all policies' plans.
void improve(const PolicyInput &input, Candidates &all) {
  PlanSearch search(input, input.simulations);
  search.tryAnyway("all", all.getPlans().vec());
  search.improve(/*families=*/1);
  if (auto found = expectedToOptional(search.finish(1)))
    for (const Plan &plan : found->getPlans())
      all.add(plan);
}

Expected<Candidates> findAll(const Policy &policy, const PolicyInput &input) {
  auto own = input.costs.cluster.hasSeveralKinds() ? findOnKinds(policy, input)
                                                   : findOwn(policy, input);
  if (!policy.takesAll)
    return own;
  Candidates all = own ? std::move(*own) : Candidates();
  PolicyInput asked = input;
  if (!all.empty())
    asked.known = all.getFastest().predicted.step;
  for (const Policy &other : getPolicies()) {
    auto found = &other == &policy
                     ? std::nullopt
                     : expectedToOptional(findPlans(other.name, asked));
    if (!found)
      continue;
    all.limit = std::min(all.limit, found->getSimplest().predicted.step);
    all.others[other.name] = found->getPlans().vec();
    for (Plan &plan : found->getPlans()) {
      StringRef layout = StringRef(plan.policy).split(" (").second;
      plan.policy = formatv("{0} ({1})", policy.name,
                            layout.empty() ? other.name : layout.drop_back())
                        .str();
      all.add(std::move(plan));
    }
    if (all.searched && found->searched)
      all.searched->add(*found->searched);
  }
  if (all.empty())
    return own;
  consumeError(own.takeError());
  // What is next to its own the search has seen.
  if (all.getFastest().predicted.step < asked.known)
    improve(input, all);
  return all;
}

} // namespace

Cluster meanOfKinds(const Cluster &cluster) {
  return joinKinds(cluster, [](double a, int64_t countA, double b,
                               int64_t countB) {
    return (a * double(countA) + b * double(countB)) / double(countA + countB);
  });
}

static Expected<Candidates> findAnew(StringRef name, const PolicyInput &input) {
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
      return findAll(policy, own);
    names += (names.empty() ? "" : ", ") + std::string(policy.name);
  }
  return createStringError("no policy is named '" + name +
                           "' (known: " + names + ")");
}

Expected<Candidates> findPlans(StringRef name, const PolicyInput &input) {
  auto [at, isNew] =
      input.found->try_emplace({name.str(), input.simulations, input.finalists,
                                input.scheduleEffort, input.known});
  if (isNew) {
    auto found = findAnew(name, input);
    if (found)
      at->second.plans = std::move(*found);
    else
      at->second.error = toString(found.takeError());
  }
  if (!at->second.plans)
    return createStringError(at->second.error);
  return *at->second.plans;
}

Expected<Plan> makePlan(StringRef name, const PolicyInput &input) {
  auto found = findPlans(name, input);
  if (!found)
    return found.takeError();
  return found->choose();
}

} // namespace dt::planner
