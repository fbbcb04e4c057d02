//===- DistTrain.cpp - The published policy -------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The formulation's optimum, run as published: whole samples, LPT, algorithm 2,
// 1F1B, interleaved where the backbone has virtual stages. Nothing is added.
// What the paper leaves open is decided in its favour: each unit has its own
// saved set, microbatches and virtual stages are those with the fastest plan,
// and since the formulation does not say whether stages hold equally many
// layers, both readings are solved.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

/// Layers that repeat: what stages hold equally many of.
int repeatedLayers(const Module &module) {
  std::vector<int> count(module.kinds.size(), 0);
  for (int kind : module.layers)
    ++count[kind];
  int most = *std::max_element(count.begin(), count.end());
  return 2 * most > int(module.layers.size()) ? most
                                              : int(module.layers.size());
}

FormulaUnit describe(const PolicyInput &input, int module, Save save,
                     bool equal) {
  const Module &description = input.model().modules[module];
  const ModuleCost &cost = input.costs.get(0, module);
  int layers = int(description.layers.size());
  // The mean sample: the formulation knows no other.
  TokenSums part = meanPart(input, module, input.samples(), 1);
  FormulaUnit unit;
  unit.name = description.name;
  unit.layers = equal ? repeatedLayers(description) : layers;
  CostOptions options;
  options.save = save;
  for (int tp : tensorSizes(input, module)) {
    options.tp = tp;
    unit.time[tp] = cost.module(options, part).total();
  }
  options.tp = 1;
  double parameters = description.getParameters();
  unit.parameters =
      parameters * (description.bytes.weight +
                    (description.trainable ? description.bytes.gradient : 0));
  unit.optimizer =
      description.trainable ? parameters * description.bytes.optimizer : 0;
  unit.activations = cost.kept(0, layers, options, part);
  return unit;
}

/// One reading of the formulation.
struct Reading {
  bool equal;         ///< stages of equally many layers
  int64_t micro, vpp; ///< samples of a microbatch, virtual stages a rank
};

/// Nothing if its virtual stages cannot be run.
std::optional<Plan> toPlan(const PolicyInput &input, const FormulaPlan &formula,
                           const std::vector<Save> &saves,
                           const Reading &reading) {
  const Model &model = input.model();
  Plan plan;
  plan.assign = Assign::Samples;
  plan.reorder = Reorder::Both;
  plan.microbatches = formula.microbatches;
  plan.micro = reading.micro;
  plan.schedule = reading.vpp > 1 ? "interleaved" : "1f1b";
  plan.predicted.objective = formula.objective;
  size_t other = 0;
  for (size_t m = 0; m < model.modules.size(); ++m) {
    const FormulaLayout &layout =
        int(m) == model.pace ? formula.backbone : formula.others[other++];
    bool rounds = int(m) == model.pace && reading.vpp > 1;
    int64_t stages = layout.pp * reading.vpp;
    // Interleaving asks for whole rounds of microbatches.
    if (rounds && (layout.pp < 2 || plan.microbatches % layout.pp != 0 ||
                   stages > int64_t(model.modules[m].layers.size())))
      return std::nullopt;
    plan.units.push_back(makeUnit(input, int(m), int(layout.tp), layout.dp,
                                  int(layout.pp), rounds ? int(reading.vpp) : 1,
                                  saves[m]));
  }
  placeUnits(input, plan);
  return plan;
}

/// Plans by objective, over all saved sets and, since the formulation's memory
/// knows no uneven stages or buffers, a few shares of the memory.
Rule solve(const PolicyInput &input, const Reading &reading) {
  Rule rule;
  rule.coarse = true;
  const Model &model = input.model();
  size_t count = model.modules.size();
  double memory = input.costs.cluster.getMemory(0);
  std::vector<Plan> plans;
  // Of many modules all keep alike.
  size_t ways = count <= 5 ? size_t(std::lround(std::pow(3, count))) : 3;
  std::vector<std::vector<FormulaUnit>> units(count);
  for (size_t m = 0; m < count; ++m)
    for (Save save : {Save::None, Save::Vjp, Save::All})
      units[m].push_back(describe(input, int(m), save, reading.equal));
  for (size_t way = 0; way < ways; ++way) {
    std::vector<Save> saves;
    size_t rest = way;
    FormulaProblem problem;
    problem.gpus = input.gpus();
    problem.batch = input.samples();
    problem.ppDivides = reading.equal;
    problem.micro = reading.micro;
    problem.vpp = reading.vpp;
    for (size_t m = 0; m < count; ++m) {
      saves.push_back(Save(rest % 3));
      const FormulaUnit &unit = units[m][rest % 3];
      rest = count <= 5 ? rest / 3 : rest;
      if (int(m) == model.pace)
        problem.backbone = unit;
      else
        problem.others.push_back(unit);
    }
    std::optional<FormulaPlan> before;
    for (double fraction : {1.0, 0.85, 0.7, 0.5, 0.35}) {
      problem.memory = memory * fraction;
      // With less memory nothing else gets better than what still fits.
      if (before && fitsMemory(problem, *before))
        continue;
      auto formula = solveFormula(problem);
      if (!formula) {
        rule.reason.note(formula.takeError());
        break;
      }
      if (!before || formula->objective > before->objective)
        if (auto plan = toPlan(input, *formula, saves, reading))
          plans.push_back(std::move(*plan));
      before = std::move(*formula);
    }
  }
  llvm::stable_sort(plans, [](const Plan &a, const Plan &b) {
    return a.predicted.objective < b.predicted.objective;
  });
  for (Plan &plan : plans)
    rule.choices.push_back({std::move(plan)});
  return rule;
}

} // namespace

std::vector<Rule> distTrainRules(const PolicyInput &input, int64_t mostMicro,
                                 int64_t mostRounds) {
  std::vector<Rule> rules;
  for (int64_t micro = 1; micro <= mostMicro; micro *= 2)
    for (int64_t vpp = 1; vpp <= mostRounds; vpp *= 2)
      for (bool equal : {true, false})
        if (input.samples() % micro == 0)
          rules.push_back(solve(input, {equal, micro, vpp}));
  return rules;
}

Expected<Layouts> listDistTrain(const PolicyInput &input) {
  Layouts layouts;
  layouts.rules = distTrainRules(input, 4, 4);
  return layouts;
}

} // namespace dt::planner
