//===- Comm.cpp - the ranks of a run over MPI -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// MPI counts in int, so large buffers go in pieces. Calls are serialized: by
// nature where one thread makes them, by a lock where a progress thread helps.
// That needs MPI_THREAD_SERIALIZED only, which costs nothing inside the
// library.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/mpi/Calls.h"
#include "runtime/comm/mpi/Group.h"

#include <algorithm>
#include <cstdlib>

namespace dt::rt {

namespace {

class Mpi final : public Comm {
public:
  Mpi(StatusBoard *board, AddGroup addGroup) : addGroup(std::move(addGroup)) {
    blocked.board = board;
    Waits waits(board, meets(kStartGroup, "MPI_Init"));
    // Components that reduce in the order of arrival, or in hardware, are left
    // out: results are the same in every run.
    ::setenv("OMPI_MCA_coll", "^adapt,han,hcoll,ucc", 0);
    int provided;
    mpiCheck(
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
        "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    mpiCheck(MPI_Comm_rank(MPI_COMM_WORLD, &place), "MPI_Comm_rank");
    mpiCheck(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
    mpiCheck(MPI_Comm_dup(MPI_COMM_WORLD, &mail), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(mail, MPI_ERRORS_RETURN);
    int found, *limit;
    mpiCheck(MPI_Comm_get_attr(mail, MPI_TAG_UB, &limit, &found),
             "MPI_Comm_get_attr");
    largestTag = found ? *limit : 32767;
    std::vector<int> everybody(ranks);
    for (int i = 0; i < ranks; ++i)
      everybody[i] = i;
    MPI_Comm world;
    mpiCheck(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
    all = makeMpiGroup(world, everybody, /*number=*/0, progress, counters,
                       blocked, combining());
    progress.start(mail, provided >= MPI_THREAD_SERIALIZED);
    blocked.polls = !progress.getBells().on();
  }
  ~Mpi() override { progress.stop(); }

  int rank() const override { return place; }
  int size() const override { return ranks; }

  Request isend(const void *data, size_t bytes, int to, int tag,
                const char *label) override {
    count(label, bytes);
    Request sent =
        message(bytes, to, label, [&](size_t at, int n, MPI_Request *request) {
          mpiCheck(MPI_Isend(static_cast<const char *>(data) + at, n, MPI_BYTE,
                             to, tag, mail, request),
                   "MPI_Isend");
        });
    if (bytes && progress.getBells().on())
      progress.getBells().ring(to);
    return sent;
  }
  Request irecv(void *data, size_t bytes, int from, int tag) override {
    return message(bytes, from, "",
                   [&](size_t at, int n, MPI_Request *request) {
                     mpiCheck(MPI_Irecv(static_cast<char *>(data) + at, n,
                                        MPI_BYTE, from, tag, mail, request),
                              "MPI_Irecv");
                   });
  }
  void poll() override { progress.poll(); }

  Group *group(const std::vector<int> &members,
               const std::string &purpose) override;
  Group &world() override { return *all; }
  int watch(const std::vector<int> &members) override {
    int number = ++made;
    if (addGroup)
      addGroup(number, members);
    return number;
  }

  Carrier carrier() const override { return Carrier::Mpi; }
  std::string describe() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int n;
    MPI_Get_library_version(text, &n);
    std::string library(text, n);
    return library.substr(0, library.find_first_of(",\n")) + ", " +
           std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
           (ranks > 1 ? "; " + progress.describe() : "");
  }

  void finish() override {
    Waits waits(blocked.board, meets(kEndGroup, "MPI_Finalize"));
    progress.stop();
    mpiCheck(MPI_Barrier(mail), "MPI_Barrier");
    progress.getBells().stop();
    for (auto &entry : groups)
      if (entry.second)
        entry.second->free();
    groups.clear();
    all->free();
    MPI_Comm_free(&mail);
    mpiCheck(MPI_Finalize(), "MPI_Finalize");
  }
  [[noreturn]] void abort(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

  int tagLimit() const override { return largestTag; }

private:
  /// All ranks meet, outside of any group's collectives.
  Awaited meets(int group, const char *label) {
    if (blocked.board)
      blocked.board->enter(group, 1);
    return {Awaited::Collective, -1, group, 1, label};
  }

  template <typename F>
  Request message(size_t bytes, int peer, const char *label, F call) {
    if (!bytes)
      return {};
    auto calls = std::make_unique<Calls>(
        progress, blocked, Awaited{Awaited::Message, peer, -1, 0, label});
    auto lock = progress.lock();
    for (size_t at = 0; at < bytes; at += kPieceBytes)
      call(at, int(std::min(kPieceBytes, bytes - at)), calls->add());
    return Request(std::move(calls));
  }

  AddGroup addGroup;
  int place = 0, ranks = 1, largestTag = 0, made = 0;
  MPI_Comm mail = MPI_COMM_NULL;
  MessageProgress progress;
  std::unique_ptr<MpiGroup> all;
  /// By purpose and members; null on ranks outside.
  std::map<std::pair<std::string, std::vector<int>>, std::unique_ptr<MpiGroup>>
      groups;
};

Group *Mpi::group(const std::vector<int> &members, const std::string &purpose) {
  auto known = groups.find({purpose, members});
  if (known != groups.end())
    return known->second.get();
  expectMembers(members);
  // Everybody counts them, so that the number is the same on all ranks; one
  // rank alone needs nobody.
  int number = members.size() > 1 ? watch(members) : 0;
  std::unique_ptr<MpiGroup> &result = groups[{purpose, members}];
  if (std::find(members.begin(), members.end(), place) == members.end())
    return nullptr;
  auto lock = progress.lock();
  MPI_Group everybody, chosen;
  MPI_Comm comm;
  mpiCheck(MPI_Comm_group(MPI_COMM_WORLD, &everybody), "MPI_Comm_group");
  mpiCheck(
      MPI_Group_incl(everybody, int(members.size()), members.data(), &chosen),
      "MPI_Group_incl");
  if (members.size() > 1)
    mpiCheck(MPI_Comm_create_group(MPI_COMM_WORLD, chosen, number % largestTag,
                                   &comm),
             "MPI_Comm_create_group");
  else
    mpiCheck(MPI_Comm_dup(MPI_COMM_SELF, &comm), "MPI_Comm_dup");
  MPI_Group_free(&chosen);
  MPI_Group_free(&everybody);
  result = makeMpiGroup(comm, members, number, progress, counters, blocked,
                        combining());
  return result.get();
}

} // namespace

std::unique_ptr<Comm> startMpi(StatusBoard *board, Comm::AddGroup addGroup) {
  return std::make_unique<Mpi>(board, std::move(addGroup));
}

} // namespace dt::rt
