//===- Recorder.h - what is kept of a run -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Watches every row of every step and passes it on: to the status board, the
// trace, the report, the dumps of the first step, the times of modules.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_RECORDER_H
#define DT_RUNTIME_OBSERVE_RECORDER_H

#include "runtime/base/Options.h"
#include "runtime/comm/Status.h"
#include "runtime/observe/Report.h"
#include "runtime/observe/Trace.h"
#include "runtime/observe/Traffic.h"
#include "runtime/save/Outputs.h"

#include <memory>
#include <string>
#include <vector>

namespace dt::rt {

class Recorder final : public StepObserver {
public:
  /// `times`: somebody reads times(). `board` may be null.
  Recorder(const Trainer &trainer, const Options &options, StatusBoard *board,
           bool times);

  void beginStep(const Batch &batch, int64_t step, bool dump);
  /// All ranks call it. `begin` and `end` of the step, with its batch; `cpu`:
  /// processor seconds of this thread in between.
  void endStep(const Batch &batch, const StepResult &result, double begin,
               double end, double cpu);
  /// All ranks call it; returns the report's text on rank 0.
  std::string finish();

  bool wantsTimes() const override;
  void enters(int32_t row, bool waiting) override;
  void rowDone(int32_t number, const TaskRow &row, const Part *part) override;
  void rowTimed(int32_t number, const TaskRow &row, const Part *part,
                const RowTime &time) override;
  void gradientsDone(const StepResult &result) override;
  void reduced(size_t module, size_t bytes, double begin, double end) override;
  void exchanged(double cpu) override;

  /// Seconds of the last step per module, of its slowest rank.
  const std::vector<double> &times() const { return moduleSeconds; }

private:
  void takeSlowest();

  const Trainer &trainer;
  const Options &options;
  StatusBoard *board;
  bool wanted;
  bool reports;
  Trace trace;
  TrafficReport traffic;
  RunReport report;
  StepTimes stepTimes;
  Blocking before; ///< the step
  std::vector<double> moduleSeconds;
  std::unique_ptr<OutputCollector> outputs;
  bool gradients = false;
  int64_t step = 0;
};

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_RECORDER_H
