//===- Slots.h - Where a microbatch's residuals are -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_CORE_SLOTS_H
#define PASSES_SCHEDULER_CORE_SLOTS_H

#include "passes/scheduler/core/TaskGraph.h"

namespace dt::scheduler {

/// A slot for every task of a rank's list, -1 for other steps, batch-syncs and
/// stages without a backward. A microbatch of a stage has one slot from its
/// forward to its last backward task. The lowest free one is taken, so there
/// are as many as microbatches in flight.
std::vector<int> assignSlots(const TaskGraph &graph,
                             const std::vector<Instruction> &program);

/// Error if two microbatches of a stage are in one slot at once, if tasks of
/// one are in different slots, or if a slot is not below the stage's bound. -1
/// where none is given.
llvm::Error checkSlots(const TaskGraph &graph,
                       const std::vector<Instruction> &program,
                       const std::vector<int> &slots);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_CORE_SLOTS_H
