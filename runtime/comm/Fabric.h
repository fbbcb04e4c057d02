//===- Fabric.h - what moves the buffers of a step --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Messages and collectives on device memory: what Transfers, Reducer and
// generated code (Collectives.h) use, and nothing else does. Ranks say the rest
// to each other in host memory, over Comm. Where host memory is device memory
// the fabric is the Comm itself.
//
// Calls are ordered with work on device::stream(): they read what was queued
// before them, and what is queued after wait(), or after test() was true, finds
// their result. Blocking calls are begun and waited for. The host itself waits
// where an implementation must, else in settle() only. One thread calls.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_FABRIC_H
#define DT_RUNTIME_COMM_FABRIC_H

#include "runtime/comm/Collectives.h"
#include "runtime/comm/LinkNeeds.h"
#include "runtime/comm/MessageBlocks.h"
#include "runtime/device/Device.h"
#include "runtime/device/Pool.h"

#include <memory>
#include <string>
#include <vector>

namespace dt::rt {

class Comm;

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

/// Some ranks, in the order given. Collectives are called by all of them in the
/// same order; those of one group that are not blocking must be begun in the
/// same order too. Labels are counted by (Comm::traffic) and live as long as
/// the group. Sizes of 0 are allowed. Buffers do not overlap unless said. While
/// device::rehearses(), blocking ones make what they need and do nothing more.
class FabricGroup {
public:
  virtual ~FabricGroup() = default;
  virtual int rank() const = 0; ///< this rank's place in the group
  virtual int size() const = 0;
  virtual const std::vector<int> &ranks() const = 0; ///< places in the world

  /// `count` elements of F32, F64, I64 or BF16; `in` may be `out`. BF16 is
  /// combined in float32: in the order of ranks and rounded once; where other
  /// work goes on meanwhile (over NCCL always) every partial sum is rounded,
  /// but over TCP, and on the host there are sums only.
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
  /// Rank r gives sizes[r] bytes. `in` may be this rank's place in `out`.
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

  /// `in` goes to the next rank, `out` comes from the one before; the last
  /// rank's goes to the first.
  virtual void shift(const void *in, void *out, size_t bytes,
                     const char *label) = 0;
};

class Fabric {
public:
  virtual ~Fabric() = default;
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
  static bool isGradient(int tag) { return tag & 1; }

  /// True: tags only say the direction (isGradient). A rank has messages of a
  /// direction one after another, to whomever; all ranks call for them in one
  /// order (MessageOrder.h). There are none to oneself.
  virtual bool isOrdered() const { return false; }

  /// Moves messages on. To be called between tasks.
  virtual void poll() = 0;
  /// Waits on the host until all that this rank has begun has ended, and the
  /// stream's work before it. Throws Error if something of it failed.
  virtual void settle() {}

  //===--- groups -------------------------------------------------------===//

  /// The group of these different ranks, for as long as this object lives; null
  /// on ranks that are not in it. All ranks of the world make all groups with
  /// more than one rank in the same order (those outside return at once). The
  /// same ranks have another group for another `purpose`: collectives of the
  /// two need no common order.
  virtual FabricGroup *group(const std::vector<int> &ranks,
                             const std::string &purpose = "") = 0;

  /// The stream of collectives that run beside the work of device::stream():
  /// that one, where the fabric does not know how.
  virtual void *tpStream() { return device::stream(); }

  /// For the log.
  virtual std::string describe() const = 0;
  virtual Carrier carrier() const = 0;

  //===--- memory -------------------------------------------------------===//

  /// Makes what is on its way at once; before the first step.
  virtual void reserve(const MessageBlocks &planned) {
    blocks.reserve(planned.packed);
    besideBlocks.reserve(planned.beside);
  }
  /// Device memory for what is on its way; used on device::stream() only, or
  /// on tpStream() only.
  device::Pool &pool() { return blocks; }
  device::Pool &besidePool() { return besideBlocks; }
  /// Pinned host memory that it has allocated.
  virtual size_t pinnedBytes() const { return 0; }

  /// Largest tag.
  virtual int tagLimit() const { return 0x7fffffff; }

private:
  device::Pool blocks, besideBlocks;
};

/// Prepares this rank's device: of several on a machine the one with its number
/// among the machine's ranks, modulo their number. All ranks call it. Throws
/// Error.
void initializeDevice(Comm &comm, int threads);

/// What moves buffers of this program's device, while `comm` lives. All ranks
/// call it, after initializeDevice, with the same `needs`: messages that are
/// not said there are not sent. Throws CommonError.
///
/// On the CPU `comm` itself. Else NCCL if the program was built with it and
/// every rank has a device of its own, or host memory and `comm`;
/// DT_FABRIC=nccl or host in the environment decides instead.
std::shared_ptr<Fabric> makeFabric(Comm &comm, const LinkNeeds &needs);

/// The ranks of one replica of a module as generated code sees them
/// (Collectives.h): place t is ranks[t]. With groups for these axes. Made
/// like Fabric::group: by all ranks of the world, members and others, in the
/// same order, while `fabric` lives; null on ranks that are not in it. Its
/// traffic is counted by collectiveLabel.
std::shared_ptr<TensorParallel>
makeTensorParallel(Fabric &fabric, const std::vector<int> &ranks,
                   const std::string &label, const Axes &axes);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_FABRIC_H
