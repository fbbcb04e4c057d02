//===- PlanSearch.h - Coarse to fine ----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What finds the best of many plans
// (docs/planning-search.md#how-joint-searches).
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_SEARCH_PLANSEARCH_H
#define PASSES_PLANNER_SEARCH_PLANSEARCH_H

#include "passes/planner/search/Ledger.h"

namespace dt::planner {

/// Coarse to fine: plans are ranked by estimate, the best are simulated folded,
/// the winners among those in full. A few plans at a time are simulated
/// together, on as many threads as there are: always equally many, so that the
/// result does not depend on the machine.
class PlanSearch {
public:
  /// `uniform`: no unit's layout is varied by itself.
  PlanSearch(const PolicyInput &input, int simulations, bool uniform = false)
      : input(input), uniform(uniform), budget(simulations), left(simulations),
        sums(input.model(), input.batch, input.costs.items) {}

  /// Folded simulations of the `most` best of all by estimate, less what a
  /// bound or the budget excludes, and what looks `far` times as slow as the
  /// best so far.
  void tryBest(const Families &families, int most, double far = 1.5);
  /// Whether what is known (PolicyInput::known) is out of reach.
  bool isBehind() const {
    return getBest() > PolicyInput::kBehind * input.known;
  }
  /// Folded simulations outside of the budget.
  void tryAnyway(llvm::StringRef family, std::vector<Plan> plans);
  /// With what is left of the budget: plans that may be faster than all that
  /// were simulated, by their bounds, the least first.
  void close(const Families &families);
  /// Nothing where none of the family was simulated or fits.
  void branch(const Branch &branch);
  /// Plans next to the best of each family that is no more than 30 % behind
  /// the best of all, one decision at a time, as long as that helps.
  void improve(int families);
  /// With what is still left: plans next to those that were simulated, the
  /// fastest first.
  void spread();
  /// Plans that are simpler than the simplest of the best, as long as one of
  /// them is no more than kNegligible slower than the best of all. Has
  /// simulations of its own, whatever the search has left.
  void simplify();
  /// Simulates the best in full until `most` of them fit, then simpler ones
  /// that may be as good; error if none fits (the reason of what is nearest to
  /// it).
  llvm::Expected<Candidates> finish(int most);

private:
  struct Entry {
    double step;
    Plan plan;
  };
  struct Trial {
    std::string family;
    Plan plan;
  };
  struct Ranked {
    double estimate, seconds;
    const std::string *family;
    const Plan *plan;
  };
  /// By estimate.
  std::vector<Ranked> rank(const Families &families, int most) const;
  /// Whether a plan is worth a simulation: not simulated yet, and not excluded
  /// by `limit`. Else it is left open.
  bool isWorth(const Plan &plan, double limit);
  /// Seconds of each, infinite if the plan does not fit.
  std::vector<double> tryTogether(llvm::MutableArrayRef<Trial> plans);
  /// To the best of the first neighbours that are better; false if none is.
  bool step(llvm::StringRef family, Entry &start, int least);
  /// The most promising by estimate first, those that may not fit last.
  std::vector<Plan> byEstimate(std::vector<Plan> plans) const;
  /// Adds those that fit; how many do.
  int simulateInFull(llvm::ArrayRef<const Entry *> entries,
                     Candidates &candidates);
  /// Of entries, fastest first, those that may be chosen for being simple.
  void addSimpler(llvm::ArrayRef<const Entry *> entries, int most,
                  Candidates &candidates);
  const Entry &getSimplest() const;
  double getBest() const;

  const PolicyInput &input;
  bool uniform;
  int budget, left; ///< simulations
  SampleSums sums;
  std::map<std::string, std::vector<Entry>> found; ///< fastest first
  Ledger ledger;
  bool closed = false; ///< the ledger has all of the families
  Reason reason;
};

/// Plans that differ from one in a single decision; of a `uniform` plan in no
/// unit's layout by itself.
std::vector<Plan> neighboursOf(const PolicyInput &input, const Plan &plan,
                               bool uniform);
/// Those that are simpler than the plan, and what several decisions at once
/// make of it: half of a unit's stages, a single one, whole tasks.
std::vector<Plan> simplerThan(const PolicyInput &input, const Plan &plan,
                              bool uniform);

/// What a policy's layouts come to, simulated in full; error if none fits.
llvm::Expected<Candidates> searchLayouts(const PolicyInput &input,
                                         const Layouts &layouts);

} // namespace dt::planner

#endif // PASSES_PLANNER_SEARCH_PLANSEARCH_H
