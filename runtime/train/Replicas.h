//===- Replicas.h - replicas that hold the same parameters ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Replicas of a module begin with the same values and update them alike, so
// they stay equal to the bit. Memory that fails, a program folder that is no
// copy or an error of the compiler makes them part, and losses need not show
// it.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_TRAIN_REPLICAS_H
#define DT_RUNTIME_TRAIN_REPLICAS_H

#include "runtime/step/Trainer.h"

namespace dt::rt {

/// Compares a hash of each module's parameters, as they are stored, and of
/// masters that every replica has whole. Between steps, on all ranks; `step`
/// are done. Throws CommonError, which names the module, the first parameter
/// that differs and ranks.
void expectEqualReplicas(const Trainer &trainer, int64_t step);

} // namespace dt::rt

#endif // DT_RUNTIME_TRAIN_REPLICAS_H
