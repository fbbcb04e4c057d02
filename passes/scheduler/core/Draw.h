//===- Draw.h - Schedules as text -------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_CORE_DRAW_H
#define PASSES_SCHEDULER_CORE_DRAW_H

#include "passes/scheduler/core/Evaluate.h"

#include "llvm/Support/raw_ostream.h"

namespace dt::scheduler {

/// A line of text a rank, at most `columns` wide; a task is its letter, its
/// microbatch as far as there is room, and '-' to its end; idle time is '.'.
/// `print` says a time (default: its number, which has no unit).
void drawText(llvm::raw_ostream &os, const TaskGraph &graph,
              const Solution &solution, const Timeline &timeline,
              llvm::function_ref<std::string(Time)> print = nullptr,
              unsigned columns = 160);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_CORE_DRAW_H
