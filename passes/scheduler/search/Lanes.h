//===- Lanes.h - Orders from sequences of forwards and gradients ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Where backwards are split, the hard part of an order is that of forwards and
// input gradients, which others wait for. Given it as one sequence, tasks are
// appended to their lanes one after another, each as early as it can start, and
// weight gradients go into the gaps: of those that are long enough always, and
// of shorter ones when the lane may not wait any longer or needs the memory.
// Other than the list scheduler (Greedy.h) a lane knows when what it waits for
// will come. (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section
// 3.1, fills gaps so.)
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_SEARCH_LANES_H
#define PASSES_SCHEDULER_SEARCH_LANES_H

#include "passes/scheduler/core/Footprint.h"

#include <array>
#include <optional>

namespace dt::scheduler {

/// Ranks that run the same tasks, with what they may hold and have to do.
struct Lanes {
  /// Nothing for batch-syncs, bounded slots, and tensor-parallel groups that
  /// share some of their ranks only.
  static std::optional<Lanes> get(const TaskGraph &graph,
                                  const std::vector<Bytes> &memory);

  const TaskGraph *graph = nullptr;
  std::vector<int> laneOf;              ///< by place
  std::vector<std::vector<int>> places; ///< by lane, producers first
  std::vector<Bytes> limit;             ///< by lane
  /// By lane: of the limit, what gradients of inputs leave at least.
  std::vector<Bytes> late;
  std::vector<Time> busy;               ///< by lane
  std::vector<bool> split, hasBackward; ///< by place
  std::vector<int> order;               ///< all places, producers first

  int getNumLanes() const { return int(places.size()); }
  /// Whether memory holds an order. It does by construction but where slots of
  /// several stages of a lane were counted together.
  bool holds(const Solution &solution) const;
};

/// When a gap is filled that is shorter than a weight gradient.
struct FillRules {
  /// Always, though the next task has to wait then.
  bool fillShort = false;
  /// Else a lane may be idle as long as it can still end in this time; 0: as
  /// long as the lane that has been idle most so far.
  Time target = 0;
  /// Time counts from 0 (wall) or from a lane's own first task (span).
  bool wall = false;
};

struct LaneResult {
  std::vector<std::vector<TaskGraph::Node>> lists; ///< by lane
  Time wall = 0, longestSpan = 0;

  Solution getSolution(const Lanes &lanes) const;
};

/// One construction.
class LaneRun {
public:
  LaneRun(const Lanes &lanes, const FillRules &rules);

  /// Appends a place's next task, with weight gradients before it as the rules
  /// says; false if memory cannot hold it or what it needs has no time yet.
  bool append(int place, TaskGraph::Slot slot);
  /// The same without filling gaps or making room.
  bool put(int place, TaskGraph::Slot slot);
  /// Appends the weight gradients that a lane has put off.
  void flush(int lane);
  /// Nothing if a task has not been appended.
  std::optional<LaneResult> finish();

  int getCount(int place, TaskGraph::Slot slot) const {
    return next[place][slot];
  }
  TaskGraph::Node getNext(int place, TaskGraph::Slot slot) const {
    return graph.getNode(place, slot, next[place][slot]);
  }
  Time getTime(int lane) const { return now[lane]; }
  Bytes getHeld(int lane) const { return held[lane]; }
  const Footprint &getFootprint() const { return footprint; }
  /// Idle time that a lane may still have.
  Time getAllowance(int lane) const {
    return (rules.target ? rules.target - lanes.busy[lane] : mostIdle) -
           idle[lane];
  }
  /// Weight gradients that a lane has put off, oldest first.
  llvm::ArrayRef<TaskGraph::Node> getPending(int lane) const {
    return llvm::ArrayRef<TaskGraph::Node>(pending[lane])
        .drop_front(used[lane]);
  }

private:
  void add(int lane, TaskGraph::Node node, Time start, bool split);
  /// Whether memory has no more room.
  bool isFull(int lane, TaskGraph::Node node, bool split) const {
    Bytes change = footprint.peek(node, split);
    return (change > 0 || graph.getSlotOf(node) == TaskGraph::kForward) &&
           held[lane] > lanes.limit[lane] - change;
  }
  void putWeight(int lane);
  Time getArrival(TaskGraph::Node node) const;

  const Lanes &lanes;
  const TaskGraph &graph;
  FillRules rules;
  Footprint footprint;
  std::vector<std::array<int, 2>> next; ///< by place
  std::vector<Time> now, first, idle, end;
  std::vector<Bytes> held;
  std::vector<std::vector<TaskGraph::Node>> pending;
  std::vector<size_t> used;
  Time mostIdle = 0;
  LaneResult result;
};

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_SEARCH_LANES_H
