//===- StepBuilder.cpp - A plan as a scheduling problem -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Ranks, stages and times; StepEdges.cpp has messages and gradients.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/StepBuilder.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace dt::planner {

StepBuilder::StepBuilder(const Costs &costs, const Plan &plan, bool fold,
                         const std::vector<double> *slowdowns)
    : costs(costs), plan(plan), fold(fold), slowdowns(slowdowns),
      prices(plan.units.size()) {
  for (const UnitPlan &unit : plan.units) {
    nodes.push_back(
        slowestNode(costs, plan, unit.module, unit.firstRank, unit.getRanks()));
    Replicas &own = replicas.emplace_back();
    int64_t first = unit.firstRank;
    for (const UnitPlan::Block &block : unit.blocks) {
      int64_t ranks = block.replicas * unit.tp * unit.pp;
      own.add(block.replicas,
              slowestNode(costs, plan, unit.module, first, ranks), block.speed);
      first += ranks;
    }
    if (unit.blocks.empty())
      own.add(unit.dp, nodes.back(), 1);
  }
  layOutRanks();
  for (const UnitPlan &unit : plan.units) {
    stageBase.push_back(int(stages.size()));
    for (int s = 0; s < unit.getStages(); ++s)
      stages.push_back({unit.module, s, plan.getPosition(unit, s), unit.cuts[s],
                        unit.cuts[s + 1]});
  }
  fillRanks();
}

