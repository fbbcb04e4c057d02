//===- Calls.h - MPI calls that are under way -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_MPI_CALLS_H
#define DT_RUNTIME_COMM_MPI_CALLS_H

#include "runtime/comm/mpi/MessageProgress.h"

#include <cstring>
#include <memory>
#include <vector>

namespace dt::rt {

/// Most bytes of one call.
constexpr size_t kPieceBytes = size_t(1) << 30;

/// Calls under way, and what is to be done after them.
class Calls final : public Request::Operation {
public:
  /// `awaited`: what wait() waits for.
  Calls(MessageProgress &progress, Blocking &blocking, const Awaited &awaited)
      : progress(progress), blocking(blocking), awaited(awaited),
        peer(awaited.peer) {
    progress.begin();
  }
  ~Calls() override { progress.end(); }

  MPI_Request *add() {
    requests.push_back(MPI_REQUEST_NULL);
    return &requests.back();
  }
  bool test() override {
    bool done = ended();
    if (done)
      finish();
    return done;
  }
  void wait() override {
    {
      BlockingCall waits(blocking, awaited, false);
      if (progress.getBells().on()) {
        progress.sleepUntil([&] { return ended(); },
                            peer >= 0 ? kLooksForMessage : kLooksForCollective);
      } else {
        auto lock = progress.lock();
        mpiCheck(MPI_Waitall(int(requests.size()), requests.data(),
                             MPI_STATUSES_IGNORE),
                 "MPI_Waitall");
      }
    }
    finish();
  }

  /// A result that is copied to its place at the end.
  device::Pool::Block copy;
  void *copyTo = nullptr;
  size_t copyBytes = 0;

private:
  bool ended() {
    int done;
    auto lock = progress.lock();
    mpiCheck(MPI_Testall(int(requests.size()), requests.data(), &done,
                         MPI_STATUSES_IGNORE),
             "MPI_Testall");
    return done;
  }
  void finish() {
    if (copyTo)
      std::memcpy(copyTo, copy.get(), copyBytes);
    // The sender of a large message waits for its receiver.
    if (peer >= 0 && progress.getBells().on())
      progress.getBells().ring(peer);
  }
  MessageProgress &progress;
  Blocking &blocking;
  Awaited awaited;
  int peer; ///< of a message, the rank at its other end; else -1
  std::vector<MPI_Request> requests;
};

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_MPI_CALLS_H
