//===- Bells.cpp - ranks that sleep while they wait -----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/mpi/Bells.h"
#include "runtime/base/Cores.h"
#include "runtime/comm/mpi/MessageProgress.h"

#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

namespace dt::rt {

/// What one rank has of the shared memory.
struct alignas(64) Bells::Cell {
  std::atomic<uint32_t> rung;
  std::atomic<uint32_t> asleep;
  alignas(64) std::atomic<uint32_t> meetings[kGroups][2];
};

namespace {

#ifdef __linux__
/// Not private: processes share the word.
long futex(std::atomic<uint32_t> &word, int operation, uint32_t value,
           const timespec *limit) {
  static_assert(sizeof word == sizeof(uint32_t), "a futex is 32 bits");
  return ::syscall(SYS_futex, &word, operation, value, limit, nullptr, 0);
}
#endif

} // namespace

void Bells::start(MPI_Comm comm) {
  int size, rank, here;
  mpiCheck(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  mpiCheck(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  MPI_Comm node;
  mpiCheck(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL,
                               &node),
           "MPI_Comm_split_type");
  mpiCheck(MPI_Comm_size(node, &here), "MPI_Comm_size");
  mpiCheck(MPI_Comm_rank(node, &self), "MPI_Comm_rank");
  const char *choice = std::getenv("DT_WAIT");
  int sleeps = choice && !std::strcmp(choice, "sleep")  ? 1
               : choice && !std::strcmp(choice, "poll") ? 0
                                                        : here > usableCores();
  // Who sleeps must be rung by all others.
  mpiCheck(MPI_Allreduce(MPI_IN_PLACE, &sleeps, 1, MPI_INT, MPI_MIN, node),
           "MPI_Allreduce");
  placeOf.assign(size_t(size), -1);
  std::vector<int> ranks(size_t(here), 0);
  mpiCheck(MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, node),
           "MPI_Allgather");
  for (int i = 0; i < here; ++i)
    placeOf[size_t(ranks[size_t(i)])] = i;
  if (sleeps && here > 1) {
    void *own, *first;
    MPI_Aint bytes;
    int unit;
    mpiCheck(MPI_Win_allocate_shared(
                 self == 0 ? MPI_Aint(size_t(here + 1) * sizeof(Cell)) : 0, 1,
                 MPI_INFO_NULL, node, &own, &window),
             "MPI_Win_allocate_shared");
    mpiCheck(MPI_Win_shared_query(window, 0, &bytes, &unit, &first),
             "MPI_Win_shared_query");
    // MPI has words of its own at the begin of its pages; so the first cell
    // stands at the same place behind it on all ranks.
    size_t room = size_t(here + 1) * sizeof(Cell);
    cells = static_cast<Cell *>(
        std::align(alignof(Cell), size_t(here) * sizeof(Cell), first, room));
    std::memset(static_cast<void *>(cells + self), 0, sizeof(Cell));
    mpiCheck(MPI_Barrier(node), "MPI_Barrier");
  }
  MPI_Comm_free(&node);
}

void Bells::stop() {
  if (!cells)
    return;
  cells = nullptr;
  MPI_Win_free(&window);
}

uint32_t Bells::count() const { return cells[self].rung.load(); }

void Bells::sleep(uint32_t seen, double seconds) {
  timespec limit{time_t(seconds),
                 long((seconds - double(time_t(seconds))) * 1e9)};
#ifdef __linux__
  Cell &own = cells[self];
  own.asleep.store(1); // before the kernel looks at `rung`
  futex(own.rung, FUTEX_WAIT, seen, &limit);
  own.asleep.store(0);
#else
  if (count() == seen)
    ::nanosleep(&limit, nullptr);
#endif
}

void Bells::ring(int rank) {
  int place = placeOf[size_t(rank)];
  if (!cells || place < 0 || place == self)
    return;
  Cell &other = cells[place];
  other.rung.fetch_add(1);
#ifdef __linux__
  if (other.asleep.load()) // after `rung` has changed
    futex(other.rung, FUTEX_WAKE, INT_MAX, nullptr);
#endif
}

bool Bells::areHere(const std::vector<int> &ranks) const {
  for (int rank : ranks)
    if (placeOf[size_t(rank)] < 0)
      return false;
  return true;
}

void Bells::arrive(int group, Part part, const std::vector<int> &ranks) {
  cells[self].meetings[group][part].fetch_add(1);
  for (int rank : ranks)
    ring(rank);
}

bool Bells::haveArrived(int group, Part part,
                        const std::vector<int> &ranks) const {
  uint32_t own = cells[self].meetings[group][part].load();
  for (int rank : ranks) {
    uint32_t other = cells[placeOf[size_t(rank)]].meetings[group][part].load();
    if (int32_t(other - own) < 0) // counts may wrap
      return false;
  }
  return true;
}

} // namespace dt::rt
