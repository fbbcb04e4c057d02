//===- Progress.h - what a running program shows and records ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_PROGRESS_H
#define DT_RUNTIME_OBSERVE_PROGRESS_H

#include "runtime/step/Trainer.h"
#include "runtime/step/Validation.h"

namespace dt::rt {

/// Whether what is printed gets to a terminal, also through mpirun.
bool printsToTerminal();

/// A bar on a terminal; elsewhere a line at the first and last step and every
/// `every` seconds.
class Progress {
public:
  Progress(const ProgramInfo &program, int64_t first, int64_t total,
           double every);
  /// Called for every step, with its batch.
  void step(int64_t step, const StepResult &result, const Batch &batch);
  /// A line of its own; after finish().
  void validation(int64_t step, const ValidationResult &result,
                  bool best) const;
  /// Steps after `step` are done again.
  void goBack(int64_t step);
  /// Ends the bar's line, so that other output can follow.
  void finish();

private:
  /// What is added up from the begin of the window for the speed.
  struct Window {
    double time = 0;
    int64_t step = 0;
    double samples = 0, tokens = 0, flops = 0;
  };
  std::string text(int64_t step, const StepResult &result, double utilisation,
                   double time) const;
  std::string speeds(double seconds) const;

  const ProgramInfo &program;
  double peak; ///< FLOP/s of all devices; 0: not known
  int64_t first, total;
  double every, start, last = -1e9;
  Window recent;
  bool terminal, open = false;
};

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_PROGRESS_H
