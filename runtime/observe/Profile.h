//===- Profile.h - how long tasks take --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A program measures its own tasks: steps on made-up parts of several sizes,
// and of every forward and backward the processor time of its thread, the
// collectives inside apart. tools/dt-profile makes a planner's profile of it
// (docs/planning.md); a program whose stages are single layers gives times of
// layers.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_PROFILE_H
#define DT_RUNTIME_OBSERVE_PROFILE_H

#include "runtime/step/Trainer.h"

#include <string>
#include <vector>

namespace dt::rt {

/// All ranks together; rank 0 writes `file` and says what it does. `samples`:
/// of a microbatch, ascending, at most what the program was compiled for; of
/// each with as many items as a sample may have, of the first also with one of
/// each kind. Parameters are trained meanwhile. Throws Error, or CommonError
/// where all ranks do.
void writeProfile(const ProgramInfo &program, const Trainer::Settings &settings,
                  const std::string &weights, Comm &comm,
                  const std::vector<int64_t> &samples, const std::string &file);

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_PROFILE_H
