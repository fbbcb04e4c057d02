//===- Published.h - The zero-bubble authors' pipelines ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// data/zero_bubble.json for tests and `tools/bench schedules`: pipelines of
// equal stages and how long the published schedulers' orders take. What an
// order of ours takes is counted anew here, by nothing that the schedules use.
//
//===----------------------------------------------------------------------===//

#ifndef TEST_PASSES_SCHEDULE_PUBLISHED_H
#define TEST_PASSES_SCHEDULE_PUBLISHED_H

#include "passes/scheduler/core/Schedule.h"

namespace dt::scheduler {

struct Pipeline {
  std::string set, schedule; ///< theirs
  int ranks = 0, microbatches = 0;
  Time forward = 0, input = 0, weight = 0, latency = 0;
  int chunks = 1;
  bool v = false;
  /// Of one microbatch, what is left of it after the input gradient, and most
  /// on a rank (0: no bound).
  Bytes activation = 0, weightActivation = 0, memory = 0;
  Time span = 0, wall = 0; ///< theirs
  Time bound = 0;          ///< of the small ones: no span is shorter

  Problem makeProblem() const;
  /// The schedule of this compiler that is compared.
  std::string getOwn() const;
  /// Whether that one searches.
  bool isSearched() const;
  /// A time that no order goes below, by a formula.
  Time getBound(Objective objective) const;
  std::string getName() const;
};

struct Published {
  std::vector<Pipeline> cases, small;
};
/// Ends the program if the file is not as it is written.
Published readPublished(const std::string &path);

struct Recount {
  Time span = 0, wall = 0;
  Bytes peak = 0;
  std::string error; ///< why it is no order of this pipeline
};
Recount recount(const Pipeline &pipeline, const Solution &solution);

} // namespace dt::scheduler

#endif // TEST_PASSES_SCHEDULE_PUBLISHED_H
