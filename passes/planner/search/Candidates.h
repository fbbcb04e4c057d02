//===- Candidates.h - The plan that a search settles on ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A search finds many plans that differ by less than its predictions are off.
// Of those within 1 % of the fastest the simplest is chosen: every stage is a
// part of the program that is compiled, read and debugged
// (docs/planning-search.md#the-simplest-of-the-fastest).
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_SEARCH_CANDIDATES_H
#define PASSES_PLANNER_SEARCH_CANDIDATES_H

#include "passes/planner/describe/Plan.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <limits>
#include <map>

namespace dt::planner {

/// A plan may be slower by this share of the fastest plan's step if it is
/// simpler.
constexpr double kNegligible = 0.005;

/// What a plan asks of who reads, compiles and runs its program; compared from
/// the first figure to the last, less is simpler.
struct Complexity {
  enum Figure {
    Stages,   ///< of all units: functions and files of the program
    Ranks,    ///< processes that start, talk and may fail
    Schedule, ///< 0: whole backwards, one unit after another or beside others;
              ///< 1: tasks of units or rounds woven in; 2: split backwards
    Tensor,   ///< largest number of ranks that share a layer: TP times CP
    Sequence, ///< 1: tokens between layers are divided too
    Slices,   ///< of a part, over all units
    Strips,   ///< of products and collectives, the most of a unit
    Ahead,    ///< units that run ahead of what the schedule asks for
    NumFigures
  };
  std::array<int64_t, NumFigures> figures = {};

  bool operator<(const Complexity &other) const {
    return figures < other.figures;
  }
};
Complexity getComplexity(const Plan &plan);

/// Plans that fit, with their predictions. Each is compared with the fastest of
/// all, never with one that was itself chosen for being simpler: what
/// simplicity costs does not add up.
class Candidates {
public:
  Candidates() = default;
  explicit Candidates(Plan plan) { add(std::move(plan)); }

  /// `plan.predicted.step` is what it is compared by.
  void add(Plan plan) { plans.push_back(std::move(plan)); }
  bool empty() const { return plans.empty(); }
  llvm::ArrayRef<Plan> getPlans() const { return plans; }
  llvm::MutableArrayRef<Plan> getPlans() { return plans; }

  /// The earliest of the fastest; not of an empty set.
  const Plan &getFastest() const;
  /// Of those at most kNegligible slower, and not slower than `limit`, the
  /// simplest; of equally simple ones the fastest, of these the earliest.
  const Plan &getSimplest() const;
  /// The simplest, with Plan::faster if another one is faster.
  Plan choose() const;

  std::optional<Searched> searched; ///< of what was compared
  /// Seconds of the fastest plan that others show beside the chosen one, which
  /// is no slower, however simple.
  double limit = std::numeric_limits<double>::infinity();

  /// Of a policy that takes all: what it asked others for, by their names.
  std::map<std::string, std::vector<Plan>> others;

private:
  std::vector<Plan> plans;
};

} // namespace dt::planner

#endif // PASSES_PLANNER_SEARCH_CANDIDATES_H