/// One rank of the problem for a replica's TP group, unless units of unequal TP
/// share ranks: then one for as many as all TP sizes divide by.
void StepBuilder::layOutRanks() {
  for (size_t a = 0; a < plan.units.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      shared |= plan.units[a].meets(plan.units[b]);
  grain = shrink = 0;
  for (const UnitPlan &unit : plan.units) {
    grain = std::gcd(grain, int64_t(unit.tp) * unit.cp);
    grain = shared ? std::gcd(grain, unit.firstRank) : grain;
    shrink = std::gcd(shrink, unit.dp);
  }
  // Shared ranks become one where that leaves every unit whole.
  if (!fold || (shared && llvm::any_of(plan.units, [&](const UnitPlan &unit) {
                  return !unit.blocks.empty() ||
                         unit.firstRank % (shrink * grain);
                })))
    shrink = 1;
  int64_t next = 0;
  for (const UnitPlan &unit : plan.units) {
    rankBase.push_back(next);
    std::vector<int64_t> &ends = classEnds.emplace_back();
    if (fold && !shared)
      for (const UnitPlan::Block &block : unit.blocks)
        ends.push_back((ends.empty() ? 0 : ends.back()) + block.replicas);
    int64_t size = !fold ? 1 : shared ? shrink : unit.dp;
    for (int64_t end = size; ends.empty() || ends.back() < unit.dp; end += size)
      ends.push_back(end);
    classes.push_back(int64_t(ends.size()));
    next += classes.back() * unit.pp;
  }
  ranks = int(shared ? (plan.ranks / shrink + grain - 1) / grain : next);
}

void StepBuilder::fillRanks() {
  planRank.assign(ranks, 0);
  width.assign(ranks, 1);
  for (const StageInfo &info : stages) {
    const UnitPlan &unit = plan.units[info.unit];
    for (int64_t c = 0; c < classes[info.unit]; ++c)
      for (int rank : ranksOf(info, c)) {
        planRank[rank] =
            shared ? rank * grain * shrink
                   : unit.getRank(info.position, beginOf(info.unit, c));
        width[rank] =
            int(shared ? grain * shrink
                       : int64_t(unit.tp) * unit.cp * sizeOf(info.unit, c));
      }
  }
}

std::vector<int> StepBuilder::ranksOf(const StageInfo &info,
                                      int64_t replica) const {
  const UnitPlan &unit = plan.units[info.unit];
  int64_t group = int64_t(info.position) * classes[info.unit] + replica;
  if (!shared)
    return {int(rankBase[info.unit] + group)};
  int64_t size = int64_t(unit.tp) * unit.cp;
  int64_t first = (shrink == 1 ? unit.getRank(info.position, replica)
                               : unit.firstRank / shrink + group * size) /
                  grain;
  std::vector<int> result(size / grain);
  std::iota(result.begin(), result.end(), int(first));
  return result;
}

int64_t StepBuilder::nodeOfReplica(int u, int position, int64_t replica) const {
  const UnitPlan &unit = plan.units[u];
  return costs.cluster.getNodeOfAll(unit.getRank(position, replica),
                                    int64_t(unit.tp) * unit.cp);
}

const std::vector<StepBuilder::Price> &
StepBuilder::price(int u, Save save, const TokenSums &part,
                   int64_t replica) const {
  int node = nodeOf(u, replica);
  auto [known, isNew] = prices[u].try_emplace({save, node, part});
  std::vector<Price> &kinds = known->second;
  if (!isNew)
    return kinds;
  const ModuleCost &cost = costs.get(node, u);
  CostOptions options = plan.getOptions(u);
  options.save = save;
  TokenSums slice = sliceOf(u, part);
  kinds.resize(costs.model.modules[u].kinds.size());
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    kinds[kind].add(cost.price(int(kind), options, slice), slicesOf(u, part));
  return kinds;
}

double StepBuilder::loadOf(const StageInfo &stage, const Parts &parts, int k,
                           int64_t r) const {
  double share = double(stage.end - stage.begin) /
                 double(costs.model.modules[stage.unit].layers.size());
  return share * costs.items[stage.unit].at(parts.get(stage.unit, k, int(r))) /
         speedOf(stage.unit, r);
}

double StepBuilder::slowdownOf(const StageInfo &stage, int64_t r) const {
  if (!slowdowns)
    return 1;
  const UnitPlan &unit = plan.units[stage.unit];
  auto first = slowdowns->begin() + unit.getRank(stage.position, r);
  return *std::max_element(first, first + unit.tp * unit.cp);
}

int64_t StepBuilder::slowestOf(const StageInfo &stage, const Parts &parts,
                               int k, int64_t klass) const {
  int64_t begin = beginOf(stage.unit, klass),
          end = classEnds[stage.unit][klass];
  if (end - begin == 1)
    return begin;
  // Replicas that exchange nothing until their gradients meet wait for the
  // slowest replica, the others for the slowest part of every microbatch.
  bool alone = plan.units.size() == 1;
  double most = -1;
  int64_t slowest = begin;
  for (int64_t r = begin; r < end; ++r) {
    double load = alone ? replicaLoads[r] : loadOf(stage, parts, k, r);
    if (load > most) {
      most = load;
      slowest = r;
    }
  }
  return slowest;
}

/// All stages of a unit: a part is priced once for all of them.
void StepBuilder::addUnitTimes(Problem &problem, const Parts &parts, int u) {
  const UnitPlan &unit = plan.units[u];
  int count = unit.getStages();
  const Module &module = costs.model.modules[u];
  // Layers of every kind in every stage.
  std::vector<std::vector<double>> layers(
      count, std::vector<double>(module.kinds.size(), 0));
  for (int s = 0; s < count; ++s)
    for (int i = unit.cuts[s]; i < unit.cuts[s + 1]; ++i)
      ++layers[s][module.layers[i]];
  for (int k = 0; k < parts.microbatches; k += unit.span)
    for (int64_t c = 0; c < classes[u]; ++c) {
      int64_t r = slowestOf(stages[stageBase[u]], parts, k, c);
      // Of the part; of the fullest, which programs have room for.
      std::map<Save, std::array<const std::vector<Price> *, 2>> bySave;
      for (int s = 0; s < count; ++s) {
        const StageInfo &info = stages[stageBase[u] + s];
        Save save = unit.getSave(s);
        auto &[own, most] = bySave[save];
        if (!own) {
          own = &price(u, save, parts.get(u, k, int(r)), r);
          most = plan.compiled ? &price(u, save, largest[u], r) : own;
        }
        Price sum;
        Times times;
        for (auto [kind, number] : llvm::enumerate(layers[s])) {
          sum.add((*most)[kind], number);
          times += (*own)[kind].times * number;
        }
        sum.times = times;
        sum.kept += (*most)[module.layers[info.begin]].keptAtStart;
        if (hasWeightsOnly(info))
          sum.times.weight += std::exchange(sum.times.input, 0);
        record(problem, stageBase[u] + s, parts, k, c, r, sum);
      }
    }
}

bool StepBuilder::hasWeightsOnly(const StageInfo &info) const {
  return plan.compiled && info.index == 0 &&
         !costs.model.modules[info.unit].inputGradient &&
         plan.getTraits().splitsBackward;
}

/// Whether times are those of halves.
bool StepBuilder::splitsBackward(const StageInfo &info) const {
  const UnitPlan &unit = plan.units[info.unit];
  return !plan.getTraits().splitsBackward ||
         plan.getTraits().splits(unit.getStages(),
                                 unit.getSave(info.index) == Save::None);
}

void StepBuilder::makeNominal(Problem &problem) const {
  auto mean = [](auto &values, auto get) {
    double sum = 0;
    for (const auto &value : values)
      sum += double(get(value));
    return Time(std::llround(sum / double(values.size())));
  };
  for (scheduler::Stage &stage : problem.stages) {
    for (auto *table : {&stage.forward, &stage.input, &stage.weight})
      *table = mean(table->values, [](Time value) { return value; });
    auto most = [](const scheduler::Table &table) {
      return *std::max_element(table.values.begin(), table.values.end());
    };
    stage.activation = most(stage.activation);
    stage.weightActivation = most(stage.weightActivation);
    if (stage.late)
      stage.late = most(*stage.late);
  }
  for (scheduler::Edge &edge : problem.edges) {
    if (edge.routes.empty())
      continue;
    edge.latency =
        mean(edge.routes, [](const scheduler::Route &r) { return r.latency; });
    edge.routes.clear();
    if (isDirect(stages[edge.from].unit, stages[edge.to].unit))
      continue;
    const auto &from = problem.stages[edge.from].replicas,
               &to = problem.stages[edge.to].replicas;
    for (size_t i = 0; from != to && from.size() * to.size() > 1 &&
                       i < from.size() * to.size();
         ++i)
      edge.routes.push_back(
          {-1, int(i / to.size()), int(i % to.size()), edge.latency});
  }
}

bool StepBuilder::isDirect(int from, int to) const {
  const UnitPlan &a = plan.units[from], &b = plan.units[to];
  auto countsSamples = [&](int unit) {
    return costs.model.modules[unit].item == ItemKind::Sample;
  };
  return a.dp == b.dp && a.getSpeeds() == b.getSpeeds() &&
         (from == to || a.dp == 1 ||
          (countsSamples(from) && countsSamples(to)));
}

void StepBuilder::recordTimes(const Problem &problem,
                              Prediction &predicted) const {
  predicted.times.assign(plan.units.size(), {});
  predicted.sources.clear();
  for (size_t u = 0; u < plan.units.size(); ++u)
    predicted.sources.push_back(costs.getSource(int(u)).str());
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageInfo &info = stages[s];
    int u = info.unit;
    const Module &module = costs.model.modules[u];
    const scheduler::Stage &stage = problem.stages[s];
    const std::vector<double> &speeds = replicas[u].speeds;
    const std::vector<Price> &kinds =
        price(u, plan.units[u].getSave(info.index), largest[u],
              llvm::max_element(speeds) - speeds.begin());
    double item = 0;
    for (int i = info.begin; i < info.end; ++i)
      item += kinds[module.layers[i]].times.total();
    StageTimes &times = predicted.times[u].emplace_back();
    times.forward = stage.forward.values[0];
    times.input = stage.input.values[0];
    times.weight = stage.weight.values[0];
    // Of the largest item, where they differ.
    double items = module.countLargest(largest[u]);
    times.item = toTime(item / std::max(1.0, items));
    times.keeps = stage.activation.values[0];
    times.waits = stage.weightActivation.values[0];
    times.late = stage.late->values[0];
    forRanks(stage, [&](int rank) {
      if (!problem.memory.empty() &&
          (!times.room || problem.memory[rank] < times.room))
        times.room = std::max<int64_t>(1, problem.memory[rank]);
    });
  }
  // Pipeline edges come first, one behind each stage but a unit's last.
  size_t edge = 0;
  for (size_t s = 0; s + 1 < stages.size(); ++s)
    if (stages[s].unit == stages[s + 1].unit)
      predicted.times[stages[s].unit][stages[s].index].message =
          problem.edges[edge++].latency;
  predicted.messages.clear();
  for (int broker : brokers)
    predicted.messages.push_back(broker < 0 ? -1
                                            : problem.edges[broker].latency);
}

