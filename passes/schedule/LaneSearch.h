//===- LaneSearch.h - Search over waves and blocks --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_LANESEARCH_H
#define PASSES_SCHEDULE_LANESEARCH_H

#include "passes/schedule/Blocks.h"
#include "passes/schedule/Evaluate.h"
#include "passes/schedule/Incumbent.h"

namespace dt::schedule {

/// Sequences of forwards and gradients with weight gradients between (Lanes.h).
/// Does nothing where lanes do not apply.
class LaneSearch {
public:
  LaneSearch(const Graph &graph, const std::vector<Bytes> &memory,
             Incumbent &incumbent);

  /// All kinds of waves, then with times aimed at between bound and best.
  void searchWaves();
  /// Blocks of every pattern of slack, short periods first.
  void searchBlocks();
  /// Steps from the best block, with a part of what is left.
  void climbBlocks();
  /// Keeps the forwards and gradients of the best order in their order and puts
  /// the weight gradients anew.
  void refill();
  /// The same for some order, coarsely; what it takes then.
  Cost refillOnce(const Timeline &timeline);
  /// The best block, if any, and trying one that was found elsewhere.
  const std::optional<BlockPolicy> &getBlock() const { return block; }
  void tryBlock(const BlockPolicy &policy);

private:
  /// Whether a result is no longer than `least`, which it becomes then.
  bool consider(std::optional<LaneResult> result, Cost &least);
  /// Appends a sequence of (start, end, task); false if memory cannot hold it.
  bool fill(llvm::ArrayRef<std::tuple<Time, Time, Graph::Node>> sequence,
            const FillPolicy &policy, Cost &least);
  std::vector<BlockPolicy> listBlocks(const Blocks &blocks);

  const Graph &graph;
  Incumbent &incumbent;
  std::optional<Lanes> lanes;
  std::optional<BlockPolicy> block;
  Cost blockCost = kWorst;
};

} // namespace dt::schedule

#endif // PASSES_SCHEDULE_LANESEARCH_H
