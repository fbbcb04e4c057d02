//===- ReorderReport.h - what reordering did in a run -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Imbalance before and after, and what it saved: the schedule's length for the
// given order and for the assigned one, with the task times of the run at hand
// instead of predicted costs.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_REORDERREPORT_H
#define DT_RUNTIME_DATA_REORDERREPORT_H

#include "runtime/data/Assignment.h"

#include <deque>
#include <memory>

namespace dt::rt {

class Sequence;

class ReorderReport {
public:
  explicit ReorderReport(const ProgramInfo &program);
  ~ReorderReport();

  /// After every step.
  void add(const Assignment &assignment);

  /// Predicted time (ns) of all rows of a replica of a module in a step.
  static double predicted(const Assignment &assignment, size_t module,
                          int32_t replica);

  /// Means over the steps added.
  std::vector<Assignment::Balance> balance() const;

  /// Length (ns) of a step's schedule before and after, a mean over the last
  /// steps. `scale`: per module, measured time of its rows over predicted time
  /// (sums over ranks and steps); empty: predicted. Both 0: no schedule.
  struct Lengths {
    double before = 0, after = 0;
  };
  Lengths lengths(const std::vector<double> &scale) const;

  /// One line, e.g. "vision 1.42 -> 1.03, llm 1.10 -> 1.00; step 12.4 -> 10.1
  /// ms". Modules on one replica are left out.
  std::string text(const std::vector<double> &scale) const;

private:
  struct Step {
    Assignment::Loads before, after;
  };
  const ProgramInfo &program;
  std::unique_ptr<Sequence> sequence;
  std::vector<Assignment::Balance> sums;
  int64_t count = 0;
  std::deque<Step> last;
};

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_REORDERREPORT_H
