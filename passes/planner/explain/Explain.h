//===- Explain.h - What was chosen, and why ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A plan that nobody understands is not trusted. For a plan: its units and what
// bounds each, where device time goes, the best plan of every other policy and
// where that loses, the ratio to DistTrain's plan under other data seeds, and
// what another cluster or batch would give. As text, as JSON (`predicted` of
// the plan file) and as a page with the timeline.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_EXPLAIN_EXPLAIN_H
#define PASSES_PLANNER_EXPLAIN_EXPLAIN_H

#include "passes/planner/policies/Policy.h"

#include "llvm/Support/raw_ostream.h"

#include <functional>

namespace dt::planner {

struct Explanation {
  struct Unit {
    std::string name, device;
    int64_t ranks = 0;
    /// Of a part: items, and their tokens; mean and most.
    double items = 0, mostItems = 0, tokens = 0, mostTokens = 0;
    /// Tokens that a part may have, where items of a program differ in size; 0:
    /// they do not, or there is no bound.
    double boundTokens = 0;
    double seconds = 0; ///< of a microbatch in the slowest stage, on average
    /// Of the fullest rank. Of a compiled plan as it is allocated: activations
    /// are the arena.
    PlannedStep::Memory memory;
    /// Of a compiled plan: the same as the search had it.
    std::optional<PlannedStep::Memory> estimate;
    double capacity = 0;        ///< bytes a plan may use
    std::string boundBy, costs; ///< costs: model or profile
  };
  struct Other {
    std::string policy, error; ///< why it has no plan
    std::string notExecutable; ///< why its plan is priced only
    Prediction predicted;
    std::string loses; ///< where, against the explained plan
  };
  struct Relaxation {
    std::string what;
    double step = 0; ///< seconds if it were so
  };
  /// The plan against DistTrain's under other seeds, if the data are known.
  struct Spread {
    int seeds = 0;
    double mean = 0, least = 0, most = 0;
  };
  Plan plan;
  std::vector<Unit> units;
  std::vector<Other> others;
  std::string bounds;                  ///< ExplainOptions::bounds
  std::vector<Relaxation> relaxations; ///< what pays most first
  Spread spread;
  /// Waiting without unevenness: fill, drain and messages, as a share of the
  /// step; the rest of `waiting` is that parts are uneven.
  double fill = 0;
};

struct ExplainOptions {
  bool others = true, relax = true;
  /// For the spread over seeds; null: none.
  const Data *data = nullptr;
  uint64_t seed = 1;
  int seeds = 10;
  /// Makes the plans of other policies, and the explained plan's policy's where
  /// a constraint is looser; not set: makePlan().
  std::function<llvm::Expected<Plan>(llvm::StringRef policy,
                                     const PolicyInput &input)>
      plan;
  /// What that holds plans to, for the reader; empty: nothing but memory.
  std::string bounds;
};

llvm::Expected<Explanation> explain(const PolicyInput &input, const Plan &plan,
                                    const ExplainOptions &options = {});

void printText(llvm::raw_ostream &os, const Explanation &explanation,
               const PolicyInput &input);
/// The plan file with all of this under `predicted`.
std::string printJson(const Explanation &explanation, const Model &model);
/// Explanation and timeline in one file that needs no other. Where there are
/// many ranks, one stands for all that do the same.
llvm::Error printHtml(llvm::raw_ostream &os, const Explanation &explanation,
                      const PolicyInput &input);

/// A spread of ratios: step of `base`'s plan over `plan`'s, data of other
/// seeds.
Explanation::Spread spreadOf(const PolicyInput &input, const Plan &plan,
                             const Plan &base, const Data &data, uint64_t first,
                             int seeds);

} // namespace dt::planner

#endif // PASSES_PLANNER_EXPLAIN_EXPLAIN_H
