//===- Link.h - one communicator of NCCL ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Calls are queued on streams; the host waits in them where its peers must come
// (a communicator's making, the first use of a connection), and says so on the
// status board: a peer that does not come is the watchdog's business, which
// ends the process whatever the host is in. The host looks at what has begun in
// settle(), where it waits, and in poll(); both see errors that NCCL finds
// meanwhile.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_NCCL_LINK_H
#define DT_RUNTIME_COMM_NCCL_LINK_H

#include "runtime/comm/Comm.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <deque>
#include <list>
#include <set>

namespace dt::rt {

/// A place in a stream. Shared by all that ask whether the stream got there.
class StreamEvent {
public:
  StreamEvent();
  ~StreamEvent();
  StreamEvent(const StreamEvent &) = delete;
  StreamEvent &operator=(const StreamEvent &) = delete;
  void record(cudaStream_t stream);
  bool reached() const;
  /// What is queued on the stream from now on comes after the place.
  void holdBack(cudaStream_t stream) const;

private:
  cudaEvent_t event;
};

/// Ranks with a communicator. What must not wait for the compute stream's later
/// work has a stream beside it.
struct Link {
  std::vector<int> ranks; ///< places in the world
  int rank;               ///< this one's place among them
  int number;             ///< on the status board; -1: none
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr; ///< of its own; null: none
  uint32_t begun = 0;            ///< collectives
};

/// Queues something on a stream.
using NcclCall = std::function<ncclResult_t(cudaStream_t)>;

/// Calls that are one, as none of them waits for another: `call(r)` for each of
/// the ranks.
template <typename Call> ncclResult_t grouped(int ranks, Call call) {
  ncclGroupStart();
  ncclResult_t result = ncclSuccess;
  for (int r = 0; r < ranks && result == ncclSuccess; ++r)
    result = call(r);
  ncclResult_t end = ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

/// All links of this rank.
class Links {
public:
  explicit Links(Comm &control);
  ~Links();
  Links(const Links &) = delete;
  Links &operator=(const Links &) = delete;

  /// Called by all members of the group; they meet here. `number`, and
  /// `blocks`, which a kernel has at most (LinkNeeds.h): the same on all of
  /// them. `aside`: it has a stream of its own, for begin().
  Link &make(const std::vector<int> &ranks, int number, int blocks, bool aside);

  /// Makes the connections of messages, from and to, for which hosts wait: all
  /// members call it.
  void connectPairs(Link &link, const std::set<std::pair<int, int>> &pairs);

  /// For calls that go on beside the compute stream and are ordered with it by
  /// their callers.
  cudaStream_t tpStream() const { return beside; }

  /// A call on device::stream().
  void run(Link &link, const Awaited &what, const NcclCall &call);
  /// On the link's stream, behind what the compute stream has by now.
  Request begin(Link &link, const Awaited &what, const NcclCall &call);
  Awaited collective(Link &link, const char *label);

  void poll();
  void settle();

private:
  struct Open {
    std::shared_ptr<StreamEvent> end;
    Awaited what;
  };
  class Operation;

  static cudaStream_t compute();
  void call(Link &link, const Awaited &what,
            const std::function<ncclResult_t()> &body);
  void connect(Link &link, int blocks);
  void checkErrors(const Awaited &what);
  void waitFor(const Open &open);
  [[noreturn]] void fail(Link &link, ncclResult_t result, const Awaited &what);
  std::shared_ptr<StreamEvent> takeEvent();

  Comm &control;
  cudaStream_t beside = nullptr;
  std::list<Link> links;
  std::deque<Open> open; ///< in the order of their begin
  Awaited last;          ///< of collectives on the compute stream
  double looked = 0;     ///< for errors
  std::vector<std::shared_ptr<StreamEvent>> events;
};

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_NCCL_LINK_H
