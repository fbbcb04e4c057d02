//===- RankProcesses.h - how ranks are started and end ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What launchRanks (Launch.h) leaves to the ways in which it can be done.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_RANKPROCESSES_H
#define DT_RUNTIME_COMM_RANKPROCESSES_H

#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace dt::rt {

class RankProcesses {
public:
  /// Kills what has not ended.
  virtual ~RankProcesses() = default;
  /// The parent of all ranks: it names their status board.
  virtual pid_t parent() const = 0;
  /// The status board is there: ranks may run now.
  virtual void begin() = 0;
  /// Looks whether all have ended; does not wait for that. Once they have, what
  /// they have printed is written.
  virtual bool haveEnded() = 0;
  /// Then: what waitpid said of who matters, and who that is ("mpirun").
  virtual int status() const = 0;
  virtual std::string name() const = 0;
  /// Whether an exit code is none that a rank ends with.
  virtual bool isOwnCode(int code) const = 0;
  /// At once; `begun`: ranks may need to be cleaned up after.
  virtual void kill(bool begun) = 0;
  /// Ranks have failed for some time, and there still is no end.
  virtual void giveUp() = 0;
};

/// `command`: the program's path and its arguments. Throw Error. What they put
/// into the environment stays there.
std::unique_ptr<RankProcesses>
startUnderMpirun(std::vector<std::string> command, int ranks);
std::unique_ptr<RankProcesses> startOverTcp(std::vector<std::string> command,
                                            int ranks);

/// For a child that is to become (the parent of) ranks: a process group (0: its
/// own; else that one), no signals that ask to end, no terminal to read, and
/// `death` (0: no signal) when `parent` is gone.
void leaveTerminal(pid_t group, pid_t parent, int death);
/// Replaces this process. Does not return.
[[noreturn]] void become(const std::vector<std::string> &command);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_RANKPROCESSES_H
