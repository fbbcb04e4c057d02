//===- TrainLoop.h - steps of one run, and what they leave ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_TRAIN_TRAINLOOP_H
#define DT_RUNTIME_TRAIN_TRAINLOOP_H

#include "runtime/train/Train.h"

#include <string>

namespace dt::rt {

class Validation;

struct LoopEnd {
  int64_t step; ///< how many are done
  /// What went wrong and does not keep the weights from being exported; the
  /// same on all ranks.
  std::string lateFailure;
};

/// Steps `first` to `total`, with validation (may be null), checkpoints,
/// metrics and hooks. Throws CommonError; what was saved until then is
/// complete.
LoopEnd runLoop(Trainer &trainer, BatchSource &source, Validation *validation,
                const Options &options, const TrainHooks &hooks,
                StatusBoard *board, int64_t first, int64_t total);

} // namespace dt::rt

#endif // DT_RUNTIME_TRAIN_TRAINLOOP_H
