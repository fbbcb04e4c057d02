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

/// When a NIC or an uplink is taken: by messages first, then by sums.
class Taken {
public:
  /// From a time on that is not before that of any other.
  void add(Time begin, Time end);
  /// Takes as much time as asked for of what is left from `begin` on; when that
  /// is over.
  Time fill(Time begin, Time time);

private:
  std::vector<std::pair<Time, Time>> intervals; ///< ascending
};

/// When reductions begin and end, from when tasks do: a rank sums its gradients
/// in the order in which they are complete, on what messages and earlier sums
/// leave of links. `simulation.reduced` has been each rank's last task.
void sumGradients(const scheduler::TaskGraph &graph, const TaskLists &lists,
                  llvm::ArrayRef<GradientReduction> reductions,
                  std::vector<Taken> &links, Simulation &simulation);

} // namespace dt::planner

#endif // PASSES_PLANNER_STEP_REDUCE_H
