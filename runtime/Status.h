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
  /// True for the first caller on the node: it may print the one line.
  bool claimReport();

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

private:
  struct Cell;
  Cell *cells() const;
  std::string path;
  void *memory = nullptr;
  size_t bytes = 0;
  int self, count;
};

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

private:
  void watch();
  void check();
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
