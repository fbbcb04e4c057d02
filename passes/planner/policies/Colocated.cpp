//===- Colocated.cpp - Units that share ranks -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every unit has all devices and its own layout on them. `colocated` lets them
// take turns (encoder forwards, backbone, encoder backwards); `bubble` starts
// encoder and generator tasks where the backbone's pipeline has nothing to do.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include <algorithm>

using namespace llvm;

namespace dt::planner {

std::vector<Plan> colocatedPlans(const PolicyInput &input, StringRef schedule) {
  constexpr Save kTried[] = {Save::All, Save::Vjp, Save::None};
  const Model &model = input.model();
  int layers = int(model.modules[model.pace].layers.size());
  std::vector<Plan> plans;
  std::vector<int64_t> micros = microSizes(input, {1, 2, 4});
  int others = model.modules.size() > 1 ? 12 : 1; // TP and saved sets
  for (int tp : tensorSizes(input, model.pace))
    for (int pp = 1; pp <= std::min(layers, 16); ++pp)
      for (int64_t micro : micros)
        for (Save save : kTried)
          for (int code = 0; code < others; ++code) {
            int otherTP = 1 << code % 4;
            int64_t dp = std::min(input.gpus() / (int64_t(tp) * pp),
                                  input.divideSamples(micro));
            if (dp < 1)
              continue;
            Plan plan;
            plan.micro = micro;
            plan.schedule = schedule.str();
            plan.ranks = dp * tp * pp;
            plan.microbatches = input.divideSamples(dp * micro);
            bool valid = true;
            for (size_t m = 0; m < model.modules.size(); ++m) {
              bool pace = int(m) == model.pace;
              int own = pace ? tp : otherTP;
              valid &= own <= model.modules[m].maxTP && plan.ranks % own == 0;
              if (!valid)
                break;
              Save kept = pace ? save : kTried[code / 4];
              plan.units.push_back(makeUnit(input, int(m), own,
                                            pace ? dp : plan.ranks / own,
                                            pace ? pp : 1, 1, kept));
            }
            if (valid)
              plans.push_back(std::move(plan));
          }
  return plans;
}

Expected<Layouts> listColocated(const PolicyInput &input) {
  Layouts layouts;
  layouts.families = {{"phased", colocatedPlans(input, "phased")}};
  return layouts;
}

std::vector<Plan> inVirtualStages(const PolicyInput &input, const Plan &plan) {
  std::vector<Plan> plans;
  for (int most : {2, 4, 8, 16, 1000}) {
    Plan other = plan;
    bool any = false;
    for (UnitPlan &unit : other.units) {
      int layers = int(input.model().modules[unit.module].layers.size());
      int vpp = std::min(most, layers);
      if (unit.module == input.model().pace || vpp == unit.vpp)
        continue;
      unit = makeUnit(input, unit.module, unit.tp, unit.dp, 1, vpp, unit.save);
      any = true;
    }
    if (any)
      plans.push_back(std::move(other));
  }
  return plans;
}

Expected<Layouts> listBubble(const PolicyInput &input) {
  Layouts layouts;
  // All of it before and after the backbone's is the least that can be done.
  for (StringRef schedule : sharingSchedules()) {
    layouts.families[schedule.str()] = colocatedPlans(input, schedule);
    if (!scheduler::traitsOf(schedule).runsInPhases)
      layouts.branches.push_back(
          {schedule.str(), "stages", 2, inVirtualStages});
  }
  layouts.apart = true;
  layouts.refine = Refine::Nothing;
  layouts.budget = 4;
  return layouts;
}

} // namespace dt::planner
