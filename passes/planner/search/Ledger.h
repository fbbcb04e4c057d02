//===- Ledger.h - Which plans were simulated --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every plan that a search has looked at, once: simulated, or left out with
// what it takes at least. At the end that says what there may be to gain.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_SEARCH_LEDGER_H
#define PASSES_PLANNER_SEARCH_LEDGER_H

#include "passes/planner/policies/Policy.h"

#include <unordered_map>
#include <unordered_set>

namespace dt::planner {

class Ledger {
public:
  /// lowerBound() of a plan; infinite if it was simulated.
  double look(const PolicyInput &input, const Plan &plan);
  /// Notes that a plan is simulated; false if it was.
  bool take(const Plan &plan);
  bool has(const Plan &plan) const; ///< simulated
  /// What was simulated is worth another simulation: more is known of it.
  void forget(const Plan &plan);
  Searched get() const;
  /// Seconds that none of those left out beats that has so many microbatches;
  /// infinite if there is none.
  double getBound(int64_t microbatches) const;

private:
  std::unordered_set<uint64_t> simulated;
  struct Open {
    double bound;
    int64_t microbatches;
  };
  std::unordered_map<uint64_t, Open> open; ///< left out
};

} // namespace dt::planner

#endif // PASSES_PLANNER_SEARCH_LEDGER_H
