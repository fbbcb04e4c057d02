//===- Uniform.cpp - One layout for all modules ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What users of monolithic systems write (`megatron`, `megatron-stages`) and
// the best that can be done so (`homogeneous`), which is the fair baseline.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace dt::planner {

namespace {

struct Uniform {
  int tp, pp, vpp;
  int64_t dp, micro;
  Save save;
  bool stages; ///< encoder and generator on stages of their own
  bool even;
  int cp = 1;
};

/// Position of a module along the data's way: before the pacing one or behind.
bool isBefore(const Model &model, int module) {
  return any_of(model.edges, [&](const ModelEdge &edge) {
    return edge.from == module &&
           (edge.to == model.pace || isBefore(model, edge.to));
  });
}

/// The end stages get fewer layers for what runs on their ranks.
void cutAroundGuests(const PolicyInput &input, const Uniform &layout,
                     Plan &plan) {
  UnitPlan &pace = plan.units[input.model().pace];
  std::vector<int> &cuts = input.cache->getCutsAroundGuests(
      layout.tp, layout.save, pace.pp * pace.vpp);
  if (!cuts.empty()) {
    pace.cuts = cuts;
    return;
  }
  double first = 0, last = 0;
  std::vector<double> byLayer;
  for (const UnitPlan &unit : plan.units) {
    CostOptions options{unit.tp, layout.save};
    const LayerPrices &prices = input.prices(unit.module, options);
    if (unit.module != pace.module)
      (isBefore(input.model(), unit.module) ? first : last) +=
          prices.total.back() * unit.tp / pace.tp;
    else
      for (size_t i = 0; i + 1 < prices.total.size(); ++i)
        byLayer.push_back(prices.seconds(int(i), int(i) + 1));
  }
  byLayer.front() += first;
  byLayer.back() += last;
  pace.cuts = cuts = balancedCuts(byLayer, pace.pp * pace.vpp);
}

/// Encoder and generator on the ranks of the first and of the last stage, whose
/// tasks theirs take turns with.
void placeOnEndStages(const PolicyInput &input, const Uniform &layout,
                      Plan &plan) {
  const UnitPlan &pace = plan.units[input.model().pace];
  for (UnitPlan &unit : plan.units) {
    if (unit.module == pace.module)
      continue;
    bool before = isBefore(input.model(), unit.module);
    unit.dp = pace.dp * (pace.tp / unit.tp);
    unit.firstRank = pace.getRank(before ? 0 : pace.pp - 1, 0);
  }
  if (!layout.even)
    cutAroundGuests(input, layout, plan);
}

/// In every schedule that suits; where units share ranks, those in which they
/// take turns, with `phases` also one unit after another. Nothing if there are
/// no layers, or no whole rounds of microbatches, for its rounds.
std::vector<Plan> makeUniform(const PolicyInput &input, const Uniform &layout,
                              bool phases = false) {
  const Model &model = input.model();
  Plan plan;
  plan.micro = layout.micro;
  plan.assign = Assign::Given;
  plan.reorder = Reorder::None;
  plan.microbatches = input.divideSamples(layout.dp * layout.micro);
  int layers = int(model.modules[model.pace].layers.size());
  if (layout.vpp > 1 && (layout.pp == 1 || layout.pp * layout.vpp > layers ||
                         plan.microbatches % layout.pp != 0))
    return {};
  int64_t next = 0;
  auto add = [&](int module) {
    bool pace = module == model.pace;
    int pp = pace ? layout.pp : 1;
    // It may not be cut as finely.
    int tp = std::gcd(layout.tp, model.modules[module].maxTP);
    UnitPlan unit = makeUnit(input, module, tp, layout.dp, pp,
                             pace ? layout.vpp : 1, layout.save, layout.even);
    unit.cp = layout.cp;
    unit.firstRank = next;
    plan.units[module] = unit;
    if (pace || layout.stages)
      next += unit.getRanks();
  };
  plan.units.resize(model.modules.size());
  int count = int(model.modules.size());
  for (int m = 0; m < count; ++m)
    if (m != model.pace && isBefore(model, m))
      add(m);
  add(model.pace);
  for (int m = 0; m < count; ++m)
    if (m != model.pace && !isBefore(model, m))
      add(m);
  plan.ranks = next;
  plan.schedule = layout.vpp > 1 ? "interleaved" : "1f1b";
  if (layout.stages || count == 1)
    return {plan};
  placeOnEndStages(input, layout, plan);
  std::vector<Plan> plans;
  for (StringRef schedule : sharingSchedules())
    if (phases || !scheduler::traitsOf(schedule).runsInPhases) {
      plans.push_back(plan);
      plans.back().schedule = schedule.str();
    }
  return plans;
}

/// Ranks of one replica of everything.
int64_t perReplica(const PolicyInput &input, const Uniform &layout) {
  int64_t extra = layout.stages ? int64_t(input.model().modules.size()) - 1 : 0;
  return int64_t(layout.tp) * layout.cp * (layout.pp + extra);
}

/// A layout's schedules with a few numbers of virtual stages.
std::vector<Plan> withAnyRounds(const PolicyInput &input, Uniform layout) {
  std::vector<Plan> plans;
  for (int vpp : {1, 2, 4}) {
    layout.vpp = vpp;
    llvm::append_range(plans, makeUniform(input, layout, /*phases=*/true));
  }
  return plans;
}

/// Adds, of what does not fit by estimate, the least sharing out of the
/// backbone's experts that does.
void addShared(const PolicyInput &input, std::vector<Plan> &plans) {
  int pace = input.model().pace;
  if (input.model().modules[pace].getExperts() == 0)
    return;
  auto fits = [&](const Plan &plan) {
    return std::isfinite(estimate(input, plan));
  };
  for (size_t i = 0, count = plans.size(); i < count; ++i) {
    std::vector<Plan> others;
    if (!fits(plans[i]))
      others = varyExperts(input, plans[i], pace);
    if (auto least = find_if(others, fits); least != others.end())
      plans.push_back(std::move(*least));
  }
}

} // namespace

