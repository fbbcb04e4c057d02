//===- Checkpoint.h - saving and resuming -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A checkpoint is a folder `step-N` in the checkpoint directory:
//   rank-R.safetensors  what rank R owns of the parameters ("module.parameter")
//                       and of the optimizer's state ("exp_avg.<parameter>",
//                       "exp_avg_sq.<parameter>" of AdamW,
//                       "momentum.<parameter>" of SGD), as Pieces.h says
//   index.json          step, seed, plan and data hashes, hash of each file
// All ranks write into `step-N.tmp`; each ends with `rank-R.ok`. Rank 0 waits
// for all of these, writes the index, syncs and renames: a folder without .tmp
// is whole. Writing happens on a thread of its own from a copy of the state.
// A checkpoint can be loaded under any plan of the same program.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_CHECKPOINT_H
#define DT_RUNTIME_CHECKPOINT_H

#include "runtime/Trainer.h"

#include <atomic>
#include <thread>

namespace dt::rt {

class CheckpointWriter {
public:
  /// Keeps the `keep` newest checkpoints.
  CheckpointWriter(const Trainer &trainer, std::string directory, int keep = 2);
  /// Gives up what is not written yet.
  ~CheckpointWriter();

  /// Copies the state after `step` steps and begins to write it; waits for an
  /// earlier one first. All ranks call it. Throws CommonError.
  void save(int64_t step, uint64_t dataHash);
  /// Returns when the last one is there. All ranks call it. Throws CommonError.
  void finish();

private:
  struct Job;
  void write(Job &job);
  void commit(const Job &job);
  void join();

  const Trainer &trainer;
  std::string directory;
  int keep;
  std::thread thread;
  std::atomic<bool> giveUp{false};
  std::string failure; ///< of the thread, once it has ended
};

/// Saves and waits.
void saveCheckpoint(const Trainer &trainer, const std::string &directory,
                    int64_t step, uint64_t dataHash, int keep = 2);

/// Loads the newest checkpoint and returns its number of steps. Throws Error if
/// there is none, if the newest is damaged, or if it belongs to another
/// program, seed or data. Speaks with no other rank.
int64_t loadCheckpoint(Trainer &trainer, const std::string &directory,
                       uint64_t dataHash);

/// Throws Error if the directory has checkpoints: steps of another run would
/// pass for this one's.
void expectNoCheckpoints(const std::string &directory);

} // namespace dt::rt

#endif // DT_RUNTIME_CHECKPOINT_H
