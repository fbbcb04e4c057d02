//===- CheckpointFolder.h - what lies in a checkpoint folder ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//   step-N            a whole checkpoint: a file a rank, and index.json
//   step-N.tmp        one that is being written, or the rest of a failure
//   step-N.damaged    one that could not be loaded; goes when a newer is whole
//   step-N.newer      one that a run that began again before it has left
//                     behind; goes in the same way
//   best              a link to the step-N with the smallest validation loss
//   lock              held by the run that writes here
// The files are untrusted: an index is believed only as far as it can be
// checked.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_CHECKPOINTFOLDER_H
#define DT_RUNTIME_SAVE_CHECKPOINTFOLDER_H

#include "runtime/base/Files.h"
#include "runtime/comm/Comm.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dt::rt {

/// Bytes of an index.json that are read at most.
constexpr size_t kIndexLimit = 64 << 20;

/// A checkpoint is not what was once written: another one may be good. (What
/// cannot be read for the moment is a SystemError.)
class DamageError : public Error {
public:
  using Error::Error;
};

/// Files that are not there are damage too. Rethrows the rest of the system's
/// errors.
[[noreturn]] void rethrowAsDamage(const SystemError &error);

struct CheckpointIndex {
  int64_t step = 0;
  std::string seed, plan, data;
  std::map<std::string, std::string> files; ///< name -> hash
  nlohmann::json schedule;                  ///< null: an older program's
  /// What was validated at this step: its loss and the hash of its data; null:
  /// nothing.
  nlohmann::json validation;

  /// With a hash of itself.
  std::string text() const;
  /// `step`: what the folder is called for; below 0: anything. `where`: of the
  /// file, for messages. Throws DamageError.
  static CheckpointIndex parse(const std::string &text, int64_t step,
                               const std::string &where);
};

/// Steps of the complete checkpoints in a directory, ascending; none if there
/// is no directory. Throws SystemError.
std::vector<int64_t> checkpointSteps(const std::string &directory);

/// DIR/step-N.
std::string checkpointPath(const std::string &directory, int64_t step);
/// "rank-3.safetensors".
std::string rankFile(int rank, const char *ending = ".safetensors");

/// The N of a folder "…/step-N", or -1.
int64_t stepOfFolder(const std::string &folder);

/// Of DIR/step-N, or, with `step` below 0, of a folder with any name. Throws
/// DamageError or SystemError.
CheckpointIndex readCheckpointIndex(const std::string &folder, int64_t step);

/// Puts DIR/step-N.tmp, which is complete, in its place, also of an older one
/// for the same step. Throws SystemError.
void commitCheckpoint(const std::string &directory, int64_t step);

/// Keeps the `keep` newest, the best and the one of step `also`; those that are
/// set aside go.
void removeOldCheckpoints(const std::string &directory, int64_t keep,
                          int64_t also = -1);
/// Of runs that are over; only with the lock. Returns a line for each
/// checkpoint that stood under another name when a run was killed.
std::vector<std::string> removeUnfinished(const std::string &directory);
/// So that it is not counted among the others, by the name step-N and `ending`
/// (kDamaged, kNewer); only with the lock.
void setAside(const std::string &directory, int64_t step, const char *ending);
inline constexpr const char *kDamaged = ".damaged", *kNewer = ".newer";

/// The step that DIR/best links to; -1: none that is there.
int64_t bestStep(const std::string &directory);
/// Makes DIR/best a link to DIR/step-N, which is there. Throws SystemError.
void markBest(const std::string &directory, int64_t step);

/// Keeps other runs from a folder. Each rank holds a byte of DIR/lock, so the
/// lock is free when the last process of the run has ended, however it ended.
class FolderLock {
public:
  /// All ranks construct it; throws CommonError, which names the process that
  /// has it. Where the file system knows no locks, `warning` says so.
  FolderLock(Comm &comm, const std::string &directory);
  const std::string &warning() const { return problem; }

private:
  void take(const std::string &path);
  void join(const std::string &path, int rank);

  Descriptor file;
  std::string problem;
};

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_CHECKPOINTFOLDER_H
