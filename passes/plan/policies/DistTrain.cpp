//===- DistTrain.cpp - The published policy -------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The formulation's optimum, run as published: whole samples, LPT, algorithm 2,
// 1F1B, one sample a microbatch. Nothing is added.
//
//===----------------------------------------------------------------------===//

#include "passes/plan/policies/Policy.h"

using namespace llvm;

namespace dt::plan {

namespace {

FormulaUnit describe(const PolicyInput &input, int module, Save save) {
  const Module &description = input.model().modules[module];
  const ModuleCost &cost = input.costs.get(0, module);
  int layers = int(description.layers.size());
  // The mean sample: the formulation knows no other.
  Moments part = meanPart(input, module, input.samples(), 1);
  FormulaUnit unit;
  unit.name = description.name;
  unit.layers = layers;
  CostOptions options;
  options.save = save;
  for (int tp : tensorSizes(input, module)) {
    options.tp = tp;
    unit.time[tp] = cost.module(options, part).total();
  }
  options.tp = 1;
  double parameters = description.getParameters();
  unit.parameters =
      parameters * (description.weightBytes +
                    (description.trainable ? description.gradientBytes : 0));
  unit.optimizer =
      description.trainable ? parameters * description.optimizerBytes : 0;
  unit.activations = cost.kept(0, layers, options, part);
  return unit;
}

Plan toPlan(const PolicyInput &input, const FormulaPlan &formula, Save save) {
  const Model &model = input.model();
  Plan plan;
  plan.policy = "disttrain";
  plan.assign = Assign::Samples;
  plan.reorder = Reorder::Both;
  plan.microbatches = formula.microbatches;
  plan.predicted.objective = formula.objective;
  size_t other = 0;
  for (size_t m = 0; m < model.modules.size(); ++m) {
    const FormulaLayout &layout =
        int(m) == model.pace ? formula.backbone : formula.others[other++];
    UnitPlan unit = makeUnit(input, int(m), int(layout.tp), layout.dp,
                             int(layout.pp), 1, save);
    unit.firstRank = plan.ranks;
    plan.ranks += unit.getRanks();
    plan.units.push_back(unit);
  }
  return plan;
}

} // namespace

Expected<Plan> planDistTrain(const PolicyInput &input) {
  const Model &model = input.model();
  std::optional<Plan> best;
  std::string reason;
  double memory = input.costs.cluster.getMemory(0);
  // The formulation's memory knows no uneven stages or buffers: where its plan
  // does not fit, it is asked again with a little less.
  for (Save save : {Save::All, Save::Vjp, Save::None})
    for (double share : {1.0, 0.9, 0.75, 0.6, 0.4}) {
      FormulaProblem problem;
      problem.gpus = input.gpus();
      problem.batch = input.samples();
      problem.memory = memory * share;
      problem.backbone = describe(input, model.pace, save);
      for (size_t m = 0; m < model.modules.size(); ++m)
        if (int(m) != model.pace)
          problem.others.push_back(describe(input, int(m), save));
      auto formula = solveFormula(problem);
      if (!formula) {
        reason = toString(formula.takeError());
        break;
      }
      if (best && formula->objective >= best->predicted.objective)
        break;
      Plan plan = toPlan(input, *formula, save);
      auto result = simulateStep(input.costs, plan, input.batch);
      if (!result) {
        reason = toString(result.takeError());
        continue;
      }
      plan.predicted = result->predicted;
      best = plan;
      break;
    }
  if (!best)
    return createStringError(inconvertibleErrorCode(), reason);
  return *best;
}

} // namespace dt::plan
