//===- LaneSearch.h - Search over waves and blocks --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_SEARCH_LANESEARCH_H
#define PASSES_SCHEDULER_SEARCH_LANESEARCH_H

#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/search/Blocks.h"
#include "passes/scheduler/search/Incumbent.h"
#include "passes/scheduler/search/Justify.h"

#include <random>

namespace dt::scheduler {

/// Sequences of forwards and gradients with weight gradients between (Lanes.h).
/// Does nothing where lanes do not apply.
class LaneSearch {
public:
  LaneSearch(const TaskGraph &graph, const std::vector<Bytes> &memory,
             Incumbent &incumbent);

  /// All kinds of waves, then with times aimed at between bound and best.
  void searchWaves();
  /// Blocks on grids, where several stages are on a lane, short periods first,
  /// pushed to and fro.
  void searchGrids();
  /// The same at the cost of a few orders, whatever effort there is: of a few
  /// grids the best is pushed.
  void searchGridsQuickly();
  /// Blocks of every pattern of slack, short periods first.
  void searchBlocks();
  /// Steps from the best block, with a part of what is left.
  void climbBlocks();
  /// Keeps the forwards and gradients of the best order in their order and puts
  /// the weight gradients anew.
  void refill();
  /// Pushes the tasks of the best order to and fro.
  void improveBest(int rounds);
  /// The same with some tasks nudged out of their order, with all that is left.
  void nudge();
  /// The same as refill() for some order, coarsely; what it takes then.
  Cost refillOnce(const Timeline &timeline);
  /// Whether a lane has several stages.
  bool hasRounds() const;
  /// The best block, if any, and trying one that was found elsewhere.
  const std::optional<BlockRules> &getBlock() const { return block; }
  void tryBlock(const BlockRules &rules);

private:
  /// Whether a result is no longer than `least`, which it becomes then.
  bool consider(const std::optional<LaneResult> &result, Cost &least);
  /// The same of what becomes of it by pushing tasks to and fro.
  bool improve(const LaneResult &result, int rounds, Cost &least);
  void nudge(Objective objective, int64_t left, std::mt19937 &random);
  std::vector<std::vector<TaskGraph::Node>>
  getLists(const Solution &order) const;
  /// Appends a sequence of (start, end, task); false if memory cannot hold it.
  bool fill(llvm::ArrayRef<std::tuple<Time, Time, TaskGraph::Node>> sequence,
            const FillRules &rules, Cost &least);
  /// Pushes what is not much longer than the shortest before it was pushed.
  void tryBlock(const Blocks &blocks, const BlockRules &rules, int rounds);
  std::vector<BlockRules> listBlocks(const Blocks &blocks);
  /// Blocks of grids that memory allows, short periods first.
  std::vector<BlockRules> listGrids(const Blocks &blocks);

  const TaskGraph &graph;
  Incumbent &incumbent;
  std::optional<Lanes> lanes;
  std::optional<BlockRules> block;
  /// Of the best block, and the best before pushing.
  Cost blockCost = kWorst, rawCost = kWorst;
};

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_SEARCH_LANESEARCH_H
