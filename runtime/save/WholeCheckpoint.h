//===- WholeCheckpoint.h - a checkpoint that can be read --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// All ranks look for a checkpoint together: rank 0 says what there is, each
// looks after the hashes of some files, and damage that any of them finds is
// damage for all.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_WHOLECHECKPOINT_H
#define DT_RUNTIME_SAVE_WHOLECHECKPOINT_H

#include "runtime/save/CheckpointFolder.h"

namespace dt::rt {

/// The same on all ranks.
struct WholeCheckpoint {
  std::string folder;
  CheckpointIndex index;
  std::vector<int64_t> damaged;    ///< newer ones, which are not whole
  std::vector<std::string> damage; ///< why, a line each; the oldest first
  std::vector<int64_t> newer;      ///< than the best, if that was asked for

  /// Paths of the ranks' files.
  std::vector<std::string> files() const;
};

/// The newest in a checkpoint directory. Throws CommonError if there is none,
/// or if a file cannot be read (which is no damage: it may go well next time).
WholeCheckpoint newestCheckpoint(Comm &comm, const std::string &directory);

/// The one with the smallest validation loss. Throws CommonError also if it is
/// damaged.
WholeCheckpoint bestCheckpoint(Comm &comm, const std::string &directory);

/// This one, a folder with index.json of whatever name. Throws CommonError also
/// if it is damaged.
WholeCheckpoint checkpointIn(Comm &comm, const std::string &folder);

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_WHOLECHECKPOINT_H
