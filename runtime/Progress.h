//===- Progress.h - what a running program shows and records ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_PROGRESS_H
#define DT_RUNTIME_PROGRESS_H

#include "runtime/Files.h"
#include "runtime/Trainer.h"

#include <cstdio>

namespace dt::rt {

/// Whether what is printed gets to a terminal, also through mpirun.
bool printsToTerminal();

/// A bar on a terminal; elsewhere a line at the first and last step and every
/// `every` seconds.
class Progress {
public:
  Progress(const ProgramInfo &program, int64_t first, int64_t total,
           double every);
  void step(int64_t step, const StepResult &result);
  /// Ends the bar's line, so that other output can follow.
  void finish();

private:
  std::string text(int64_t step, const StepResult &result, double time) const;

  const ProgramInfo &program;
  int64_t first, total;
  double every, start, last = -1e9;
  double recentTime; ///< begin of the window for the speed
  int64_t recentStep;
  bool terminal, open = false;
};

/// --metrics: one JSON object a step: step (of steps done), loss, a field a
/// term, lr, grad_norm, seconds, samples_per_second, and milliseconds a module.
class Metrics {
public:
  /// An empty path: nothing is written. Of what the file has, lines of steps up
  /// to `first` stay (a resumed run; 0: a new one): a run that was killed has
  /// written steps that are done again, maybe half a line. Until these lines
  /// are safe in a new file the old one stays as it is. Throws SystemError.
  Metrics(const std::string &path, int64_t first);
  void step(const ProgramInfo &program, int64_t step, const StepResult &result,
            double seconds, const std::vector<double> &moduleSeconds);
  /// Why a line could not be written; none is written after it.
  const std::string &failure() const { return file.failure(); }

private:
  FileWriter file;
};

} // namespace dt::rt

#endif // DT_RUNTIME_PROGRESS_H
