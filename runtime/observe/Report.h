//===- Report.h - what a run was beside what it should have been ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// After a run: the measured step, bubble and imbalance, beside the step that
// the schedule gives if each task takes the processor time it took in this very
// run (times of another run mean little: clocks drift). Even steps give the
// task times, odd steps the walls that they are compared with. Also what
// reordering saved: the same step simulated with the items as they came; and
// the memory that ranks have.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_REPORT_H
#define DT_RUNTIME_OBSERVE_REPORT_H

#include "runtime/comm/Comm.h"
#include "runtime/data/BatchSource.h"
#include "runtime/observe/Simulate.h"
#include "runtime/step/Trainer.h"

#include <string>
#include <vector>

namespace dt::rt {

/// What one rank saw in one step; vectors are by the rank's rows.
struct StepTimes {
  std::vector<double> cpu; ///< processor seconds, without those spent waiting
  /// By row: processor seconds of its collectives, polling included.
  std::vector<std::vector<float>> collectives;
  std::vector<uint64_t> sent; ///< bytes that a Send row handed over
  double tail = 0;     ///< processor seconds outside rows, without waiting
  double exchange = 0; ///< in sums of gradients, polling included
  double waited = 0;   ///< seconds in calls that wait for other ranks
  double wall = 0;     ///< seconds
};

class RunReport {
public:
  /// `polls`: processor time of waiting is partly no work (Blocking).
  RunReport(const Trainer &trainer, bool polls)
      : trainer(trainer), program(trainer.program()),
        rank(trainer.comm().rank()), regions(trainer.regions()), polls(polls) {}

  /// The first steps do not count: primitives are made, memory is touched.
  void step(int64_t step, const StepTimes &times, const Batch &batch);

  /// On all ranks together. Rank 0 gets the text (of too few steps: that there
  /// is no `json`, if one was asked for) and writes `json` unless it is empty.
  /// Throws Error.
  std::string finish(Comm &comm, const std::string &json);

private:
  /// Least squares of seconds over predicted work, by module and kind of row.
  struct Fit {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    void add(double work, double seconds);
    void add(const Fit &other);
    double at(double work) const;
  };
  using Fits = std::vector<Fit>; ///< [module * kComputeKinds + kind]
  Fit *fitOf(Fits &fits, const TaskRow &row) const;
  const PartItems *partOf(const Assignment &assignment, const TaskRow &row,
                          int rank) const;
  double workOf(const Assignment &assignment, const TaskRow &row,
                int rank) const;
  size_t itemsOf(const Assignment &assignment, const TaskRow &row,
                 int rank) const;
  std::string pack() const;
  /// What the tasks of all ranks took, for dt-opt --times.
  nlohmann::json tasksOf(const std::vector<RowTimes> &times) const;
  double collectiveOf(const std::vector<float> &values) const;
  /// The sums of gradients that rank `r` takes part in, from what each rank's
  /// own took with waiting.
  std::vector<double> exchangeOf(const std::vector<double> &took) const;
  SimulatedStep simulate(const std::vector<RowTimes> &times, int cores) const;
  /// No order of items makes the step shorter: the work of a module's ranks
  /// shared out evenly, that of all ranks on the cores.
  double boundOf(const SimulatedStep &step, int cores) const;
  SimulatedStep simulateAs(const Assignment &assignment, Fits &fits,
                           const std::vector<RowTimes> &times, int cores) const;

  const Trainer &trainer;
  const ProgramInfo &program;
  int rank;
  const Regions &regions;
  bool polls;
  int64_t counted = 0;
  std::vector<std::vector<float>> cpu; ///< by row: even steps
  std::vector<std::vector<std::vector<float>>> collectives; ///< by row, call
  std::vector<float> tails, exchanges;
  std::vector<double> walls, waits; ///< odd steps
  std::vector<int64_t> sentIn;      ///< by row: steps in which bytes were sent
  Fits fits;
  std::vector<Assignment::Balance> balance; ///< sums over steps
  Assignment last, lastPlain; ///< of the last step, and with Reorder::None
  std::vector<std::vector<int64_t>> allSent; ///< by rank, after gathering
};

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_REPORT_H