void StepBuilder::record(Problem &problem, int index, const Parts &parts, int k,
                         int64_t klass, int64_t r, const Price &sum) {
  scheduler::Stage &stage = problem.stages[index];
  const UnitPlan &unit = plan.units[stages[index].unit];
  size_t at = size_t(k) * classes[unit.module] + klass;
  bool split = splitsBackward(stages[index]);
  Times times = sum.times * slowdownOf(stages[index], r);
  stage.forward.values[at] = toTime(times.forward);
  stage.input.values[at] = toTime(times.input + (split ? 0 : times.weight));
  stage.weight.values[at] = split ? toTime(times.weight) : 0;
  if (stage.hasBackward) {
    bool halves = stage.hasWeight && plan.getTraits().splitsBackward;
    Slot slot = slotOf(index, sum, halves, parts, k, r);
    if (hasWeightsOnly(stages[index]))
      slot = {0, slot.early + slot.whole, 0};
    stage.activation.values[at] = int64_t(slot.early + slot.whole);
    stage.weightActivation.values[at] = int64_t(slot.whole + slot.late);
    stage.late->values[at] = int64_t(slot.late);
  }
  double ranksOfClass =
      double(unit.tp) * unit.cp * double(sizeOf(unit.module, klass));
  work.all += ranksOfClass * sum.times.total();
  work.reduce += ranksOfClass * sum.times.reduce;
  work.again += ranksOfClass * sum.times.again;
}

