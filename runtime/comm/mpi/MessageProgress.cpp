//===- MessageProgress.cpp - messages move on while a rank computes -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/mpi/MessageProgress.h"
#include "runtime/base/Thread.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace dt::rt {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Size of the probe's message: far above what is sent eagerly.
constexpr int kProbeBytes = 1 << 20;
/// How long its sender makes no call, and when the message must be there.
constexpr milliseconds kComputes(30), kArrives(12);
/// Other processes may delay a rank: one success in so many is enough.
constexpr int kAttempts = 3;
constexpr int kProbeTag = 0;
/// Between two looks of the thread.
constexpr microseconds kPause(100);

/// This rank sends (`sends`) to or receives from `partner`, all pairs at once.
/// Whether the message came while the sender made no call; true on senders.
bool arrives(MPI_Comm comm, int partner, bool sends) {
  std::vector<char> message(kProbeBytes);
  mpiCheck(MPI_Barrier(comm), "MPI_Barrier");
  if (partner < 0)
    return true;
  MPI_Request request;
  if (sends) {
    mpiCheck(MPI_Isend(message.data(), kProbeBytes, MPI_BYTE, partner,
                       kProbeTag, comm, &request),
             "MPI_Isend");
    std::this_thread::sleep_for(kComputes);
  } else {
    mpiCheck(MPI_Irecv(message.data(), kProbeBytes, MPI_BYTE, partner,
                       kProbeTag, comm, &request),
             "MPI_Irecv");
  }
  auto begin = std::chrono::steady_clock::now();
  mpiCheck(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  return sends || std::chrono::steady_clock::now() - begin < kArrives;
}

bool onAllRanks(MPI_Comm comm, bool mine) {
  int value = mine, all;
  mpiCheck(MPI_Allreduce(&value, &all, 1, MPI_INT, MPI_MIN, comm),
           "MPI_Allreduce");
  return all;
}

/// Ranks r and r + distance are a pair if r is in an even run of `distance`
/// ranks.
bool probe(MPI_Comm comm, int distance) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  bool sends = rank / distance % 2 == 0;
  int partner = sends ? rank + distance : rank - distance;
  if (partner >= size)
    partner = -1;
  bool good = false;
  for (int i = 0; i < kAttempts && !onAllRanks(comm, good); ++i)
    good = arrives(comm, partner, sends) || good;
  return onAllRanks(comm, good);
}

} // namespace

void mpiCheck(int code, const char *call) {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::string line(text, length);
  std::replace(line.begin(), line.end(), '\n', ' ');
  throw Error(std::string(call) + ": " + line);
}

void MessageProgress::start(MPI_Comm on, bool threads) {
  comm = on;
  bells.start(on);
  int size;
  mpiCheck(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  const char *choice = std::getenv("DT_PROGRESS");
  // Ranks of another machine may not have it; all must probe or none.
  bool wanted = !onAllRanks(comm, !choice || std::strcmp(choice, "thread"));
  if (onAllRanks(comm, !wanted && (!choice || std::strcmp(choice, "poll")))) {
    // A neighbour and, as ranks fill nodes one after another, one far away.
    alone = size == 1 || (probe(comm, 1) && probe(comm, std::max(1, size / 2)));
    wanted = !alone;
  }
  if (wanted && threads && size > 1)
    thread = startThread("messages", [this] { run(); });
}

void MessageProgress::stop() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> guard(sleep);
    stopping = true;
  }
  wake.notify_all();
  thread.join();
}

void MessageProgress::begin() {
  if (open.fetch_add(1) > 0 || !thread.joinable())
    return;
  std::lock_guard<std::mutex> guard(sleep); // else the thread may miss it
  wake.notify_all();
}
void MessageProgress::end() { open.fetch_sub(1); }

void MessageProgress::poll() {
  auto held = lock();
  int found;
  mpiCheck(
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, MPI_STATUS_IGNORE),
      "MPI_Iprobe");
}

void MessageProgress::run() {
  std::unique_lock<std::mutex> guard(sleep);
  while (!stopping) {
    wake.wait(guard, [&] { return stopping || open > 0; });
    guard.unlock();
    // Who waits inside MPI holds the lock and moves messages on itself.
    if (calls.try_lock()) {
      int found;
      // Errors come back from the calls that have begun something.
      (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found,
                       MPI_STATUS_IGNORE);
      calls.unlock();
    }
    std::this_thread::sleep_for(kPause);
    guard.lock();
  }
}

std::string MessageProgress::describe() const {
  if (thread.joinable())
    return std::string("messages move on in a thread") +
           (bells.on() ? "; ranks that wait sleep" : "");
  return std::string(alone ? "messages move on while a rank computes"
                           : "messages move on between tasks only") +
         (bells.on() ? "; ranks that wait sleep" : "");
}

} // namespace dt::rt
