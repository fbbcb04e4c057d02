//===- Bound.h - Times that no order goes below -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_SEARCH_BOUND_H
#define PASSES_SCHEDULER_SEARCH_BOUND_H

#include "passes/scheduler/core/Schedule.h"

namespace dt::scheduler {

/// A time that no order within `memory` (bytes per rank; empty: no bound) goes
/// below: a rank's work, for wall time behind the first microbatch's way to it,
/// and the idle time that memory forces on it.
Time getLowerBound(const TaskGraph &graph, const std::vector<Bytes> &memory,
                   Objective objective);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_SEARCH_BOUND_H
