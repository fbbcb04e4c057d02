//===- Comm.h - the ranks of a run and what they say to each other --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Control: agreement, metrics, reports, checkpoints, a step's scalars; on the
// CPU also the fabric (Fabric.h). A thin layer over MPI (mpi/Comm.cpp) or TCP
// (tcp/Comm.cpp; no library is needed), so that the step loop knows nothing of
// communicators and sockets, and a program for one rank needs neither
// (Comm.cpp). All buffers are host memory. Every error is a dt::rt::Error of
// one line.
//
// Results are the same bits on all ranks and in every run: reductions use one
// algorithm for each size and group, never the order of arrival. All-reduce and
// its nonblocking form may add in different orders, and so may one call and two
// calls with halves: which is used where belongs to the plan.
//
// One thread calls. What a label names is counted: the number of calls and the
// bytes of the buffer that this rank hands over (the payload of a send, `in` of
// a collective).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_COMM_H
#define DT_RUNTIME_COMM_COMM_H

#include "runtime/base/Clock.h"
#include "runtime/base/Error.h"
#include "runtime/comm/Fabric.h"
#include "runtime/comm/Status.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dt::rt {

/// An error that every rank has: rank 0 prints it, all of them end
/// (Comm::finish). Of another Error the rank that has it speaks and takes the
/// others down (Comm::abort).
class CommonError : public Error {
public:
  using Error::Error;
};

/// What one label has counted on this rank.
struct Traffic {
  uint64_t calls = 0;
  uint64_t bytes = 0;
};

inline void count(std::map<std::string, Traffic> &traffic, const char *label,
                  size_t bytes) {
  Traffic &t = traffic[label];
  ++t.calls;
  t.bytes += bytes;
}

/// What calls that wait for other ranks have taken of the calling thread. Where
/// a waiting thread `polls`, processor time in here is partly the work of
/// moving and adding data, partly nothing. Where it sleeps all of it is work,
/// and `cpu` has that of collectives only.
struct Blocking {
  double seconds = 0, cpu = 0;
  bool polls = true;
  /// Processor seconds of each collective since clearCollectives(). The last
  /// rank of a group that comes waits for nobody, so the smallest of all ranks
  /// is what the collective takes.
  std::vector<float> collectives;
  StatusBoard *board = nullptr; ///< learns what this rank waits for
};

/// Counts the life of this object, and says on the status board what is waited
/// for.
class BlockingCall {
public:
  BlockingCall(Blocking &total, const Awaited &what, bool collective = true)
      : total(total), waits(total.board, what), collective(collective),
        begin(now()), cpu(threadSeconds()) {}
  ~BlockingCall() {
    double took = threadSeconds() - cpu;
    total.seconds += now() - begin;
    if (collective || total.polls)
      total.cpu += took;
    if (collective)
      total.collectives.push_back(float(took));
  }
  BlockingCall(const BlockingCall &) = delete;
  BlockingCall &operator=(const BlockingCall &) = delete;

private:
  Blocking &total;
  Waits waits;
  bool collective;
  double begin, cpu;
};

/// A group on host memory.
class Group : public FabricGroup {
public:
  /// Adds the next rank's record to `all`, which has those before it.
  using AddRecord = std::function<void(void *all, const void *next)>;
  /// At `record`, `bytes` of every rank become what `add` makes of them: rank
  /// 0's, to which the others' are added one after another in the order of
  /// ranks. All ranks get the same bits. For small records: over TCP they go up
  /// a tree, are added by rank 0, and the result comes down again: 2(n - 1)
  /// messages, of which no rank has more than 2 log2(n).
  virtual void fold(void *record, size_t bytes, const AddRecord &add,
                    const char *label) = 0;
  virtual void broadcast(void *data, size_t bytes, int root,
                         const char *label) = 0;
  virtual void barrier() = 0;
};

class Comm : public Fabric {
public:
  /// The ranks that a launcher has started (Launch.h), or this process alone.
  /// Throws Error; CommonError if ranks have not come. Once in a process.
  ///
  /// Where messages do not move on while a rank computes, a thread sees to it;
  /// with MPI DT_PROGRESS=thread or poll in the environment decides instead of
  /// the probe. `board` and `addGroup` (a group's number and ranks) learn what
  /// ranks wait for; they live as long as the result.
  using AddGroup = std::function<void(int, const std::vector<int> &)>;
  static std::unique_ptr<Comm> start(StatusBoard *board = nullptr,
                                     AddGroup addGroup = {});

  //===--- groups -------------------------------------------------------===//

  Group *group(const std::vector<int> &ranks,
               const std::string &purpose = "") override = 0;
  virtual Group &world() = 0;
  /// A number for a group that somebody else makes, as group() gives it to
  /// those of several ranks; all ranks of the world call it.
  virtual int watch(const std::vector<int> &ranks) = 0;

  /// Every rank's text, in rank order, on all ranks.
  std::vector<std::string> allGatherText(const std::string &mine);
  /// Every rank's values (equally many), in rank order.
  std::vector<double> allGather(const std::vector<double> &mine,
                                const char *label);
  /// The text of the lowest rank that has one, on all ranks; empty: none has.
  std::string firstText(const std::string &mine);
  /// Called by all ranks, each with its error or nothing: if anybody has one,
  /// throws the one of the lowest rank as a CommonError on all of them.
  void agree(const std::string &error);
  /// Throws a CommonError unless there are as many ranks as the plan has.
  void expectRanks(int wanted) const;

  //===--- the rest -----------------------------------------------------===//

  /// For the log: library or TCP, ranks, whether messages move on while a rank
  /// computes (found by a probe at start) and what is done about it.
  std::string describe() const override = 0;
  const std::map<std::string, Traffic> &traffic() const { return counters; }
  /// Forgets what was counted since.
  void restoreTraffic(std::map<std::string, Traffic> before) {
    counters = std::move(before);
  }
  /// Counts what goes another way.
  void count(const char *label, size_t bytes) {
    Traffic &t = counters[label];
    ++t.calls;
    t.bytes += bytes;
  }
  /// Host memory for what comes from all ranks before it is combined.
  device::Pool &combining() { return combinedBlocks; }
  const Blocking &blocking() const { return blocked; }
  Blocking &waiting() { return blocked; } ///< for BlockingCall
  StatusBoard *board() const { return blocked.board; }
  void clearCollectives() { blocked.collectives.clear(); }

  /// Ends together with all other ranks; nothing may be called afterwards. A
  /// process that ends without it takes the others down.
  virtual void finish() = 0;
  /// Ends this and the other ranks at once with this exit code.
  [[noreturn]] virtual void abort(int code) = 0;

protected:
  /// Throws Error unless these are different ranks.
  void expectMembers(std::vector<int> members) const;
  std::map<std::string, Traffic> counters;
  Blocking blocked;

private:
  device::Pool combinedBlocks{device::Pool::Host};
};

/// Of a module's collectives on an axis: "llm.all_reduce over 2 stride 1".
std::string collectiveLabel(const std::string &module, CollectiveKind kind,
                            int64_t over, int64_t stride);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_COMM_H
