//===- Status.h - who is doing what, and who has stopped --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A killed rank cannot speak, so every rank writes what it does to a board: a
// file in shared memory that the ranks of one node map, a record a rank, two
// stores a task. A thread of each rank reads it twice a second. If a rank is
// gone before it left, or stands still for too long, exactly one survivor says
// so in one line, and all end. No message is needed for it, so it works
// whatever the network and MPI are doing (docs/faults.md).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STATUS_H
#define DT_RUNTIME_STATUS_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace dt::rt {

/// Exit code of a rank that ends because another one failed.
constexpr int exitAfterFault = 75;

/// The records of the ranks of one node. Ranks of one launch have the same
/// parent (mpirun, orted, slurmstepd), which names the file.
class StatusBoard {
public:
  /// Maps the board of the ranks that have this process's parent, for ranks 0
  /// to `ranks` - 1 of which only those of this node ever write. Throws Error.
  StatusBoard(int rank, int ranks);
  /// As above under a name of its own, for tests.
  StatusBoard(const std::string &name, int rank, int ranks);
  ~StatusBoard();
  StatusBoard(const StatusBoard &) = delete;
  StatusBoard &operator=(const StatusBoard &) = delete;

  /// This rank begins row `row` of step `step`; row -1: between steps.
  void begin(int64_t step, int32_t row);
  /// This rank waits for others (true) or works again.
  void wait(bool waiting);
  /// This rank ends as it should; from now on it may vanish.
  void leave();
  /// True for the first caller on the node: it has the word.
  bool claimReport();
  /// Says the one line, "error: …", if nobody has said one: leaves it to the
  /// launcher that this program started itself with (announceLauncher), which
  /// prints it when mpirun has ended, else prints it.
  void report(const std::string &line);

  int rank() const { return self; }
  int ranks() const { return count; }

  /// What another rank's record says.
  struct Record {
    int pid = 0; ///< 0: never began on this node
    bool left = false, waiting = false;
    int64_t step = 0;
    int32_t row = -1;
    uint64_t progress = 0; ///< changes with every begin and wait
  };
  Record read(int rank) const;

  /// For the launcher: the board of the ranks whose parent is `parent`.
  static std::string nameFor(int parent);
  /// What the launcher is to say of ranks that have ended with an error: the
  /// line that one of them left, else who never began or did not leave. Removes
  /// the board.
  static std::string takeReport(const std::string &name, int ranks);

private:
  struct Cell;
  struct Text;
  Cell *cells() const;
  Text *text() const;
  std::string path;
  void *memory = nullptr;
  size_t bytes = 0;
  int self, count;
};

/// Ranks that are started now know this process as their launcher.
void announceLauncher();
/// Whether a launcher was announced to this rank, and whether it is gone.
bool hasLauncher();
bool isLauncherGone();

/// What a process is found to be: running, stopped by a signal, or gone (also
/// a zombie).
enum class ProcessState { Running, Stopped, Gone };
ProcessState stateOf(int pid);

/// Reads the board in a thread of its own; ends the process by _exit when a
/// rank of the node has failed.
class Watchdog {
public:
  /// `describe(rank, step, row)`: "rank 4 (llm stage 1 replica 0) …, task B 2".
  /// `stall`: seconds without any progress of the rank that the others wait
  /// for.
  using Describe = std::function<std::string(int, int64_t, int32_t)>;
  Watchdog(StatusBoard &board, Describe describe, double stall);
  ~Watchdog();

  /// Ends the process if a rank has failed.
  void check();

private:
  void watch();
  void checkStall();
  [[noreturn]] void fail(int rank, const char *what);

  StatusBoard &board;
  Describe describe;
  double stall;
  int parent;
  std::atomic<bool> stop{false};
  std::vector<uint64_t> lastProgress;
  std::vector<double> lastChange;
  std::thread thread;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STATUS_H