/// Work of every replica of the pacing unit.
void StepBuilder::weighReplicas(const Parts &parts) {
  int pace = costs.model.pace;
  replicaLoads.assign(plan.units[pace].dp, 0);
  for (int k = 0; k < parts.microbatches; ++k)
    for (size_t r = 0; r < replicaLoads.size(); ++r)
      replicaLoads[r] += costs.items[pace].at(parts.get(pace, k, int(r))) /
                         speedOf(pace, int64_t(r));
}

void StepBuilder::addTimes(Problem &problem, const Parts &parts) {
  work = {};
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageInfo &info = stages[s];
    scheduler::Stage &stage = problem.stages[s];
    size_t count = size_t(parts.microbatches) * classes[info.unit];
    stage.forward.values.assign(count, 0);
    stage.input = stage.weight = stage.activation = stage.weightActivation =
        stage.forward;
    stage.late = stage.forward;
    const Module &module = costs.model.modules[info.unit];
    stage.hasBackward = module.hasBackward();
    stage.hasWeight = module.trainable && splitsBackward(info);
  }
  largest.clear();
  weighReplicas(parts);
  together.assign(plan.units.size(), {});
  for (size_t u = 0; u < plan.units.size(); ++u) {
    largest.push_back(parts.modules[u].whole * plan.units[u].span);
    for (const TokenSums &part : parts.modules[u].moments)
      if (costs.items[u].at(part) > costs.items[u].at(largest[u]))
        largest[u] = part;
    for (int k = 0; k < parts.microbatches; ++k)
      together[u].push_back(parts.modules[u].getSum(k));
  }
  packing.clear();
  for (const ModelEdge &edge : costs.model.edges)
    packing.push_back({packingOf(edge, false), packingOf(edge, true)});
  for (size_t u = 0; u < plan.units.size(); ++u)
    addUnitTimes(problem, parts, int(u));
}

Problem StepBuilder::build(const Parts &parts) {
  Problem problem;
  problem.ranks = ranks;
  problem.microbatches = parts.microbatches;
  for (const UnitPlan &unit : plan.units)
    problem.units.push_back(
        {costs.model.modules[unit.module].name, unit.runAhead, unit.span});
  for (const StageInfo &info : stages) {
    const UnitPlan &unit = plan.units[info.unit];
    scheduler::Stage stage;
    stage.name = costs.model.modules[info.unit].name;
    if (unit.getStages() > 1)
      stage.name += "." + std::to_string(info.index);
    stage.unit = info.unit;
    for (int64_t r = 0; r < classes[info.unit]; ++r)
      stage.replicas.push_back(ranksOf(info, r));
    problem.stages.push_back(std::move(stage));
  }
  addTimes(problem, plan.hasSpans() ? parts.joinTasks(plan) : parts);
  addEdges(problem, parts);
  if (!costs.model.contrast.towers.empty())
    addContrast(problem, parts);
  return problem;
}

/// Whether pipelines cross nodes in all replicas of a unit or in none.
bool StepBuilder::messagesAreAlike() const {
  for (size_t s = 0; s + 1 < stages.size(); ++s) {
    if (stages[s].unit != stages[s + 1].unit)
      continue;
    std::vector<bool> inside =
        staysInside(stages[s].unit, stages[s].position, stages[s + 1].position);
    if (!llvm::all_equal(inside))
      return false;
  }
  return true;
}

bool StepBuilder::isUniform(const Parts &parts) const {
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Parts::Items &items = parts.modules[u];
    for (int k = 0; k < parts.microbatches; ++k)
      for (int r = 1; r < items.replicas; ++r)
        if (classOf(int(u), r - 1) == classOf(int(u), r) &&
            !(parts.get(int(u), k, r - 1) == parts.get(int(u), k, r)))
          return false;
  }
  return messagesAreAlike();
}

} // namespace dt::planner
