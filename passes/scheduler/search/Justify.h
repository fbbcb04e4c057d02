//===- Justify.h - Orders improved by pushing to and fro --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Forward-backward improvement, as known from project scheduling (Valls,
// Ballestin, Quintanilla, "Justification and RCPSP", 2005): all tasks of an
// order are pushed as late as its end allows, the last first; then as early as
// possible, the first first, into gaps too. Either way dependences and memory
// hold, and no task ends later than before, so that the order never gets
// longer. Blocks (Blocks.h) say how the middle of an order repeats; this is
// what makes their beginning and their end short.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_SEARCH_JUSTIFY_H
#define PASSES_SCHEDULER_SEARCH_JUSTIFY_H

#include "passes/scheduler/search/Lanes.h"

namespace dt::scheduler {

/// Tasks that are to be put earlier or later than their place in an order says.
struct Nudge {
  TaskGraph::Slot slot = TaskGraph::kForward;
  /// Of stages that are this one of their lane.
  int round = 0;
  int firstLane = 0, lastLane = 0, firstMicrobatch = 0, lastMicrobatch = 0;
  Time by = 0;
};

class Justify {
public:
  explicit Justify(const Lanes &lanes);

  /// Begins with an order that has all tasks; false if it has not or waits for
  /// itself.
  bool take(const std::vector<std::vector<TaskGraph::Node>> &order);
  /// Pushes all tasks as late, then as early as possible; before either, some
  /// may be nudged. False, with nothing to be had, if the order holds more than
  /// there is, or a nudge makes it do so or wait for itself.
  bool run(const Nudge *late = nullptr, const Nudge *early = nullptr);
  LaneResult getResult() const;

private:
  using Held = TaskGraph::SlotBytes;
  struct Entry {
    Time start, end;
    TaskGraph::Node node;
    Held held; ///< from it to the next
  };
  using Order = std::vector<std::vector<TaskGraph::Node>>; ///< by lane
  /// Calls `put` for all tasks, every lane's in its order, each behind what it
  /// waits for; false if a call is or there is no such order.
  template <typename Put> bool visit(const Order &order, bool back, Put put);
  /// Puts all tasks anew; `back`: time runs backwards.
  bool pass(const Order &order, bool back);
  bool put(TaskGraph::Node node, Time arrival, bool back);
  void shareMemory(const Order &order);
  Held getChange(TaskGraph::Node node, bool split) const;
  /// The last pass's order, the other way round.
  Order getReversed(const Nudge *nudge) const;

  const Lanes &lanes;
  const TaskGraph &graph;
  size_t count = 0;          ///< of tasks
  std::vector<Held> changes; ///< by node
  /// By lane: what may be held. Of slots, as many of each kind as the order had
  /// that it began with, and what that leaves.
  std::vector<Held> most;
  std::vector<Time> end; ///< by node; backwards: from the wall down
  std::vector<std::vector<Entry>> lists;
  Time wall = 0;
};

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_SEARCH_JUSTIFY_H
