//===- Checkpoint.h - saving and resuming -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A checkpoint is a folder `step-N` in the checkpoint directory:
//   weights.safetensors    parameters, "module.parameter"
//   optimizer.safetensors  "exp_avg.<parameter>", "exp_avg_sq.<parameter>"
//   (AdamW), "momentum.<parameter>" (SGD) index.json             step, seed,
//   plan and data hashes, size and hash of each file
// It is written as `step-N.tmp`, synced and renamed, so a folder without .tmp
// is whole; reading takes the newest whose files are as the index says.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_CHECKPOINT_H
#define DT_RUNTIME_CHECKPOINT_H

#include "runtime/Trainer.h"

namespace dt::rt {

/// Saves the state after `step` steps; keeps the `keep` newest checkpoints.
/// Throws Error.
void saveCheckpoint(const Trainer &trainer, const std::string &directory,
                    int64_t step, uint64_t dataHash, int keep = 2);

/// Loads the newest checkpoint and returns its number of steps. Throws Error if
/// there is none, if the newest is damaged, or if it belongs to another
/// program, seed or data.
int64_t loadCheckpoint(Trainer &trainer, const std::string &directory,
                       uint64_t dataHash);

/// Throws Error if the directory has checkpoints: steps of another run would
/// pass for this one's.
void expectNoCheckpoints(const std::string &directory);

} // namespace dt::rt

#endif // DT_RUNTIME_CHECKPOINT_H
