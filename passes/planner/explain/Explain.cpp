//===- Explain.cpp - What was chosen, and why -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/explain/Explain.h"
#include "passes/picture/Units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace llvm;

namespace dt::planner {

using picture::printBytes;
using picture::printTime;

namespace {

/// Names of losses beside their shares, in the order of printing.
std::vector<std::pair<const char *, double>> listLosses(const Losses &l) {
  return {{"slower kernels", l.kernels},       {"TP messages", l.reduce},
          {"recomputation", l.again},          {"waiting", l.waiting},
          {"gradients and optimizer", l.tail}, {"idle devices", l.idle}};
}

/// What a plan loses more seconds to than another, largest first.
std::string compare(const Prediction &a, const Prediction &b) {
  auto mine = listLosses(a.losses), theirs = listLosses(b.losses);
  std::vector<std::pair<double, std::string>> more;
  for (size_t i = 0; i < mine.size(); ++i) {
    double seconds = mine[i].second * a.step - theirs[i].second * b.step;
    if (seconds > 0.01 * b.step)
      more.emplace_back(seconds, mine[i].first);
  }
  llvm::sort(more, std::greater<>());
  std::string text;
  for (auto &[seconds, name] : more)
    text += (text.empty() ? "" : ", ") + name + " +" + printTime(seconds);
  return text.empty() ? "nowhere by more than 1 %" : text;
}

/// What most of a unit's own work is bound by, at the mean part.
std::string workOf(const PolicyInput &input, const Plan &plan, int u,
                   const TokenSums &part) {
  const UnitPlan &layout = plan.units[u];
  int node = input.costs.cluster.getNodeKind(layout.firstRank);
  const ModuleCost &cost = input.costs.get(node, u);
  CostOptions options = plan.getOptions(u);
  Times times = cost.module(options, part);
  if (times.reduce > 0.25 * times.total())
    return "TP messages";
  if (times.again > 0.25 * times.total())
    return "its work, recomputation included";
  ModuleCost::Bounds bounds = cost.bounds(options, part);
  if (bounds.launch > std::max(bounds.compute, bounds.bandwidth))
    return "its work: starting operators";
  return bounds.compute >= bounds.bandwidth ? "its work: computing"
                                            : "its work: memory bandwidth";
}

/// What keeps a unit from being faster.
std::string boundOf(const PolicyInput &input, const Plan &plan,
                    const Explanation::Unit &unit, int u,
                    const TokenSums &part) {
  // What shares ranks with others takes turns: their ranks are as busy as all
  // of them together.
  std::vector<double> busy(plan.units.size(), 0);
  for (size_t a = 0; a < busy.size(); ++a)
    for (size_t b = 0; b < busy.size(); ++b) {
      const UnitPlan &x = plan.units[a], &y = plan.units[b];
      if (a == b || x.meets(y))
        busy[a] += plan.predicted.busy[b];
    }
  size_t busiest = max_element(busy) - busy.begin();
  std::string memory =
      unit.memory.total() > 0.9 * unit.capacity ? "; its memory is full" : "";
  if (busy[u] < 0.93 * busy[busiest])
    return "waits for " + input.model().modules[busiest].name + memory;
  return workOf(input, plan, u, part) + memory;
}

/// The devices that a unit lies on.
std::string devicesOf(const Cluster &cluster, const UnitPlan &layout) {
  std::string names;
  int last = -1;
  for (int node : cluster.getNodeKinds(layout.firstRank, layout.getRanks()))
    if (std::exchange(last, cluster.nodes[node].device) !=
        cluster.nodes[node].device)
      names += (names.empty() ? "" : " and ") + cluster.getDevice(node).name;
  if (std::string blocks = describeBlocks(layout); !blocks.empty())
    names += " (" + blocks + ")";
  return names;
}

/// The policy's name without what won.
StringRef nameOf(const Plan &plan) {
  return StringRef(plan.policy).split(" (").first;
}

/// What the fullest of a unit's ranks allocates, beside what a checkpoint takes
/// for a moment.
PlannedStep::Memory findAllocated(ArrayRef<RankBytes> allocated,
                                  const UnitPlan &unit, double snapshot) {
  allocated = allocated.slice(unit.firstRank, unit.getRanks());
  const RankBytes &most = *llvm::max_element(
      allocated, [](auto &a, auto &b) { return a.total() < b.total(); });
  PlannedStep::Memory memory;
  memory.state = {double(most.parameters), double(most.gradients),
                  double(most.moments), double(most.sums)};
  memory.activations = double(most.arena);
  memory.workspace = double(most.scratch);
  memory.messages = double(most.messages);
  memory.snapshot = snapshot;
  return memory;
}

std::vector<Explanation::Unit> describeUnits(const PolicyInput &input,
                                             const Plan &plan,
                                             const PlannedStep &result,
                                             const Parts &parts) {
  std::vector<Explanation::Unit> units;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const UnitPlan &layout = plan.units[u];
    Explanation::Unit unit;
    unit.name = input.model().modules[u].name;
    unit.device = devicesOf(input.costs.cluster, layout);
    unit.ranks = layout.getRanks();
    TokenSums sum;
    for (const TokenSums &part : parts.modules[u].moments) {
      sum += part;
      unit.mostItems = std::max(unit.mostItems, part.items);
      unit.mostTokens = std::max(unit.mostTokens, part.tokens);
    }
    double count = double(std::max<size_t>(1, parts.modules[u].moments.size()));
    unit.items = sum.items / count;
    unit.tokens = sum.tokens / count;
    unit.boundTokens = input.model().modules[u].getPartTokens() * layout.sub;
    unit.memory = result.memory[u];
    if (!plan.predicted.allocated.empty()) {
      unit.estimate = unit.memory;
      unit.memory =
          findAllocated(plan.predicted.allocated, layout, unit.memory.snapshot);
    }
    unit.capacity =
        input.costs.cluster.getLeastMemory(layout.firstRank, layout.getRanks());
    unit.seconds = plan.predicted.busy[u] * plan.predicted.step /
                   double(plan.microbatches);
    unit.costs = input.costs.getSource(int(u)).str();
    unit.boundBy = boundOf(input, plan, unit, int(u), sum * (1 / count));
    units.push_back(std::move(unit));
  }
  return units;
}

/// The same plan on samples that are all the mean one.
double fillOf(const PolicyInput &input, const Plan &plan) {
  if (all_of(seq<int>(input.model().modules.size()),
             [&](int m) { return input.cache->isUniform(m); }))
    return plan.predicted.losses.waiting; // they are
  Sample mean;
  double count = double(input.samples());
  auto perSample = [&](ItemKind kind) {
    return momentsOf(input.batch, kind) * (1 / count);
  };
  TokenSums sample = perSample(ItemKind::Sample);
  mean.tokens = int32_t(sample.tokens);
  mean.other = int32_t(sample.others);
  for (size_t k = 1; k <= input.costs.model.items.size(); ++k) {
    TokenSums own = perSample(ItemKind(k));
    int items = int(std::lround(own.items));
    if (items > 0)
      mean.of(ItemKind(k))
          .assign(items,
                  {int32_t(own.tokens / items), int32_t(own.others / items)});
  }
  StepOptions options;
  options.fold = true;
  options.requireMemory = false;
  auto result = expectedToOptional(simulateStep(
      input.costs, plan, std::vector<Sample>(input.samples(), mean), options));
  if (!result)
    return 0;
  return std::min(plan.predicted.losses.waiting,
                  result->predicted.losses.waiting * result->predicted.step /
                      plan.predicted.step);
}

Expected<Plan> planWith(const ExplainOptions &options, StringRef policy,
                        const PolicyInput &input) {
  return options.plan ? options.plan(policy, input) : makePlan(policy, input);
}

/// Steps of the policy's plans on another cluster or with another batch.
std::vector<Explanation::Relaxation> relax(const PolicyInput &input,
                                           const Plan &chosen,
                                           const ExplainOptions &options) {
  std::vector<Explanation::Relaxation> result;
  auto replan = [&](const std::string &what, const Cluster &cluster,
                    const std::vector<Sample> &batch, double scale) {
    Costs costs(cluster, input.model(), input.costs.profile);
    auto plan = expectedToOptional(
        planWith(options, nameOf(chosen),
                 {costs, batch, std::max(1, input.simulations / 2)}));
    double step = plan ? plan->predicted.step * scale : INFINITY;
    // A search may miss what is there already.
    if (chosen.ranks <= cluster.getNumDevices())
      if (auto same = expectedToOptional(simulateStep(costs, chosen, batch)))
        step = std::min(step, same->predicted.step * scale);
    if (std::isfinite(step))
      result.push_back({what, step});
  };
  const Cluster &now = input.costs.cluster;
  Cluster other = now;
  for (DeviceKind &device : other.devices)
    device.memory += 0.25 * device.memory;
  replan("25 % more memory a device", other, input.batch, 1);
  other = now;
  for (NodeKind &node : other.nodes) {
    node.inside.speedUp(2);
    node.reduce.speedUp(2);
  }
  replan("twice the bandwidth inside nodes", other, input.batch, 1);
  other = now;
  for (NodeKind &node : other.nodes)
    node.network.speedUp(2);
  if (now.getNode(now.getNumDevices() - 1) > 0)
    replan("twice the bandwidth between nodes", other, input.batch, 1);
  int64_t half = now.getNumDevices() / 2;
  if (auto part = half ? expectedToOptional(now.take(half)) : std::nullopt)
    replan(formatv("half of the devices ({0})", half).str(), *part, input.batch,
           1);
  std::vector<Sample> twice = input.batch;
  twice.insert(twice.end(), input.batch.begin(), input.batch.end());
  replan("twice the batch (seconds for as many samples)", now, twice, 0.5);
  llvm::sort(result, [](auto &a, auto &b) { return a.step < b.step; });
  return result;
}

} // namespace

