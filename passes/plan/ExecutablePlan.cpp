//===- ExecutablePlan.cpp - Plans that a program can run --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/ExecutablePlan.h"

#include "dialects/dist/SharedExperts.h"
#include "passes/plan/PlanFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace dt::plan {

using planner::Plan;
using planner::Save;
using planner::UnitPlan;

/// Plans that are listed on the same ranks, and as many on ranks of their own.
constexpr size_t kMostPlans = 20000;
/// Up to so many devices every configuration is listed.
constexpr int64_t kMostDevices = 64;
/// Where nothing fits, parts are tried in so many pieces.
constexpr int kMostPieces = 8;

/// Tasks of as many microbatches at most are tried.
constexpr int kMostSpan = 4;

/// The most strips of products and collectives that are tried.
constexpr int kMostStrips = 8;

/// Whether sequence parallelism changes a kind of layer: it has layers of its
/// kind beside it then.
static bool isChained(const planner::Module &module,
                      planner::LayerVariant variant, int kind) {
  auto scatters = [&](bool sequenceParallel) {
    variant.sequenceParallel = sequenceParallel;
    auto layers = module.partitioned.find(variant);
    // What stands beside layers hands them tokens as they want them.
    return layers != module.partitioned.end() && layers->second[kind].chained &&
           llvm::any_of(layers->second[kind].forwardExchanges,
                        [](const planner::Exchange &exchange) {
                          return exchange.kind ==
                                 rt::CollectiveKind::ReduceScatter;
                        });
  };
  return scatters(true) && !scatters(false);
}

/// Whether what a plan's prices with sequence parallelism rest on is what will
/// run: layers are described with it, or run as they are described without, and
/// no stage has a layer alone.
static bool runsSequenceParallel(const Plan &plan,
                                 const planner::Model &model) {
  bool any = false;
  for (const UnitPlan &unit : plan.units) {
    const planner::Module &module = model.modules[unit.module];
    if (unit.tp == 1)
      continue;
    for (size_t s = 0; s + 1 < unit.cuts.size(); ++s) {
      planner::LayerVariant variant{unit.tp, unit.getSave(int(s)), false,
                                    unit.ep};
      if (!module.getPartitioned(variant))
        return false;
      variant.sequenceParallel = true;
      if (!module.partitioned.count(variant))
        continue;
      any = true;
      for (int layer = unit.cuts[s], end; layer < unit.cuts[s + 1];
           layer = end) {
        int kind = module.layers[layer];
        end = layer + 1;
        while (end < unit.cuts[s + 1] && module.layers[end] == kind)
          ++end;
        if (end == layer + 1 && isChained(module, variant, kind))
          return false;
      }
    }
  }
  return any;
}

/// Whether a replica takes one part of a step of parts at a time.
static bool holdsPart(const planner::Module &module) {
  return module.item == planner::ItemKind::Sample && module.getPartTokens() > 0;
}

/// Why programs do not share out experts as a unit does.
static std::optional<std::string>
refuseExperts(const UnitPlan &unit, int64_t microbatches,
              const planner::PolicyInput &input,
              const PlannedProgram &program) {
  if (unit.etp || !dist::canShareExperts(unit.ep, unit.tp, unit.cp, unit.dp))
    return dist::expectSharing(unit.ep, unit.tp, unit.cp, unit.dp);
  const planner::Module &module = input.model().modules[unit.module];
  int64_t micro = program.microbatches.at(microbatches);
  // Packed rows are shared out as they come.
  if (dist::countJoined(unit.ep, unit.tp, unit.cp) == 1 ||
      (module.getPartTokens() > 0 && unit.blocks.empty()))
    return std::nullopt;
  if (unit.blocks.empty() && module.item == planner::ItemKind::Sample &&
      program.global % micro == 0 && micro % (unit.dp * unit.sub) == 0)
    return std::nullopt;
  return "replicas that share out experts need as many samples each, of " +
         std::to_string(micro) + " in a microbatch";
}

