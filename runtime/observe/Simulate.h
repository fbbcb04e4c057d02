//===- Simulate.h - a step from the times of its tasks ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a step should take if every task took the processor time that it was
// seen to take: rows in each rank's order, waiting only for messages and for
// the other ranks of a tensor-parallel group, on a machine whose ranks share
// cores. The difference to the measured step is what communication, the
// operating system and memory cost. Pure; also used with invented times, to say
// what another order of microbatches would have given.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_SIMULATE_H
#define DT_RUNTIME_OBSERVE_SIMULATE_H

#include "runtime/Program.h"

#include <functional>
#include <vector>

namespace dt::rt {

/// Of one rank in one step, by row.
struct RowTimes {
  /// Processor time of each of the rank's rows, without collectives.
  std::vector<double> seconds;
  /// Of the collectives in each row; of ranks that do a row together the
  /// smallest counts. Empty: nothing.
  std::vector<double> collectives;
  double tail = 0; ///< outside of rows: sums of gradients, norm, optimizer
};

struct SimulatedStep {
  double seconds = 0;              ///< to the end of the last rank
  std::vector<double> busy;        ///< per rank: time at work, if it had a core
  std::vector<double> waiting;     ///< per rank: rows could not begin
  std::vector<double> collectives; ///< per rank: time in them, part of `busy`
  /// Per rank and row: begin and end.
  std::vector<std::vector<std::pair<double, double>>> spans;
  /// Share of the ranks' time in which they wait.
  double bubble() const;
};

/// `exists(row, rank)`: a Send row of that rank has something to send in this
/// step. `cores`: of the node that all ranks share; 0: a core each. Throws
/// Error if rows wait for one another.
SimulatedStep
simulateRows(const ProgramInfo &program, const std::vector<RowTimes> &times,
             const std::function<bool(const TaskRow &, int)> &exists,
             int cores);

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_SIMULATE_H
