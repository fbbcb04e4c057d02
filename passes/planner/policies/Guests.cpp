//===- Guests.cpp - What runs inside a stage, as programs have it ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Uniform layouts put the encoder inside the backbone's first stage and the
// generator inside its last one (UnitPlan::inside), as Megatron-LM does. In a
// program every module has tasks of its own; there a guest is a unit on the
// ranks of that stage, whose tasks take turns with the stage's.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace llvm;

namespace dt::planner {

void separateGuests(Plan &plan, const Model &model) {
  for (UnitPlan &unit : plan.units) {
    if (!unit.inside)
      continue;
    const Module &module = model.modules[unit.module];
    const UnitPlan &host = plan.units[unit.inside->unit];
    int stage = unit.inside->stage < 0 ? host.pp - 1 : unit.inside->stage;
    // It may not be cut as finely.
    unit.tp = std::gcd(host.tp, module.maxTP);
    unit.dp = host.dp * (host.tp / unit.tp);
    unit.pp = unit.vpp = 1;
    unit.firstRank = host.getRank(stage % host.pp, 0);
    unit.cuts = {0, int(module.layers.size())};
    unit.saves.clear();
    unit.inside.reset();
  }
}

Expected<Plan> makeGuestsUnits(const PolicyInput &input, const Plan &plan) {
  Plan separate = plan;
  separateGuests(separate, input.model());
  std::optional<Plan> best;
  Reason reason;
  for (StringRef schedule : sharingSchedules()) {
    auto other = withRounds(input, separate, schedule,
                            separate.units[input.model().pace].vpp);
    if (!other)
      continue;
    auto step = simulateFitting(input.costs, *other, input.batch);
    if (!step) {
      reason.note(step.takeError());
      continue;
    }
    other->predicted = step->predicted;
    if (!best || other->predicted.step < best->predicted.step)
      best = std::move(*other);
  }
  if (!best)
    return createStringError(reason.get());
  return std::move(*best);
}

} // namespace dt::planner