Explanation::Spread spreadOf(const PolicyInput &input, const Plan &plan,
                             const Plan &base, const Data &data, uint64_t first,
                             int seeds) {
  Explanation::Spread spread;
  StepOptions options;
  // A batch that is a little larger must not end the comparison.
  options.requireMemory = false;
  for (int i = 1; i <= seeds; ++i) {
    std::vector<Sample> batch =
        drawBatch(data, first + uint64_t(i), input.samples());
    auto a = expectedToOptional(
             simulateStep(input.costs, plan, batch, options)),
         b = expectedToOptional(
             simulateStep(input.costs, base, batch, options));
    if (!a || !b)
      continue;
    double ratio = b->predicted.step / a->predicted.step;
    spread.least = spread.seeds ? std::min(spread.least, ratio) : ratio;
    spread.most = std::max(spread.most, ratio);
    spread.mean += ratio;
    ++spread.seeds;
  }
  if (spread.seeds)
    spread.mean /= spread.seeds;
  return spread;
}

Expected<Explanation> explain(const PolicyInput &input, const Plan &plan,
                              const ExplainOptions &options) {
  Explanation result;
  auto step = simulateStep(input.costs, plan, input.batch);
  if (!step)
    return step.takeError();
  result.plan = plan;
  result.plan.predicted = step->predicted;
  Parts parts = makeParts(input.model(), plan, input.batch, input.costs.items);
  result.units = describeUnits(input, result.plan, *step, parts);
  result.fill = fillOf(input, result.plan);
  result.bounds = options.bounds;
  std::optional<Plan> base;
  if (options.others)
    for (const Policy &policy : getPolicies()) {
      if (nameOf(plan) == policy.name)
        continue;
      auto other = planWith(options, policy.name, input);
      Explanation::Other row;
      row.policy = policy.name;
      if (!other) {
        row.error = toString(other.takeError());
      } else {
        row.predicted = other->predicted;
        row.notExecutable = other->notExecutable;
        row.loses = compare(other->predicted, result.plan.predicted);
        if (StringRef(policy.name) == "disttrain")
          base = *other;
      }
      result.others.push_back(std::move(row));
    }
  if (base && options.data)
    result.spread = spreadOf(input, plan, *base, *options.data, options.seed,
                             options.seeds);
  if (options.relax)
    result.relaxations = relax(input, result.plan, options);
  return result;
}

