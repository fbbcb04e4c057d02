//===- ZeroBubbleSearch.h - Zero-bubble orders by search --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Splitting the backward leaves freedom that no closed order uses well under a
// memory limit and unequal times. Three families of orders are searched, each
// with few numbers to choose, and the best is taken:
// - waves (Waves.h), where ranks have one stage;
// - blocks that repeat (Blocks.h): slack on the hops of a microbatch;
// - list schedules (Greedy.h): how many microbatches each stage keeps between
//   forward and backward (its level), and how tight a gap a weight gradient may
//   fill. First a grid in which levels grow linearly from the last stage to the
//   first, then steps that raise or lower those of a few neighbouring stages.
// The forwards and gradients of the best order then keep their order, and the
// weight gradients are put anew. The search ends at a lower bound (Bound.h).
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_SEARCH_ZEROBUBBLESEARCH_H
#define PASSES_SCHEDULER_SEARCH_ZEROBUBBLESEARCH_H

#include "passes/scheduler/core/Schedule.h"

namespace dt::scheduler {

/// The best order found within `memory` (bytes per rank; empty: no bound).
/// Errors if not even one microbatch fits.
llvm::Expected<Solution> searchZeroBubble(const TaskGraph &graph,
                                          const std::vector<Bytes> &memory,
                                          const SolveOptions &options);

/// Bytes that `factor`/16 times the activations of 1F1B take on the rank where
/// they are most, for every rank, but no more than the problem allows.
std::vector<Bytes> getRelativeMemory(const TaskGraph &graph, int factor);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_SEARCH_ZEROBUBBLESEARCH_H