std::optional<std::string> makeExecutable(Plan &plan,
                                          const planner::PolicyInput &input,
                                          const PlannedProgram &program) {
  // The nearest number that there may be, if possible with replicas for all
  // parts of a step.
  auto apart = [&](int64_t number) {
    bool few = llvm::any_of(plan.units, [&](const UnitPlan &unit) {
      return holdsPart(input.model().modules[unit.module]) &&
             number * unit.dp < program.parts;
    });
    return std::pair(
        few, std::abs(std::log(double(number) / double(plan.microbatches))));
  };
  plan.microbatches =
      llvm::min_element(program.microbatches, [&](auto &a, auto &b) {
        return apart(a.first) < apart(b.first);
      })->first;
  plan.compiled = true;
  if (program.needsBatchSync)
    plan.schedule = "distmm-pipe";
  for (UnitPlan &unit : plan.units) {
    const std::string &name = input.model().modules[unit.module].name;
    if (program.tokens[unit.module] % unit.cp)
      return "unit '" + name + "': " + std::to_string(unit.cp) +
             " ranks do not divide its tokens";
    int64_t most = program.getMaxReplicas(unit.module, plan.microbatches);
    // Ranks that share out experts among those of tokens have axes of their
    // own.
    unit.ring = unit.ring && unit.cp > 1 &&
                (unit.ep <= unit.tp || unit.ep % (unit.tp * unit.cp) == 0);
    // What a microbatch has no items for is left idle.
    unit.dp = std::min(unit.dp, most);
    unit.zero = unit.getSumRanks() > 1;
    unit.overlap = unit.tp > 1 ? std::max(unit.overlap, 1) : 1;
    unit.span = int(std::min<int64_t>(
        unit.span, program.items[unit.module] ? plan.microbatches : 1));
    // Pieces are items too.
    unit.sub =
        int(std::max<int64_t>(1, std::min<int64_t>(unit.sub, most / unit.dp)));
    if (auto why = refuseExperts(unit, plan.microbatches, input, program))
      return "unit '" + name + "': " + *why;
  }
  for (const UnitPlan &unit : plan.units) {
    const planner::Module &module = input.model().modules[unit.module];
    int64_t own = program.parts / plan.microbatches;
    if (own > unit.dp && holdsPart(module))
      return "unit '" + module.name + "': a microbatch has " +
             std::to_string(own) + " parts of the step, each for another " +
             "replica, of which there are " + std::to_string(unit.dp);
    for (const planner::PartBound &bound : module.bounds) {
      planner::TokenSums all = planner::momentsOf(input.batch, bound.kind);
      double rows = bound.isOther ? all.others : all.tokens,
             parts = double(plan.microbatches * unit.dp * unit.sub);
      if (rows > bound.most * parts)
        return "unit '" + module.name + "': parts would have " +
               std::to_string(int64_t(std::ceil(rows / parts))) + " " +
               bound.name + " on average, more than their bound of " +
               std::to_string(int64_t(bound.most));
    }
  }
  // Ranks without work are left out.
  std::vector<int64_t> place(plan.ranks + 1, 0);
  for (const UnitPlan &unit : plan.units)
    for (int64_t i = 0; i < unit.getRanks(); ++i)
      place[unit.firstRank + i + 1] = 1;
  std::partial_sum(place.begin(), place.end(), place.begin());
  for (UnitPlan &unit : plan.units)
    unit.firstRank = place[unit.firstRank];
  plan.ranks = place.back();
  int64_t replicas = plan.units[input.model().pace].dp;
  plan.micro = llvm::divideCeilSigned(
      llvm::divideCeilSigned(input.samples(), plan.microbatches), replicas);
  plan.sequenceParallel =
      plan.sequenceParallel && runsSequenceParallel(plan, input.model());
  return std::nullopt;
}

/// Every configuration of one unit.
static std::vector<UnitPlan> listUnits(const planner::PolicyInput &input,
                                       const PlannedProgram &program,
                                       int module) {
  std::vector<UnitPlan> result;
  int layers = int(input.model().modules[module].layers.size());
  int64_t devices = input.gpus(),
          most = program.getMaxReplicas(module,
                                        program.microbatches.begin()->first);
  for (int tp : planner::tensorSizes(input, module))
    for (int64_t dp = 1; dp * tp <= devices && dp <= most; ++dp)
      for (int64_t pp = 1; pp * dp * tp <= devices && pp <= layers; ++pp)
        result.push_back(
            planner::makeUnit(input, module, tp, dp, int(pp), 1, Save::Vjp));
  return result;
}

