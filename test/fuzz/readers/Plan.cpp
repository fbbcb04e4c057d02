//===- Plan.cpp - fuzz target of plans --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A plan file, or, if it does not begin with '{', a plan in one line.
//
//===----------------------------------------------------------------------===//

#include "passes/plan/PlanFile.h"
#include "test/fuzz/readers/Refusal.h"

using namespace dt;
using namespace dt::plan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr int64_t kMost = 1 << 20;
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto plan =
      fuzz::accepted(text.starts_with("{") ? parsePlan(text, "plan.json")
                                           : parsePlanLine(text));
  if (!plan)
    return 0;
  fuzz::expect(plan->ranks >= 1 && plan->ranks <= kMost && !plan->units.empty(),
               "a plan without ranks or units");
  for (const UnitEntry &unit : plan->units) {
    for (int64_t count : {unit.tp, unit.dp, unit.pp, unit.vpp, unit.sub})
      fuzz::expect(count >= 1 && count <= kMost, "a count out of its bounds");
    fuzz::expect(unit.stages.empty() ||
                     int64_t(unit.stages.size()) == unit.getNumStages(),
                 "a unit's stages are not as many as it says");
    for (int64_t rank : unit.ranks)
      fuzz::expect(rank >= 0 && rank <= kMost, "a rank out of its bounds");
  }
  return 0;
}
