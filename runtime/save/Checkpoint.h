//===- Checkpoint.h - saving and resuming -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A checkpoint is a folder `step-N` in the checkpoint directory:
//   rank-R.safetensors  what rank R owns of the parameters ("module.parameter")
//                       and of the optimizer's moments, by their names in
//                       Optimizers.h ("exp_avg.<parameter>"), as Pieces.h says
//   index.json          step, seed, schedule, plan and data hashes, hash of
//                       each file
// All ranks write into `step-N.tmp`; each ends with `rank-R.ok`. Rank 0 waits
// for all of these, writes the index, syncs and renames: a folder without .tmp
// is whole. Writing happens on a thread of its own from a copy of the state in
// host memory, while training goes on; where that memory has a limit, the next
// update waits until what there was no room for is copied and written, and
// where there is none, training waits while the part is written. A checkpoint
// can be loaded under any plan of the same program.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_CHECKPOINT_H
#define DT_RUNTIME_SAVE_CHECKPOINT_H

#include "runtime/step/Trainer.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace dt::rt {

/// In front of a parameter's name: its average (OptimizerInfo::averageDecay).
inline constexpr char kAverage[] = "ema";

/// What a checkpoint remembers beside the state.
struct CheckpointFacts {
  uint64_t dataHash = 0;
  nlohmann::json validation; ///< as CheckpointIndex has it
  bool best = false;         ///< of all that were validated
};

constexpr int64_t kKept = 2; ///< checkpoints, unless somebody says otherwise

class CheckpointWriter {
public:
  /// Keeps the `keep` newest checkpoints, the best, and the one of step
  /// `resumed`. Copies take `memory` bytes of host memory at most.
  CheckpointWriter(const Trainer &trainer, std::string directory,
                   int64_t keep = kKept, int64_t resumed = -1,
                   size_t memory = SIZE_MAX);
  /// Gives up what is not written yet.
  ~CheckpointWriter();

  /// Begins to copy the state after `step` steps and to write it; settles an
  /// earlier one first. All ranks call it. Throws CommonError. A state of which
  /// a trained parameter is not finite is never saved: that is a failure of
  /// writing.
  void save(int64_t step, const CheckpointFacts &facts);
  /// Whether this rank knows that what is being written has failed; to be asked
  /// between steps.
  bool failed() const { return hasFailed; }
  /// Returns when the last one is there, or empty. All ranks call it and get
  /// the same: why it could not be written. What there is of it is removed.
  std::string settle();
  /// The same; throws CommonError.
  void finish();
  /// The most host memory that copies have had at a time.
  size_t mostBytes() const { return copies.mostBytes(); }

private:
  struct Job;
  void run(Job &job);
  void writePart(Job &job);
  void write(Job &job);
  void commit(const Job &job);
  void note(const std::string &what);

  const Trainer &trainer;
  std::string directory;
  int64_t keep, resumed;
  std::shared_ptr<Job>
      job; ///< what is being written; null on all ranks or none
  device::Snapshot copies;
  bool saidThatItWaits = false; ///< for want of memory
  std::thread thread;
  std::atomic<bool> giveUp{false}, hasFailed{false};
  std::mutex mutex;
  std::condition_variable done;
  bool partDone = false; ///< this rank's part is written, or has failed
  std::string failure;
};

/// Saves and waits.
void saveCheckpoint(const Trainer &trainer, const std::string &directory,
                    int64_t step, uint64_t dataHash, int64_t keep = kKept);

/// What was loaded, the same on all ranks.
struct LoadedCheckpoint {
  int64_t step = 0;
  std::vector<int64_t> damaged; ///< newer ones, which could not be loaded
  std::vector<int64_t> newer;   ///< than the best, if that was asked for
  /// A line each: why, and what of the schedule differs from the program's.
  std::vector<std::string> warnings;
};

/// Loads the newest checkpoint that is whole, or the best. All ranks call it.
/// Throws CommonError if there is none, if a file cannot be read (which is no
/// damage: it may go well next time), or if it belongs to another program, seed
/// or data (`dataHash` 0: nobody asks; `otherData`: a warning says so).
LoadedCheckpoint resumeCheckpoint(Trainer &trainer,
                                  const std::string &directory,
                                  uint64_t dataHash, bool otherData = false,
                                  bool best = false);
/// Takes the checkpoints that the loaded one was preferred to out of the way of
/// those to come; only with the lock. All ranks call it; throws CommonError.
void setAsideOthers(Comm &comm, const std::string &directory,
                    const LoadedCheckpoint &loaded);
/// Returns the step only.
int64_t loadCheckpoint(Trainer &trainer, const std::string &directory,
                       uint64_t dataHash);

/// Throws Error if the directory has checkpoints: steps of another run would
/// pass for this one's.
void expectNoCheckpoints(const std::string &directory);
/// Throws Error if it has none, or if it is not there.
void expectCheckpoints(const std::string &directory);

/// What a rank has of all trained parameters: throws Error, which names one, if
/// a value is not finite. `step`: steps done, for the message.
void expectFinite(const Trainer &trainer, int64_t step);

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_CHECKPOINT_H
