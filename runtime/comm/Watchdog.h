//===- Watchdog.h - a rank that has failed is named -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A thread of every rank that reads the status board five times a second. If a
// rank is gone before it left, or nothing moves on for too long, exactly one
// survivor says so in one line, and all end. Who waits is not blamed: waits are
// followed from rank to rank, and who stands at the end is named.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_WATCHDOG_H
#define DT_RUNTIME_COMM_WATCHDOG_H

#include "runtime/comm/Status.h"

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dt::rt {

/// Ends the process by _exit when a rank of the node has failed. Also hands on
/// that a process was asked to end (Stop.h) to all ranks of the node.
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
  /// The ranks of a group, for collectives.
  void addGroup(int number, const std::vector<int> &ranks);

private:
  /// What this process has seen of a rank.
  struct Seen {
    uint64_t progress = 0;
    double changed = 0, runs = 0; ///< last time it moved on; was not stopped
    double sampled = 0;           ///< when `time` was; 0: not since `changed`
    ThreadTime time;
  };
  /// Whose waiting leads nowhere, and why.
  struct Verdict {
    int rank = -1;
    std::string what;
  };

  void watch();
  void handOn();
  void lookAnew();
  void look();
  void checkOwnFiles();
  void checkStopped();
  void checkStall();
  std::vector<int> awaitedBy(int rank, const StatusBoard::Record &record) const;
  Verdict follow(int rank) const;
  Verdict judgeCircle(const std::vector<int> &ranks) const;
  bool isSilent(int rank, double extra = 0) const;
  bool hasRun(int rank) const;
  [[noreturn]] void fail(int rank, const std::string &what);
  void failByTime(int rank, const std::string &what);

  StatusBoard &board;
  Describe describe;
  double stall;
  int parent;
  std::atomic<bool> stop{false};
  std::atomic<double> looked; ///< when the last nap was over
  std::mutex checking;        ///< also guards what follows
  std::vector<Seen> seen;
  std::vector<std::vector<int>> groups; ///< by number; empty: unknown
  uint64_t filesProgress = 0, deviceProgress = 0;
  std::thread thread;
};

/// For a rank that no other of its machine can see die: a child process says it
/// then. To be called before there are threads.
void guardLoneRank(StatusBoard &board, const Watchdog::Describe &describe);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_WATCHDOG_H