/// `units` and configurations of those behind them, on ranks of their own or
/// all on the same.
static void extend(const planner::PolicyInput &input,
                   llvm::ArrayRef<std::vector<UnitPlan>> choices, bool shared,
                   std::vector<UnitPlan> &units, int64_t used,
                   std::vector<Plan> &plans) {
  if (plans.size() >= kMostPlans)
    return;
  if (units.size() == choices.size()) {
    Plan &plan = plans.emplace_back();
    plan.policy = "joint";
    plan.units = units;
    plan.ranks = used;
    return;
  }
  for (const UnitPlan &choice : choices[units.size()]) {
    int64_t ranks = choice.getRanks();
    bool first = units.empty();
    if (shared ? !first && ranks != used : used + ranks > input.gpus())
      continue;
    units.push_back(choice);
    units.back().firstRank = shared ? 0 : used;
    extend(input, choices, shared, units, shared ? ranks : used + ranks, plans);
    units.pop_back();
  }
}

std::vector<Plan> listPlans(const planner::PolicyInput &input,
                            const PlannedProgram &program) {
  std::vector<Plan> plans;
  if (input.gpus() > kMostDevices) {
    llvm::append_range(plans, planner::disjointPlans(input));
    llvm::append_range(plans, planner::uniformPlans(input));
    return plans;
  }
  std::vector<std::vector<UnitPlan>> choices;
  for (size_t m = 0; m < input.model().modules.size(); ++m)
    choices.push_back(listUnits(input, program, int(m)));
  for (bool shared : {true, false}) {
    std::vector<Plan> found;
    std::vector<UnitPlan> units;
    if (shared || choices.size() > 1)
      extend(input, choices, shared, units, 0, found);
    llvm::append_range(plans, found);
  }
  for (size_t i = 0, count = plans.size(); i < count; ++i)
    llvm::append_range(
        plans, planner::varyExperts(input, plans[i], input.model().pace));
  return plans;
}

std::vector<Plan> varyPlan(const Plan &plan, const planner::PolicyInput &input,
                           const PlannedProgram &program) {
  std::vector<Plan> others;
  if (!program.needsBatchSync)
    others = planner::withSchedules(input, plan, /*anyPlacement=*/true);
  // Schedules differ in what they hold, so each is tried with more and less
  // kept, too.
  for (size_t i = 0, count = others.size(); i < count; ++i)
    for (Save save : {Save::Vjp, Save::All}) {
      Plan other = others[i];
      for (UnitPlan &unit : other.units) {
        unit.save = save;
        unit.saves.clear();
      }
      others.push_back(std::move(other));
    }
  for (size_t u = 0; u < plan.units.size(); ++u) {
    for (Save save : {Save::None, Save::All}) {
      others.emplace_back(plan).units[u].save = save;
      others.back().units[u].saves.clear();
    }
    if (auto fitted = planner::fitStages(input, plan, int(u)))
      others.emplace_back(plan).units[u] = *fitted;
    int64_t sub = 2 * plan.units[u].sub;
    if (plan.units[u].dp * sub <=
        program.getMaxReplicas(int(u), plan.microbatches))
      others.emplace_back(plan).units[u].sub = int(sub);
    const UnitPlan &unit = plan.units[u];
    for (int span : {unit.span * 2, unit.span / 2})
      if (span >= 1 && span <= kMostSpan && span <= plan.microbatches)
        others.emplace_back(plan).units[u].span = span;
    llvm::append_range(others, planner::varyExperts(input, plan, int(u)));
    for (int overlap : {unit.overlap * 2, unit.overlap / 2})
      if (unit.tp > 1 && overlap >= 1 && overlap <= kMostStrips)
        others.emplace_back(plan).units[u].overlap = overlap;
  }
  others.emplace_back(plan).sequenceParallel = !plan.sequenceParallel;
  for (Plan &other : planner::tradeRanks(input, plan, input.model().pace))
    if (!makeExecutable(other, input, program))
      others.push_back(std::move(other));
  for (Plan &other : others)
    other.sequenceParallel =
        other.sequenceParallel && runsSequenceParallel(other, input.model());
  Plan open = plan;
  open.microbatches = 0;
  for (Plan &other : withMicrobatches(open, program))
    if (!makeExecutable(other, input, program))
      others.push_back(std::move(other));
  return others;
}