Expected<Layouts> listMegatron(const PolicyInput &input, bool stages) {
  const Module &backbone = input.model().modules[input.model().pace];
  std::vector<int> sizes = tensorSizes(input, input.model().pace);
  auto replicas = [&](int tp, int pp) {
    return input.gpus() /
           perReplica(input, {tp, pp, 1, 1, 1, Save::None, stages, true});
  };
  while (sizes.size() > 1 && replicas(sizes.back(), 1) < 1)
    sizes.pop_back();
  int tp = sizes.back();
  if (replicas(tp, 1) < 1)
    return createStringError(
        formatv("one replica at TP {0} needs more than the {1} devices", tp,
                input.gpus()));
  Layouts layouts;
  for (Save save : {Save::All, Save::Vjp, Save::None}) {
    Rule &rule = layouts.rules.emplace_back();
    for (int pp = 1; pp <= int(backbone.layers.size()); ++pp) {
      Uniform layout{tp, pp, 1, 1, 1, save, stages, true};
      for (int64_t dp : divisors(input.samples()))
        if (dp <= replicas(tp, pp))
          layout.dp = dp;
      if (replicas(tp, pp) >= 1)
        rule.choices.push_back(withAnyRounds(input, layout));
    }
  }
  return layouts;
}

std::vector<Plan> uniformPlans(const PolicyInput &input, int cp) {
  const Module &backbone = input.model().modules[input.model().pace];
  int layers = int(backbone.layers.size());
  std::vector<Plan> plans;
  std::vector<int64_t> micros = microSizes(input, {1, 2, 4});
  for (int tp : tensorSizes(input, input.model().pace))
    for (int pp = 1; pp <= std::min(layers, 20); pp += pp < 4 ? 1 : 2)
      for (int vpp : {1, 2, 4})
        for (int64_t micro : micros)
          for (Save save : {Save::All, Save::Vjp, Save::None})
            for (bool stages : {false, true}) {
              Uniform layout{tp, pp, vpp, 1, micro, save, stages, false, cp};
              layout.dp = std::min(input.gpus() / perReplica(input, layout),
                                   input.divideSamples(micro));
              if (layout.dp >= 1)
                llvm::append_range(plans, makeUniform(input, layout));
            }
  addShared(input, plans);
  return plans;
}

/// Encoder and generator replicated: every rank of the backbone's has them
/// whole and works on the images of samples of its own.
static std::vector<Plan> replicatedPlans(const PolicyInput &input) {
  std::vector<Plan> plans;
  if (input.model().modules.size() < 2)
    return plans;
  for (Plan &plan : colocatedPlans(input, "phased")) {
    if (any_of(plan.units, [&](const UnitPlan &unit) {
          return unit.module != input.model().pace && unit.tp > 1;
        }))
      continue;
    plan.assign = Assign::Given;
    plan.reorder = Reorder::None;
    plans.push_back(std::move(plan));
  }
  return plans;
}

Expected<Layouts> listHomogeneous(const PolicyInput &input) {
  Layouts layouts;
  addBySchedule(input, uniformPlans(input), "", layouts.families);
  layouts.families["replicated"] = replicatedPlans(input);
  layouts.refine = Refine::UniformLayouts;
  return layouts;
}

} // namespace dt::planner
