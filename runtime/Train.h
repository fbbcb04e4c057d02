//===- Train.h - the training loop ------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What stands between the command line and Trainer::step. A program that wants
// to do something of its own during training (evaluate, draw) calls runTraining
// with a hook.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_TRAIN_H
#define DT_RUNTIME_TRAIN_H

#include "runtime/Options.h"
#include "runtime/Trainer.h"

#include <functional>

namespace dt::rt {

/// Called after each step with the number of steps done.
struct TrainHooks {
  std::function<void(Trainer &trainer, int64_t step, const StepResult &result)>
      afterStep;
};

/// Everything that the flags ask for. Returns the number of steps done; throws
/// Error.
int64_t runTraining(const ProgramInfo &program, const std::string &directory,
                    const Options &options, const TrainHooks &hooks = {});

/// As trainMain (Program.h) with hooks.
int trainMain(const ProgramInfo &program, const char *directory, int argc,
              char **argv, const TrainHooks &hooks);

} // namespace dt::rt

#endif // DT_RUNTIME_TRAIN_H
