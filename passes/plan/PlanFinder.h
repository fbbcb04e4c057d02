//===- PlanFinder.h - Plans that can be executed ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_PLANFINDER_H
#define PASSES_PLAN_PLANFINDER_H

#include "passes/plan/ExecutablePlan.h"
#include "passes/planner/search/Ledger.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

namespace dt::plan {

/// Simulates plans that can be executed, and keeps what fits.
class PlanFinder {
public:
  using Plan = planner::Plan;
  /// Of schedules that search; what is chosen is solved to its end.
  static constexpr int64_t kScheduleEffort = 60000;

  PlanFinder(const planner::PolicyInput &input, const PlannedProgram &program,
             AcceptPlan accepts, Refusals &refusals)
      : refusals(refusals), input(input), program(program), accepts(accepts) {}

  /// What a policy found.
  void tryOwn(llvm::StringRef policy, std::vector<Plan> plans);
  /// Seconds of the fastest plan that another policy than `chooser` settles on.
  double getLimit(llvm::StringRef chooser) const;
  /// The best of `plans` and what is near to it; where nothing fits, all of
  /// `all` with less kept.
  void search(const std::vector<Plan> &plans, const std::vector<Plan> &all);
  /// What is said of the search.
  planner::Searched getSearched() const;
  /// With what is known since a plan was refused: simulates it again, and what
  /// of its layout may not fit; if `varied`, also what differs from it in a
  /// decision.
  void reconsider(bool varied);
  /// The best of `found` as it is measured, with its predictions. DoesNotFit:
  /// it does not, and is no longer among `found`.
  llvm::Expected<Plan> choose(const planner::Robustness *robustness,
                              MeasurePlan measure);
  /// Why nothing is found.
  llvm::Error explainNone() const;

  planner::Candidates found; ///< executable, with predictions
  planner::Reason reason;    ///< why others are not
  int64_t numRefused = 0;
  Refusals &refusals;

private:
  /// The best by estimate, and what may be as good and is simpler.
  void tryBest(std::vector<Plan> plans);
  /// From the fastest, one decision at a time; then how far units run ahead.
  void improve();
  /// From the simplest, as long as something simpler is as good.
  void simplify();
  /// Seconds by estimate; bytes where they are infinite; index.
  using Ranked = std::tuple<double, double, size_t>;
  /// Those that can be executed, the most promising first; adds what is to be
  /// tried beside them.
  std::vector<Ranked> rank(std::vector<Plan> &plans);
  struct Trial {
    Plan plan;
    double step = INFINITY; ///< of what is added to `found`
    bool fits = true;       ///< as far as is known
  };
  /// What works is added to `found`; why others do not is noted.
  std::vector<Trial> simulate(std::vector<Plan> plans);
  void simulateTogether(llvm::MutableArrayRef<Trial> trials);
  void settle(Trial &trial, llvm::Expected<planner::PlannedStep> step);
  /// What is as slow is not chosen.
  double getMost() const;
  /// Of each the plan, or, of those with more and so smaller microbatches, the
  /// first that fits: estimates of memory are rough.
  void simulateWhatFits(llvm::ArrayRef<Plan> plans);
  double memoryOf(const Plan &plan) const;
  /// Searched::sizes, of all numbers that there may be.
  std::map<int64_t, planner::Searched::Size> getSizes() const;
  /// The best whose tasks find an order; those better ones whose tasks do not
  /// are dropped. DoesNotFit: none does.
  llvm::Expected<Plan> pick(const planner::Robustness *robustness);
  /// No longer among `found`.
  void drop(const Plan &plan);
  /// To what is better among `neighbours`, as long as anything is.
  void climb(Plan start,
             llvm::function_ref<std::vector<Plan>(const Plan &)> neighbours);

  /// With the memory that is allocated, which must be there.
  llvm::Error predict(Plan &plan, MeasurePlan measure);

  planner::Ledger ledger;
  /// By what was decided: the policies that found a plan.
  std::map<std::string, std::set<std::string>> finders;
  std::string asked;           ///< whose plans are tried
  std::optional<Plan> refused; ///< the last one
  const planner::PolicyInput &input;
  const PlannedProgram &program;
  AcceptPlan accepts;
};

} // namespace dt::plan

#endif // PASSES_PLAN_PLANFINDER_H