std::vector<Plan> varyAhead(const Plan &plan, const planner::Model &model) {
  std::vector<Plan> others;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    int ahead = plan.units[u].runAhead.value_or(0);
    if (plan.ranks > 1 && model.modules[u].hasBackward())
      for (int other : {ahead + 1, ahead * 2, ahead / 2})
        if (other != ahead && other < plan.microbatches)
          others.emplace_back(plan).units[u].runAhead =
              other ? std::optional(other) : std::nullopt;
  }
  return others;
}

std::vector<Plan> withMicrobatches(const Plan &plan,
                                   const PlannedProgram &program) {
  std::vector<Plan> result;
  if (plan.microbatches || program.microbatches.size() == 1)
    return {plan}; // as it is
  for (int64_t number : llvm::make_first_range(program.microbatches))
    if (llvm::all_of(plan.units, [&](const UnitPlan &unit) {
          return unit.dp <= program.getMaxReplicas(unit.module, number);
        }))
      result.emplace_back(plan).microbatches = number;
  return result;
}

std::vector<Plan> withLess(llvm::ArrayRef<Plan> plans) {
  std::vector<Plan> result;
  for (auto [save, sub] : {std::pair(Save::None, 1),
                           {Save::Vjp, kMostPieces},
                           {Save::None, kMostPieces}})
    for (const Plan &plan : plans)
      for (UnitPlan &unit : result.emplace_back(plan).units) {
        unit.save = save;
        unit.saves.clear();
        unit.sub = sub;
      }
  return result;
}

Plan planLayers(const PlannedProgram &program, int64_t ranks) {
  Plan plan;
  plan.policy = "layers";
  plan.ranks = ranks;
  std::tie(plan.microbatches, plan.micro) = *program.microbatches.begin();
  plan.schedule = program.needsBatchSync ? "distmm-pipe" : "accumulate";
  plan.reorder = planner::Reorder::None;
  plan.sequenceParallel = false;
  for (auto [m, module] : llvm::enumerate(program.model.modules)) {
    UnitPlan &unit = plan.units.emplace_back();
    unit.module = int(m);
    unit.tp = int(ranks);
    unit.zero = 0;
    unit.cuts = {0};
    int layers = int(module.layers.size());
    for (int begin = 0, end; begin < layers; begin = end) {
      end = begin + 1;
      while (end < layers && module.layers[end] == module.layers[begin])
        ++end;
      for (int i = begin + 1; i < std::min(end, begin + 3); ++i)
        unit.cuts.push_back(i);
      unit.cuts.push_back(end);
    }
    unit.vpp = int(unit.cuts.size()) - 1;
  }
  return plan;
}

std::string printDecisions(Plan plan, const planner::Model &model) {
  plan.policy.clear();
  plan.predicted = {};
  plan.faster.reset();
  plan.fuller.reset();
  plan.searched.reset();
  return planner::printPlan(plan, model);
}

std::string printPlanFile(const planner::Plan &plan,
                          const PlannedProgram &program,
                          const planner::Explanation *explanation) {
  auto json = nlohmann::ordered_json::parse(
      explanation ? planner::printJson(*explanation, program.model)
                  : planner::printPlan(plan, program.model));
  for (const UnitPlan &unit : plan.units) {
    const planner::Module &module = program.model.modules[unit.module];
    if (unit.cuts.size() <= 2)
      continue;
    auto stages = nlohmann::ordered_json::array();
    for (size_t s = 0; s + 1 < unit.cuts.size(); ++s) {
      std::vector<std::string> names;
      for (int layer = unit.cuts[s]; layer < unit.cuts[s + 1]; ++layer)
        llvm::append_range(names, program.pieces[unit.module][layer]);
      stages.push_back(names);
    }
    json["units"][module.name]["stages"] = stages;
  }
  if (!program.cluster.empty())
    json["cluster"] = program.cluster;
  for (size_t e = 0; e < plan.predicted.messages.size(); ++e)
    if (plan.predicted.messages[e] >= 0)
      json["edges"][program.edges[e]]["message"] = plan.predicted.messages[e];
  // Whoever edits the layout in the file does not use its times.
  if (auto file = parsePlan(json.dump(), "")) {
    for (const UnitEntry &unit : file->units)
      if (!unit.times.empty())
        json["units"][unit.name]["times"]["of"] =
            describeLayout(unit, file->schedule, file->microbatches);
  } else {
    llvm::consumeError(file.takeError());
  }
  return json.dump(1) + "\n";
}

} // namespace dt::plan