/// A row for every unit under two lines of heads.
static void printUnits(raw_ostream &os, const Explanation &e) {
  constexpr const char *row = "{0,-11} {1,-12} {2,7} {3,3} {4,5} {5,3} {6,4} "
                              "{7,6} {8,7} {9,5} {10,11} {11,11} {12,11} "
                              "{13,6}  {14}\n";
  std::string heads = formatv(row, "", "", "", "", "", "", "", "", "items", "",
                              "time of a", "memory", "a device", "", "");
  os << StringRef(heads).rtrim() << "\n"
     << formatv(row, "unit", "device", "devices", "TP", "DP", "PP", "VPP",
                "saves", "a part", "most", "microbatch", "used", "has", "busy",
                "bound by (figures from)");
  for (size_t u = 0; u < e.units.size(); ++u) {
    const Explanation::Unit &unit = e.units[u];
    const UnitPlan &layout = e.plan.units[u];
    os << formatv(row, unit.name, unit.device, unit.ranks, layout.tp, layout.dp,
                  layout.pp, layout.vpp, describeSaves(layout),
                  formatv("{0:f1}", unit.items).str(),
                  formatv("{0:f0}", unit.mostItems).str(),
                  printTime(unit.seconds), printBytes(unit.memory.total()),
                  printBytes(unit.capacity),
                  formatv("{0:f0} %", 100 * e.plan.predicted.busy[u]).str(),
                  formatv("{0} ({1})", unit.boundBy, unit.costs).str());
  }
}

