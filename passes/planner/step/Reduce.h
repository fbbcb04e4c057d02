//===- Reduce.h - Gradients summed over replicas ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_STEP_REDUCE_H
#define PASSES_PLANNER_STEP_REDUCE_H

#include "passes/planner/step/Engine.h"

namespace dt::planner {

/// Tasks of every rank in their order.
using TaskLists = std::vector<std::vector<scheduler::TaskGraph::Node>>;

/// When reductions begin and end, from when tasks do: a rank sums its gradients
/// in the order in which they are complete. `simulation.reduced` has been each
/// rank's last task.
void sumGradients(const scheduler::TaskGraph &graph, const TaskLists &lists,
                  llvm::ArrayRef<GradientReduction> reductions,
                  Simulation &simulation);

} // namespace dt::planner

#endif // PASSES_PLANNER_STEP_REDUCE_H
