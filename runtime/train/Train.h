//===- Train.h - the training loop ------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What stands between the command line and Trainer::step. A program that wants
// to do something of its own during training (evaluate, draw) calls runTraining
// with a hook.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_TRAIN_TRAIN_H
#define DT_RUNTIME_TRAIN_TRAIN_H

#include "runtime/base/Options.h"
#include "runtime/step/Trainer.h"

#include <functional>

namespace dt::rt {

class StatusBoard;

/// What a hook learns of a step.
struct StepReport {
  int64_t step = 0, total = 0;        ///< steps done, and to be done
  const StepResult *result = nullptr; ///< null if no step was done
  double seconds = 0; ///< of the step, with waiting for its batch
  const std::vector<double> *moduleSeconds =
      nullptr; ///< per module, forward and backward, of its slowest rank
};

/// Called on all ranks. Their time counts neither as a step's nor as any
/// module's.
struct TrainHooks {
  /// Before each step: whether this rank wants all ranks to do something
  /// together after it; StepResult::pause in `afterStep` says on all of them
  /// whether any did (by a clock only one can decide).
  std::function<bool()> wants;
  /// The state is set up, no step is done.
  std::function<void(Trainer &trainer)> beforeTraining;
  std::function<void(Trainer &trainer, const StepReport &report)> afterStep;
  /// Before --export; also after Ctrl-C.
  std::function<void(Trainer &trainer, const StepReport &report)> afterTraining;
};

/// Programs of their own call this first in main(): starts the program anew
/// with settings of the OpenMP library that it reads before main(). Does
/// nothing where the user has set any of them.
void restartWithWaitPolicy(char **argv);

/// Everything that the flags ask for, on all ranks of `comm`. `board`: learns
/// what this rank does; may be null. Returns the number of steps done; throws
/// Error, or CommonError where all ranks do.
int64_t runTraining(const ProgramInfo &program, const std::string &directory,
                    const Options &options, Comm &comm,
                    const TrainHooks &hooks = {}, StatusBoard *board = nullptr);

/// Throws Error for flags that would fail only after as many processes or
/// threads have begun. Before launchRanks.
void expectPossible(const ProgramInfo &program, const Options &options);

/// As trainMain (Program.h) with hooks.
int trainMain(const ProgramInfo &program, const char *directory, int argc,
              char **argv, const TrainHooks &hooks);

} // namespace dt::rt

#endif // DT_RUNTIME_TRAIN_TRAIN_H
