//===- Blocks.h - Orders that repeat a block --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Sequences of forwards and input gradients that repeat every period, after
// the building blocks of Qi et al., "Pipeline Parallelism with Controllable
// Memory", 2024: one microbatch's way through the stages and back, with some
// slack on every hop, shifted by a period for each microbatch. How long a
// microbatch is on its way is how many of them a rank holds, so slack is what
// memory is spent on. The times only say the order; tasks start as early as
// they can.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_SEARCH_BLOCKS_H
#define PASSES_SCHEDULER_SEARCH_BLOCKS_H

#include "passes/scheduler/search/Lanes.h"

namespace dt::scheduler {

struct BlockRules {
  FillRules fill;
  /// How much later than possible a forward or gradient comes, in 1/384 of the
  /// longest work of a lane on a microbatch: of a lane's first stages, second
  /// stages, …
  std::vector<int> forward, gradient;
  /// If not 0, tasks start on a lane's grid: a period is cut into so many equal
  /// parts, and each part has one place for tasks that go there (forwards of
  /// even, gradients of odd rounds) and behind it one for tasks that go back.
  int grid = 0;
  /// The period, in 1/384 of that work.
  int period = 384;
  /// Whether a lane keeps time free for a weight gradient behind its gradient.
  bool together = false;
  /// Whether the order is that of tasks of equal length without latencies.
  bool even = false;
};

class Blocks {
public:
  explicit Blocks(const Lanes &lanes);

  /// Most stages on a lane: entries of the rules' tables.
  int getNumRounds() const { return rounds; }
  /// Nothing if memory does not hold what is on the way.
  std::optional<LaneResult> run(const BlockRules &rules) const;
  /// About the least period, no less than the rules', with which memory holds
  /// what is on the way; 0: none does. Counts its work down, in tasks placed.
  int getPeriod(const BlockRules &rules, int64_t &left) const;

private:
  struct Reservation {
    Time offset; ///< in the period
    int cycle;   ///< periods before that
    int place;
    TaskGraph::Slot slot;
  };
  /// Start of a microbatch's forwards and gradients by place.
  struct Way {
    std::vector<Time> forward, gradient;
  };
  /// What rules take tasks to be long: by place, and by lane the longest
  /// that goes there.
  struct Lengths {
    std::vector<Time> forward, gradient, weight, there;
  };
  Lengths getLengths(const BlockRules &rules) const;
  Way getWay(const BlockRules &rules, Time period) const;
  std::vector<Reservation> getSteps(const Way &way, Time period) const;
  bool fits(const std::vector<Reservation> &steps) const;

  const Lanes &lanes;
  std::vector<int> roundOf;                    ///< by place
  std::vector<Time> forward, gradient, weight; ///< by place: mean times
  std::vector<Bytes> activation; ///< by place: most of a microbatch
  Time work = 0;
  int rounds = 1;
};

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_SEARCH_BLOCKS_H
