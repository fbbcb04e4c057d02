//===- ExecutablePlan.cpp - Plans that a program can run --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/ExecutablePlan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace dt::plan {

using llvm::Error;
using llvm::Expected;
using planner::Plan;
using planner::Save;
using planner::UnitPlan;

namespace {

/// Layouts that are priced, and the best of them that are simulated.
constexpr size_t kMostLayouts = 20000, kSimulated = 48;
/// Where nothing fits, parts are tried in so many pieces.
constexpr int kMostPieces = 8;
/// Up to so many devices every layout is tried.
constexpr int64_t kMostDevices = 64;

/// Whether sequence parallelism changes a kind of layer: it has layers of its
/// kind beside it then.
bool isChained(const planner::Module &module, planner::LayerVariant layout,
               int kind) {
  auto scatters = [&](bool sequenceParallel) {
    layout.sequenceParallel = sequenceParallel;
    auto layers = module.partitioned.find(layout);
    return layers != module.partitioned.end() &&
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
bool runsSequenceParallel(const Plan &plan, const planner::Model &model) {
  bool any = false;
  for (const UnitPlan &unit : plan.units) {
    const planner::Module &module = model.modules[unit.module];
    if (unit.tp == 1)
      continue;
    if (!module.getPartitioned({unit.tp, unit.save, false}))
      return false;
    if (!module.partitioned.count({unit.tp, unit.save, true}))
      continue;
    any = true;
    for (size_t s = 0; s + 1 < unit.cuts.size(); ++s)
      for (int layer = unit.cuts[s], end; layer < unit.cuts[s + 1];
           layer = end) {
        int kind = module.layers[layer];
        end = layer + 1;
        while (end < unit.cuts[s + 1] && module.layers[end] == kind)
          ++end;
        if (end == layer + 1 &&
            isChained(module, {unit.tp, unit.save, true}, kind))
          return false;
      }
  }
  return any;
}

class Finder {
public:
  Finder(const planner::PolicyInput &input, const PlannedProgram &program,
         llvm::function_ref<Error(const Plan &)> accepts)
      : input(input), program(program), accepts(accepts) {}

  /// Why it cannot be run; else it is changed into what can.
  std::optional<std::string> makeExecutable(Plan &plan);
  void addLayouts(std::vector<Plan> &plans);
  /// What a policy found.
  void tryOwn(std::vector<Plan> plans);
  /// The best by estimate, and what may be as good and is simpler.
  void tryBest(std::vector<Plan> plans);
  /// From the fastest, one decision at a time.
  void improve();
  /// From the simplest, as long as something simpler is as good.
  void simplify();

  planner::Candidates found; ///< executable, with predictions
  planner::Reason reason;    ///< why others are not

private:
  /// Seconds by estimate; bytes where they are infinite; index.
  using Ranked = std::tuple<double, double, size_t>;
  /// Those that can be executed, the most promising first; adds what is to be
  /// tried beside them.
  std::vector<Ranked> rank(std::vector<Plan> &plans);
  /// Another schedule, saved set, sequence parallelism, or smaller pieces.
  std::vector<Plan> vary(const Plan &plan) const;
  using UnitList = std::vector<UnitPlan>;
  std::vector<UnitPlan> unitLayouts(int module);
  void extend(UnitList &layout, int64_t used, bool shared,
              std::vector<Plan> &plans);
  /// The simulated step, of what is added to `found`; infinite if it does not
  /// work, which is noted.
  double simulate(Plan &plan);
  double memoryOf(const Plan &plan) const;

  const planner::PolicyInput &input;
  const PlannedProgram &program;
  llvm::function_ref<Error(const Plan &)> accepts;
  std::vector<std::vector<UnitPlan>> choices;
};

std::optional<std::string> Finder::makeExecutable(Plan &plan) {
  if (!plan.notExecutable.empty())
    return plan.notExecutable;
  plan.microbatches = program.microbatches;
  if (program.needsBatchSync)
    plan.schedule = "distmm-pipe";
  for (UnitPlan &unit : plan.units) {
    const std::string &name = input.model().modules[unit.module].name;
    if (unit.cp > 1 || unit.ep > 1)
      return "unit '" + name +
             "': context and expert parallelism cannot be executed";
    if (unit.inside) {
      // On the ranks of the stage that it was inside of, as a unit of its own.
      const UnitPlan &host = plan.units[unit.inside->unit];
      int64_t stage = unit.inside->stage < 0 ? host.pp - 1 : unit.inside->stage;
      // It may not be cut as finely.
      unit.tp = std::gcd(host.tp, input.model().modules[unit.module].maxTP);
      unit.dp = std::min(host.dp * (host.tp / unit.tp),
                         program.maxReplicas[unit.module]);
      unit.pp = unit.vpp = 1;
      unit.firstRank = host.firstRank + stage % host.pp * host.dp * host.tp;
      unit.cuts = {0, int(input.model().modules[unit.module].layers.size())};
      unit.inside.reset();
    }
    int64_t most = program.maxReplicas[unit.module];
    // What a microbatch has no items for is left idle.
    unit.dp = std::min(unit.dp, most);
    unit.zero = unit.dp > 1;
    // Pieces are items too.
    unit.sub =
        int(std::max<int64_t>(1, std::min<int64_t>(unit.sub, most / unit.dp)));
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

std::vector<UnitPlan> Finder::unitLayouts(int module) {
  std::vector<UnitPlan> result;
  int layers = int(input.model().modules[module].layers.size());
  int64_t devices = input.gpus();
  for (int tp : planner::tensorSizes(input, module))
    for (int64_t dp = 1;
         dp * tp <= devices && dp <= program.maxReplicas[module]; ++dp)
      for (int64_t pp = 1; pp * dp * tp <= devices && pp <= layers; ++pp)
        result.push_back(
            planner::makeUnit(input, module, tp, dp, int(pp), 1, Save::Vjp));
  return result;
}

/// Units on ranks of their own, one after another, or all on the same.
void Finder::extend(UnitList &layout, int64_t used, bool shared,
                    std::vector<Plan> &plans) {
  if (plans.size() >= kMostLayouts)
    return;
  if (layout.size() == input.model().modules.size()) {
    Plan plan;
    plan.policy = "joint";
    plan.units = layout;
    plan.ranks = used;
    plans.push_back(std::move(plan));
    return;
  }
  for (const UnitPlan &choice : choices[layout.size()]) {
    int64_t ranks = choice.getRanks();
    bool first = layout.empty();
    if (shared ? !first && ranks != used : used + ranks > input.gpus())
      continue;
    layout.push_back(choice);
    layout.back().firstRank = shared ? 0 : used;
    extend(layout, shared ? ranks : used + ranks, shared, plans);
    layout.pop_back();
  }
}

void Finder::addLayouts(std::vector<Plan> &plans) {
  if (input.gpus() > kMostDevices) {
    llvm::append_range(plans, planner::disjointPlans(input));
    llvm::append_range(plans, planner::uniformPlans(input));
    return;
  }
  for (size_t m = 0; m < input.model().modules.size(); ++m)
    choices.push_back(unitLayouts(int(m)));
  std::vector<Plan> found;
  UnitList layout;
  extend(layout, 0, /*shared=*/true, found);
  llvm::append_range(plans, found);
  found.clear();
  if (choices.size() > 1)
    extend(layout, 0, /*shared=*/false, found);
  llvm::append_range(plans, found);
}

double Finder::simulate(Plan &plan) {
  auto note = [&](Error error) {
    reason.note(std::move(error));
    return INFINITY;
  };
  planner::StepOptions options;
  options.scheduleEffort = 60000;
  auto step = planner::simulateStep(input.costs, plan, input.batch, options);
  if (!step)
    return note(step.takeError());
  if (Error error = accepts(plan))
    return note(std::move(error));
  double objective = plan.predicted.objective;
  plan.predicted = step->predicted;
  plan.predicted.objective = objective ? objective : step->predicted.step;
  found.add(plan);
  return plan.predicted.step;
}

/// Bytes of the fullest device, about: what is nearest to fitting is tried
/// first where nothing fits.
double Finder::memoryOf(const Plan &plan) const {
  double most = 0, together = 0;
  int64_t ranks = 0;
  for (const UnitPlan &unit : plan.units) {
    double bytes =
        planner::estimateMemory(input, plan, unit.module,
                                std::min<int64_t>(plan.microbatches, unit.pp));
    most = std::max(most, bytes);
    together += bytes;
    ranks += unit.getRanks();
  }
  return ranks > plan.ranks ? together : most;
}

std::vector<Finder::Ranked> Finder::rank(std::vector<Plan> &plans) {
  std::vector<Ranked> order;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (auto why = makeExecutable(plans[i])) {
      reason.note(llvm::createStringError(*why));
      continue;
    }
    if (plans[i].sequenceParallel) { // to be tried without too
      Plan without = plans[i];
      without.sequenceParallel = false;
      plans.push_back(std::move(without));
    }
    double seconds = planner::estimate(input, plans[i]);
    order.emplace_back(seconds, std::isinf(seconds) ? memoryOf(plans[i]) : 0,
                       i);
  }
  llvm::sort(order);
  return order;
}

void Finder::tryOwn(std::vector<Plan> plans) {
  for (auto [seconds, bytes, i] : rank(plans))
    simulate(plans[i]);
}

void Finder::tryBest(std::vector<Plan> plans) {
  std::vector<Ranked> order = rank(plans);
  size_t next = 0;
  for (; next < order.size(); ++next) {
    auto [seconds, bytes, i] = order[next];
    if (!found.empty() && (next >= kSimulated || std::isinf(seconds)))
      break;
    // Where nothing fits by estimate, some are tried all the same.
    if (next >= 4 * kSimulated)
      break;
    simulate(plans[i]);
  }
  if (found.empty())
    return;
  // Estimates rank plans that take equally long by chance: of those next in
  // line the simplest may be as good.
  double most = (1 + 5 * planner::kNegligible) *
                planner::estimate(input, found.getFastest());
  std::map<planner::Complexity, size_t> simpler;
  for (auto [seconds, bytes, i] : llvm::ArrayRef(order).drop_front(next))
    if (seconds <= most)
      simpler.try_emplace(planner::getComplexity(plans[i]), i);
  size_t tried = 0;
  for (auto [complexity, i] : simpler) {
    if (tried++ == kSimulated / 4 ||
        !(complexity < planner::getComplexity(found.getSimplest())))
      break;
    simulate(plans[i]);
  }
}

std::vector<Plan> Finder::vary(const Plan &plan) const {
  std::vector<Plan> others;
  if (!program.needsBatchSync)
    for (const char *name :
         {"1f1b", "gpipe", "zb-h1", "zb-1p", "phased", "nested"}) {
      others.push_back(plan);
      others.back().schedule = name;
    }
  for (size_t u = 0; u < plan.units.size(); ++u) {
    for (Save save : {Save::None, Save::All}) {
      others.push_back(plan);
      others.back().units[u].save = save;
    }
    int64_t sub = 2 * plan.units[u].sub;
    if (plan.units[u].dp * sub <= program.maxReplicas[u]) {
      others.push_back(plan);
      others.back().units[u].sub = int(sub);
    }
  }
  others.push_back(plan);
  others.back().sequenceParallel = !plan.sequenceParallel;
  for (Plan &other : others)
    other.sequenceParallel =
        other.sequenceParallel && runsSequenceParallel(other, input.model());
  return others;
}

void Finder::improve() {
  Plan best = found.getFastest();
  for (bool better = true; better;) {
    better = false;
    for (Plan &other : vary(best))
      // Below a thousandth it is no reason.
      if (simulate(other) < best.predicted.step * 0.999) {
        best = other;
        better = true;
      }
  }
}

void Finder::simplify() {
  while (true) {
    Plan start = found.getSimplest();
    planner::Complexity most = planner::getComplexity(start);
    std::vector<Plan> others = vary(start);
    for (size_t u = 0; u < start.units.size(); ++u) {
      const UnitPlan &unit = start.units[u];
      auto change = [&](int64_t dp, int pp, int vpp, int sub) {
        Plan other = start;
        other.units[u] =
            planner::makeUnit(input, int(u), unit.tp, dp, pp, vpp, unit.save,
                              /*even=*/false, start.goesBack());
        other.units[u].firstRank = unit.firstRank;
        other.units[u].sub = sub;
        others.push_back(std::move(other));
      };
      if (unit.vpp > 1)
        change(unit.dp, unit.pp, 1, unit.sub);
      if (unit.pp > 1)
        change(unit.dp * unit.pp, 1, 1, 1);
      if (unit.sub > 1)
        change(unit.dp, unit.pp, unit.vpp, 1);
    }
    for (Plan &other : others)
      if (!makeExecutable(other) && planner::getComplexity(other) < most)
        simulate(other);
    if (!(planner::getComplexity(found.getSimplest()) < most))
      return;
  }
}

/// The plans with less kept, and with less needed at once: parts in pieces.
std::vector<Plan> withLess(llvm::ArrayRef<Plan> plans) {
  std::vector<Plan> result;
  for (auto [save, sub] : {std::pair(Save::None, 1),
                           {Save::Vjp, kMostPieces},
                           {Save::None, kMostPieces}})
    for (const Plan &plan : plans) {
      result.push_back(plan);
      for (UnitPlan &unit : result.back().units) {
        unit.save = save;
        unit.sub = sub;
      }
    }
  return result;
}

} // namespace

Expected<Plan>
findExecutablePlan(llvm::StringRef policy, const planner::PolicyInput &input,
                   const PlannedProgram &program,
                   llvm::function_ref<Error(const Plan &)> accepts) {
  Finder finder(input, program, accepts);
  bool joint = policy == "joint";
  std::vector<Plan> plans, layouts;
  auto own = planner::findPlans(policy, input);
  if (own)
    plans = own->getPlans().vec();
  else if (!joint)
    return own.takeError();
  else
    llvm::consumeError(own.takeError());
  finder.tryOwn(plans);
  if (joint) {
    finder.addLayouts(layouts);
    finder.tryBest(layouts);
    // Its error is the nearest miss of all that was tried.
    llvm::append_range(plans, layouts);
    if (finder.found.empty())
      finder.tryBest(withLess(plans));
  }
  if (finder.found.empty())
    return llvm::createStringError("no plan can be executed: " +
                                   (finder.reason.get().empty()
                                        ? "there is no layout"
                                        : finder.reason.get()));
  if (joint) {
    finder.improve();
    finder.simplify();
  }
  Plan best = finder.found.choose();
  best.policy = policy.str();
  return best;
}

Plan planLayers(const PlannedProgram &program, int64_t ranks) {
  Plan plan;
  plan.policy = "layers";
  plan.ranks = ranks;
  plan.microbatches = program.microbatches;
  plan.micro = program.micro;
  plan.schedule = program.needsBatchSync ? "distmm-pipe" : "accumulate";
  plan.reorder = planner::Reorder::None;
  plan.sequenceParallel = false;
  for (auto [m, module] : llvm::enumerate(program.model.modules)) {
    UnitPlan unit;
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
    plan.units.push_back(std::move(unit));
  }
  return plan;
}

std::string printPlanFile(const planner::Plan &plan,
                          const PlannedProgram &program,
                          const planner::Explanation *explanation) {
  auto json = nlohmann::ordered_json::parse(
      explanation ? planner::printJson(*explanation, program.model)
                  : planner::printPlan(plan, program.model));
  for (const UnitPlan &unit : plan.units) {
    const planner::Module &module = program.model.modules[unit.module];
    auto &entry = json["units"][module.name];
    // What the planner calls the layers of each stage: a profile's names.
    for (size_t s = 0; s + 1 < unit.cuts.size(); ++s) {
      auto kinds = nlohmann::ordered_json::array();
      for (int layer = unit.cuts[s]; layer < unit.cuts[s + 1]; ++layer)
        kinds.push_back(module.kinds[module.layers[layer]].name);
      entry["predicted"]["layers"].push_back(std::move(kinds));
    }
    if (unit.cuts.size() <= 2)
      continue;
    auto stages = nlohmann::ordered_json::array();
    for (size_t s = 0; s + 1 < unit.cuts.size(); ++s) {
      std::vector<std::string> names;
      for (int layer = unit.cuts[s]; layer < unit.cuts[s + 1]; ++layer)
        llvm::append_range(names, program.pieces[unit.module][layer]);
      stages.push_back(names);
    }
    entry["stages"] = stages;
  }
  return json.dump(1) + "\n";
}

} // namespace dt::plan
