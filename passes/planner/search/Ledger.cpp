//===- Ledger.cpp - Which plans were simulated ----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/Ledger.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

#include <cmath>

using namespace llvm;

namespace dt::planner {

/// Of all decisions: plans with equal keys are the same.
static uint64_t keyOf(const Plan &plan) {
  SmallVector<int64_t, 128> key = {plan.microbatches, int64_t(plan.assign),
                                   int64_t(plan.reorder), plan.sequenceParallel,
                                   int64_t(xxh3_64bits(plan.schedule))};
  for (const UnitPlan &unit : plan.units) {
    key.append({unit.tp, unit.dp, unit.pp, unit.vpp, unit.cp, unit.ring,
                unit.ep, int64_t(unit.save), unit.firstRank,
                unit.runAhead.value_or(-1), unit.sub, unit.span, unit.overlap});
    append_range(key, unit.cuts);
    for (Save save : unit.saves)
      key.push_back(int64_t(save));
  }
  return xxh3_64bits(ArrayRef(reinterpret_cast<const uint8_t *>(key.data()),
                              key.size() * sizeof(int64_t)));
}

double Ledger::look(const PolicyInput &input, const Plan &plan) {
  uint64_t key = keyOf(plan);
  if (simulated.count(key))
    return INFINITY;
  auto [entry, isNew] = open.try_emplace(key, Open{0, plan.microbatches});
  if (isNew)
    entry->second.bound = lowerBound(input, plan);
  return entry->second.bound;
}

bool Ledger::take(const Plan &plan) {
  uint64_t key = keyOf(plan);
  open.erase(key);
  return simulated.insert(key).second;
}

bool Ledger::has(const Plan &plan) const {
  return simulated.count(keyOf(plan)) > 0;
}

void Ledger::forget(const Plan &plan) { simulated.erase(keyOf(plan)); }

Searched Ledger::get() const {
  Searched result;
  result.simulated = int64_t(simulated.size());
  result.plans = result.simulated + int64_t(open.size());
  result.bound = INFINITY;
  for (auto [key, plan] : open)
    result.bound = std::min(result.bound, plan.bound);
  return result;
}

double Ledger::getBound(int64_t microbatches) const {
  double least = INFINITY;
  for (auto [key, plan] : open)
    if (plan.microbatches == microbatches)
      least = std::min(least, plan.bound);
  return least;
}

} // namespace dt::planner
