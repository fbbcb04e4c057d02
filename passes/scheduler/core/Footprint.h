//===- Footprint.h - Bytes that ranks need for an order ---------*- C++ -*-===//
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_CORE_FOOTPRINT_H
#define PASSES_SCHEDULER_CORE_FOOTPRINT_H

#include "passes/scheduler/core/TaskGraph.h"

namespace dt::scheduler {

/// Bytes that places need as their tasks run one after another. Programs have
/// slots of three kinds for every stage of a rank (runtime/Enums.h, SlotKind),
/// as many of each as are in use at once: a slot that is free serves the same
/// stage again, so what a place needs only grows, from one slot of each kind.
/// Where a problem does not say what gradients of inputs make (Stage::late),
/// bytes that are held add up, and are given back.
class Footprint {
public:
  explicit Footprint(const TaskGraph &graph);

  /// Before the first task of these places.
  Bytes begin(llvm::ArrayRef<int> places);
  /// What running a task adds; `split`: of a gradient, weights come later.
  Bytes peek(TaskGraph::Node node, bool split) const;
  /// The same, and runs it.
  Bytes run(TaskGraph::Node node, bool split);

private:
  struct Slots {
    TaskGraph::SlotBytes held, most, least;
  };
  const TaskGraph *graph;
  std::vector<Slots> places; ///< nothing where bytes add up
};

/// Of a rank, by stage, with its order of tasks. `footprint` is the graph's.
std::vector<Bytes> getFootprints(const TaskGraph &graph, Footprint &footprint,
                                 int rank, llvm::ArrayRef<Task> tasks);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_CORE_FOOTPRINT_H
