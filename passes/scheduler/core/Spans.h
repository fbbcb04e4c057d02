//===- Spans.h - Tasks that serve several microbatches ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_CORE_SPANS_H
#define PASSES_SCHEDULER_CORE_SPANS_H

#include "passes/scheduler/core/Problem.h"

namespace dt::scheduler {

/// Whether a task of some unit serves several microbatches.
bool hasSpans(const Problem &problem);

/// The problem with a task for every microbatch, each with its share of the
/// times and bytes of the one that serves it.
Problem withoutSpans(const Problem &problem);

/// Makes tasks of `problem` of the order of single microbatches (of
/// withoutSpans()): a forward where the first of its microbatches is, a
/// backward where the last is. What it needs comes before it then, as its
/// producers have spans that are multiples of its own.
void joinTasks(const Problem &problem, Solution &solution);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_CORE_SPANS_H