/// How full parts are, where a program bounds their tokens.
static void printParts(raw_ostream &os, const Explanation &e) {
  for (const Explanation::Unit &unit : e.units)
    if (unit.boundTokens > 0)
      os << formatv("parts of {0}: {1:f0} tokens on average, {2:f0} at most, "
                    "{3:f0} allowed: {4:f1} % full\n",
                    unit.name, unit.tokens, unit.mostTokens, unit.boundTokens,
                    100 * unit.tokens / unit.boundTokens);
}

/// "+29.2 %", "-48.6 %"; what rounds to nothing has no sign.
static std::string printChange(double ratio) {
  double percent = 100 * (ratio - 1);
  bool none = std::abs(percent) < 0.05;
  return formatv("{0}{1:f1} %", none || percent < 0 ? "" : "+",
                 none ? 0.0 : percent);
}

/// Why the batch is cut as it is.
static void printSizes(raw_ostream &os,
                       const std::map<int64_t, Searched::Size> &sizes) {
  os << "the fastest of the plans searched with so many microbatches:";
  for (auto &[number, size] : sizes)
    os << (number == sizes.begin()->first ? " " : ", ") << number << " "
       << (!std::isfinite(size.step) ? "does not fit"
           : size.isBound            ? "at least " + printTime(size.step)
                                     : printTime(size.step));
  os << "\n";
}

void printText(raw_ostream &os, const Explanation &e,
               const PolicyInput &input) {
  const Prediction &p = e.plan.predicted;
  os << formatv("{0}: step {1}, MFU {2:f1} %, ceiling {3:f2} (no plan is "
                "faster by more), bubble {4:f1} % wall, {5:f1} % span; figures "
                "rest on the {6}{7}\n",
                e.plan.policy, printTime(p.step), 100 * p.mfu, p.getCeiling(),
                100 * p.wallBubble, 100 * p.spanBubble,
                p.costs == "model"     ? "cost model"
                : p.costs == "profile" ? "profile"
                                       : "profile where it has them, else on "
                                         "the cost model",
                p.costs == "model"
                    ? ""
                    : ", of messages on the links that the profile or the "
                      "cluster names");
  if (e.plan.faster)
    os << describeFaster(e.plan) << "\n";
  if (std::string idle = describeIdle(e.plan, input.gpus()); !idle.empty())
    os << idle << "\n";
  if (e.plan.searched)
    os << describeSearch(e.plan) << "\n";
  if (p.spread)
    os << describeSpread(e.plan) << "\n";
  if (!input.costs.profile && !input.costs.cluster.assumed.empty())
    os << input.costs.cluster.assumed << "\n";
  os << formatv("schedule {0}, {1} microbatch{2}, items assigned by {3}, "
                "reorder {4}\n",
                e.plan.schedule, e.plan.microbatches,
                e.plan.microbatches == 1 ? "" : "es", getName(e.plan.assign),
                rt::textOf(e.plan.reorder));
  if (e.plan.searched && !e.plan.searched->sizes.empty())
    printSizes(os, e.plan.searched->sizes);
  os << "\n";
  printUnits(os, e);
  printParts(os, e);
  os << formatv("\nwhere device time goes: work {0:f1} %",
                100 * p.bound / p.step);
  for (auto &[name, share] : listLosses(p.losses))
    os << formatv(", {0} {1:f1} %", name, 100 * share);
  os << formatv("\nof the waiting, {0:f1} % is fill, drain and messages, "
                "{1:f1} % uneven parts\n",
                100 * e.fill, 100 * std::max(0.0, p.losses.waiting - e.fill));
  if (!e.others.empty())
    os << "\nthe best plan of the other policies"
       << (e.bounds.empty() ? "" : " " + e.bounds)
       << ": its step, by how much it is longer, and what it loses more to\n";
  for (const Explanation::Other &other : e.others)
    if (other.error.empty())
      os << formatv("  {0,-16} {1,11}  x{2:f2}  {3}{4}\n", other.policy,
                    printTime(other.predicted.step),
                    other.predicted.step / p.step, other.loses,
                    other.notExecutable.empty()
                        ? ""
                        : " [priced only: " + other.notExecutable + "]");
    else
      os << formatv("  {0,-16} {1}\n", other.policy, other.error);
  if (e.spread.seeds)
    os << formatv("\nagainst disttrain under {0} other seeds: x{1:f3} ({2:f3} "
                  "to {3:f3})\n",
                  e.spread.seeds, e.spread.mean, e.spread.least, e.spread.most);
  if (!e.relaxations.empty())
    os << "\nwhat another cluster or batch would give: the step, and by how "
          "much it is longer\n";
  for (const Explanation::Relaxation &relaxation : e.relaxations)
    os << formatv("  {0,-46} {1,11}  {2,8}\n", relaxation.what,
                  printTime(relaxation.step),
                  printChange(relaxation.step / p.step));
}

} // namespace dt::planner
