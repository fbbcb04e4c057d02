//===- Evaluate.h - When everything happens ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Runs a solution: every task starts as soon as its ranks are free, in their
// order, and what it waits for has arrived. Exact: a longest path.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_CORE_EVALUATE_H
#define PASSES_SCHEDULER_CORE_EVALUATE_H

#include "passes/scheduler/core/TaskGraph.h"

namespace dt::scheduler {

struct Timeline {
  /// By node of the graph; tasks that are not in the solution have start -1.
  std::vector<Time> start, end;
  /// Per rank. Span: own first start to own last end (0 without tasks).
  std::vector<Time> busy, span;
  /// Per rank: most bytes of activations held at once.
  std::vector<Bytes> peak;
  /// End of everything, from 0, and the longest span.
  Time wall = 0, longestSpan = 0;

  /// Share of all ranks' time until `wall` in which they do nothing. This is
  /// what a step with a barrier at its end costs.
  double getWallBubble() const;
  /// As the zero-bubble papers count: idle share of the longest span, which is
  /// what a step costs if the next one starts without a barrier.
  double getSpanBubble() const;
};

/// Error if a task is missing, there twice, on a wrong rank, both split and
/// not, or if the lists wait for one another (names a cycle).
llvm::Expected<Timeline> evaluate(const TaskGraph &graph,
                                  const Solution &solution);

/// Bytes held by a rank over time: (time, bytes from then on), times ascending.
std::vector<std::pair<Time, Bytes>> getMemoryCurve(const TaskGraph &graph,
                                                   const Solution &solution,
                                                   const Timeline &timeline,
                                                   int rank);

/// The most bytes that each rank holds at once.
std::vector<Bytes> getMostHeld(const TaskGraph &graph,
                               const Solution &solution);

/// Error naming the rank, task and bytes where a rank holds more than the
/// problem allows, or a stage more microbatches than it has slots.
llvm::Error checkMemory(const TaskGraph &graph, const Solution &solution);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_CORE_EVALUATE_H
