//===- Ranking.h - Plans in the order in which they are tried ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_SEARCH_RANKING_H
#define PASSES_PLANNER_SEARCH_RANKING_H

#include "passes/planner/search/PlanSearch.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace dt::planner {

/// Plans of all families by estimate. Estimates compare layouts of one family
/// and one TP of the backbone better than others: such a class is tried early
/// once, then what simulations said of its plans corrects the estimates of the
/// others.
class Ranking {
public:
  /// Of which `most` are tried. The families' plans outlive it.
  Ranking(const PolicyInput &input, llvm::ArrayRef<PlanSearch::Family> families,
          int most);

  struct Class;
  struct Candidate {
    const Plan *plan;
    size_t family;
    double estimate;
    Class *from;
  };
  struct Class {
    std::vector<Candidate> plans;
    size_t taken = 0;
    double sum = 0;
    int count = 0;
    /// Simulated over estimated.
    double getRatio() const { return sum / count; }
  };

  /// The most promising plan that was not taken yet, and its seconds.
  std::optional<std::pair<Candidate, double>> next();
  /// What a simulation said of it; infinite: it does not fit.
  static void learn(const Candidate &candidate, double step);

private:
  int most;
  std::map<std::pair<size_t, int>, Class> classes; ///< family, TP
};

} // namespace dt::planner

#endif // PASSES_PLANNER_SEARCH_RANKING_H
