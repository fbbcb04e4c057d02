//===- Progress.h - what a running program shows and records ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_PROGRESS_H
#define DT_RUNTIME_OBSERVE_PROGRESS_H

#include "runtime/step/Trainer.h"

namespace dt::rt {

/// Whether what is printed gets to a terminal, also through mpirun.
bool printsToTerminal();

/// A bar on a terminal; elsewhere a line at the first and last step and every
/// `every` seconds.
class Progress {
public:
  Progress(const ProgramInfo &program, int64_t first, int64_t total,
           double every);
  /// `samples`, `utilisation`: of the step's Batch. Called for every step.
  void step(int64_t step, const StepResult &result, int64_t samples,
            double utilisation);
  /// A line of its own; after finish().
  void validation(int64_t step, double loss, const std::vector<double> &terms,
                  bool best) const;
  /// Steps after `step` are done again.
  void goBack(int64_t step);
  /// Ends the bar's line, so that other output can follow.
  void finish();

private:
  std::string text(int64_t step, const StepResult &result, double utilisation,
                   double time) const;

  const ProgramInfo &program;
  int64_t first, total;
  double every, start, last = -1e9;
  double recentTime; ///< begin of the window for the speed
  int64_t recentStep, recentSamples = 0;
  bool terminal, open = false;
};

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_PROGRESS_H
