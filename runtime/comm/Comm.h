//===- Comm.h - the ranks of a run and what they say to each other --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A thin layer over MPI (mpi/Comm.cpp) or TCP (tcp/Comm.cpp; no library is
// needed), so that the step loop knows nothing of communicators and sockets,
// and a program for one rank needs neither (Comm.cpp). All buffers are host
// memory. Every error is a dt::rt::Error of one line.
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
#include "runtime/comm/Collectives.h"
#include "runtime/comm/Status.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dt::rt {

/// Something that is under way; its buffers must stay as they are until it has
/// ended. Default: nothing, ended. Destroying one that has not ended is only
/// right while an error takes the program down.
class Request {
public:
  /// How an implementation does it.
  struct Operation {
    virtual ~Operation() = default;
    virtual bool test() = 0; ///< true: ended; not called again then
    virtual void wait() = 0;
  };

  Request() = default;
  explicit Request(std::unique_ptr<Operation> operation)
      : operation(std::move(operation)) {}

  /// Whether it has ended; moves messages on. Does not wait.
  bool test() {
    if (operation && operation->test())
      operation.reset();
    return !operation;
  }
  void wait() {
    if (operation)
      operation->wait();
    operation.reset();
  }

private:
  std::unique_ptr<Operation> operation;
};

/// In any order of completion; all have ended then.
void waitAll(std::vector<Request> &requests);

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

/// Some ranks, in the order given. Collectives are called by all of them in the
/// same order; those of one group that are not blocking must be begun in the
/// same order too. `label` as above. Sizes of 0 are allowed. Buffers do not
/// overlap unless said.
class Group {
public:
  virtual ~Group() = default;
  virtual int rank() const = 0; ///< this rank's place in the group
  virtual int size() const = 0;
  virtual const std::vector<int> &ranks() const = 0; ///< places in the world

  /// `count` elements of F32, F64, I64 or BF16; `in` may be `out`. BF16 is
  /// combined in float32: in the order of ranks and rounded once; where other
  /// work goes on meanwhile, summed only, and over MPI every partial sum is
  /// rounded.
  virtual void allReduce(Reduction kind, DType type, const void *in, void *out,
                         int64_t count, const char *label) = 0;
  virtual Request iallReduce(Reduction kind, DType type, const void *in,
                             void *out, int64_t count, const char *label) = 0;

  /// `out`: `bytes` of every rank, in rank order. `in` may be this rank's place
  /// in `out`.
  virtual void allGather(const void *in, size_t bytes, void *out,
                         const char *label) = 0;
  virtual Request iallGather(const void *in, size_t bytes, void *out,
                             const char *label) = 0;
  /// Rank r gives sizes[r] bytes.
  virtual void allGatherV(const void *in, void *out,
                          const std::vector<size_t> &sizes,
                          const char *label) = 0;

  /// `in` has size() blocks of `count` elements; `out` is the sum of all ranks'
  /// block of this rank. `out` may be this rank's block of `in`.
  virtual void reduceScatter(DType type, const void *in, void *out,
                             int64_t count, const char *label) = 0;
  virtual Request ireduceScatter(DType type, const void *in, void *out,
                                 int64_t count, const char *label) = 0;

  /// `in` has `bytes` for every rank, `out` gets as much from every rank.
  virtual void allToAll(const void *in, void *out, size_t bytes,
                        const char *label) = 0;
  virtual void broadcast(void *data, size_t bytes, int root,
                         const char *label) = 0;
  virtual void barrier() = 0;
};

class Comm {
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

  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  //===--- messages -----------------------------------------------------===//

  /// Messages between two ranks with the same tag arrive in the order in which
  /// they were sent and posted. A message to oneself is allowed. Without bytes
  /// there is nothing to send: both sides return an ended request.
  virtual Request isend(const void *data, size_t bytes, int to, int tag,
                        const char *label) = 0;
  virtual Request irecv(void *data, size_t bytes, int from, int tag) = 0;

  /// The tag of message `number` on one of `edges` edges (or its gradient),
  /// messages of an edge being numbered in the order of microbatches. Between
  /// two ranks they differ for all messages that can be under way together.
  int tag(int edge, int edges, int64_t number, bool gradient) const;

  /// Moves messages on. To be called between tasks.
  virtual void poll() = 0;

  //===--- groups -------------------------------------------------------===//

  /// The group of these different ranks, for as long as this object lives; null
  /// on ranks that are not in it. All ranks of the world make all groups with
  /// more than one rank in the same order (those outside return at once). The
  /// same ranks have another group for another `purpose`: collectives of the
  /// two need no common order.
  virtual Group *group(const std::vector<int> &ranks,
                       const std::string &purpose = "") = 0;
  virtual Group &world() = 0;

  /// Every rank's text, in rank order, on all ranks.
  std::vector<std::string> allGatherText(const std::string &mine);
  /// Every rank's values (equally many), in rank order.
  std::vector<double> allGather(const std::vector<double> &mine,
                                const char *label);
  /// Called by all ranks, each with its error or nothing: if anybody has one,
  /// throws the one of the lowest rank as a CommonError on all of them.
  void agree(const std::string &error);
  /// Throws a CommonError unless there are as many ranks as the plan has.
  void expectRanks(int wanted) const;

  //===--- the rest -----------------------------------------------------===//

  /// For the log: library or TCP, ranks, whether messages move on while a rank
  /// computes (found by a probe at start) and what is done about it.
  virtual std::string describe() const = 0;
  const std::map<std::string, Traffic> &traffic() const { return counters; }
  /// Forgets what was counted since.
  void restoreTraffic(std::map<std::string, Traffic> before) {
    counters = std::move(before);
  }
  const Blocking &blocking() const { return blocked; }
  StatusBoard *board() const { return blocked.board; }
  void clearCollectives() { blocked.collectives.clear(); }

  /// Ends together with all other ranks; nothing may be called afterwards. A
  /// process that ends without it takes the others down.
  virtual void finish() = 0;
  /// Ends this and the other ranks at once with this exit code.
  [[noreturn]] virtual void abort(int code) = 0;

protected:
  /// Largest tag.
  virtual int tagLimit() const = 0;
  /// Throws Error unless these are different ranks.
  void expectMembers(std::vector<int> members) const;
  std::map<std::string, Traffic> counters;
  Blocking blocked;
};

/// The ranks of one replica of a module as generated code sees them
/// (Collectives.h): place t is ranks[t]. With groups for all its axes. Made
/// like Comm::group: by all ranks of the world, members and others, in the same
/// order, while `comm` lives; null on ranks that are not in it. Its traffic is
/// counted by collectiveLabel.
std::shared_ptr<TensorParallel>
makeTensorParallel(Comm &comm, const std::vector<int> &ranks,
                   const std::string &label);

/// Of a module's collectives on an axis: "llm.all_reduce over 2 stride 1".
std::string collectiveLabel(const std::string &module, CollectiveKind kind,
                            int64_t over, int64_t stride);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_COMM_H
