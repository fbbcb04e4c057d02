//===- Comm.cpp - the ranks of a run over MPI -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// MPI counts in int, so large buffers go in pieces or as one element of a large
// type. Calls are serialized: by nature where one thread makes them, by a lock
// where a progress thread helps. That needs MPI_THREAD_SERIALIZED only, which
// costs nothing inside the library.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Combine.h"
#include "runtime/comm/mpi/Calls.h"
#include "runtime/comm/mpi/Elements.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace dt::rt {

namespace {

/// Bytes and elements of one call.
constexpr size_t kPieceBytes = size_t(1) << 30;
constexpr int64_t kPiece = int64_t(1) << 28;

/// `bytes` bytes as `count` elements of `type`, so that no number in a call on
/// `ranks` times as many is too large for an int.
class Block {
public:
  Block(size_t bytes, int ranks) {
    if (bytes <= size_t(INT_MAX / ranks)) {
      count = int(bytes);
      return;
    }
    int64_t pieces = int64_t(bytes / kPieceBytes);
    MPI_Datatype piece;
    mpiCheck(MPI_Type_contiguous(int(kPieceBytes), MPI_BYTE, &piece),
             "MPI_Type_contiguous");
    int lengths[2] = {int(pieces), int(bytes % kPieceBytes)};
    MPI_Aint places[2] = {0, MPI_Aint(pieces * kPieceBytes)};
    MPI_Datatype types[2] = {piece, MPI_BYTE};
    mpiCheck(MPI_Type_create_struct(2, lengths, places, types, &type),
             "MPI_Type_create_struct");
    mpiCheck(MPI_Type_commit(&type), "MPI_Type_commit");
    MPI_Type_free(&piece);
    count = 1;
  }
  Block(const Block &) = delete;
  ~Block() {
    if (type != MPI_BYTE)
      MPI_Type_free(&type); // what is under way keeps it
  }

  MPI_Datatype type = MPI_BYTE;
  int count = 0;
};

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

class MpiGroup final : public Group {
public:
  /// Takes the communicator over. `number`: the same on all members, another
  /// for every group of several ranks.
  MpiGroup(MPI_Comm comm, std::vector<int> members, int number,
           MessageProgress &progress, std::map<std::string, Traffic> &traffic,
           Blocking &blocking)
      : comm(comm), members(std::move(members)), number(number),
        progress(progress), traffic(traffic), blocking(blocking) {
    mpiCheck(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN),
             "MPI_Comm_set_errhandler");
    mpiCheck(MPI_Comm_rank(comm, &place), "MPI_Comm_rank");
  }
  void free() { MPI_Comm_free(&comm); }

  int rank() const override { return place; }
  int size() const override { return int(members.size()); }
  const std::vector<int> &ranks() const override { return members; }

  void allReduce(Reduction kind, DType type, const void *in, void *out,
                 int64_t n, const char *label) override {
    count(traffic, label, n * sizeOf(type));
    BlockingCall blocks(blocking, begins(label));
    meet();
    if (type == DType::BF16)
      return reduceNarrow(kind, static_cast<const bf16 *>(in),
                          static_cast<bf16 *>(out), n);
    auto lock = progress.lock();
    pieces(type, in, out, n, [&](const void *from, void *to, int count) {
      mpiCheck(MPI_Allreduce(from, to, count, mpiType(type), mpiOp(kind), comm),
               "MPI_Allreduce");
    });
  }
  Request iallReduce(Reduction kind, DType type, const void *in, void *out,
                     int64_t n, const char *label) override {
    count(traffic, label, n * sizeOf(type));
    auto calls = std::make_unique<Calls>(progress, blocking, begins(label));
    auto lock = progress.lock();
    pieces(type, in, out, n, [&](const void *from, void *to, int count) {
      mpiCheck(MPI_Iallreduce(from, to, count, mpiType(type), mpiOp(kind, type),
                              comm, calls->add()),
               "MPI_Iallreduce");
    });
    return Request(std::move(calls));
  }

  void allGather(const void *in, size_t bytes, void *out,
                 const char *label) override {
    count(traffic, label, bytes);
    BlockingCall blocks(blocking, begins(label));
    meet();
    auto lock = progress.lock();
    Block block(bytes, size());
    mpiCheck(MPI_Allgather(own(in, bytes, out), block.count, block.type, out,
                           block.count, block.type, comm),
             "MPI_Allgather");
  }
  Request iallGather(const void *in, size_t bytes, void *out,
                     const char *label) override {
    count(traffic, label, bytes);
    auto calls = std::make_unique<Calls>(progress, blocking, begins(label));
    auto lock = progress.lock();
    Block block(bytes, size());
    mpiCheck(MPI_Iallgather(own(in, bytes, out), block.count, block.type, out,
                            block.count, block.type, comm, calls->add()),
             "MPI_Iallgather");
    return Request(std::move(calls));
  }

  void allGatherV(const void *in, void *out, const std::vector<size_t> &sizes,
                  const char *label) override {
    size_t total = 0, before = 0;
    for (int i = 0; i < size(); ++i) {
      before += i < place ? sizes.at(i) : 0;
      total += sizes.at(i);
    }
    count(traffic, label, sizes[place]);
    char *mine = static_cast<char *>(out) + before;
    BlockingCall blocks(blocking, begins(label));
    meet();
    if (total > INT_MAX) {
      if (in != mine && sizes[place])
        std::memcpy(mine, in, sizes[place]);
      char *at = static_cast<char *>(out);
      auto lock = progress.lock();
      for (int i = 0; i < size(); at += sizes[i++])
        broadcastBytes(at, sizes[i], i);
      return;
    }
    std::vector<int> counts(sizes.begin(), sizes.end()), places(size());
    for (int i = 1; i < size(); ++i)
      places[i] = places[i - 1] + counts[i - 1];
    auto lock = progress.lock();
    mpiCheck(MPI_Allgatherv(in == mine ? MPI_IN_PLACE : in, counts[place],
                            MPI_BYTE, out, counts.data(), places.data(),
                            MPI_BYTE, comm),
             "MPI_Allgatherv");
  }

  void reduceScatter(DType type, const void *in, void *out, int64_t n,
                     const char *label) override {
    count(traffic, label, n * sizeOf(type) * size());
    Awaited awaited = begins(label);
    Calls calls(progress, blocking, awaited); // for the copy
    BlockingCall blocks(blocking, awaited);
    meet();
    if (type == DType::BF16)
      return scatterNarrow(in, static_cast<bf16 *>(out), n);
    auto lock = progress.lock();
    scatter(type, in, target(calls, type, in, out, n), n, nullptr);
    if (calls.copyTo)
      std::memcpy(calls.copyTo, calls.copy.get(), calls.copyBytes);
  }
  Request ireduceScatter(DType type, const void *in, void *out, int64_t n,
                         const char *label) override {
    count(traffic, label, n * sizeOf(type) * size());
    auto calls = std::make_unique<Calls>(progress, blocking, begins(label));
    auto lock = progress.lock();
    scatter(type, in, target(*calls, type, in, out, n), n, calls.get());
    return Request(std::move(calls));
  }

  void allToAll(const void *in, void *out, size_t bytes,
                const char *label) override {
    count(traffic, label, bytes * size());
    BlockingCall blocks(blocking, begins(label));
    meet();
    exchangeBlocks(in, out, bytes);
  }
  void broadcast(void *data, size_t bytes, int root,
                 const char *label) override {
    count(traffic, label, root == place ? bytes : 0);
    BlockingCall blocks(blocking, begins(label));
    auto lock = progress.lock();
    broadcastBytes(static_cast<char *>(data), bytes, root);
  }
  void barrier() override {
    BlockingCall blocks(blocking, begins("barrier"));
    meet();
    auto lock = progress.lock();
    mpiCheck(MPI_Barrier(comm), "MPI_Barrier");
  }

private:
  /// The next of this group's collectives begins.
  Awaited begins(const char *label) {
    ++begun;
    int group = members.size() > 1 ? number + kFirstGroup : -1;
    if (blocking.board)
      blocking.board->enter(group, begun);
    return {Awaited::Collective, -1, group, begun, label};
  }

  /// Where ranks sleep: until all have come and have a core, so that nobody
  /// polls for long in the collective that follows.
  void meet() {
    Bells &bells = progress.getBells();
    if (!bells.on() || members.size() == 1 || number >= Bells::kGroups ||
        !bells.areHere(members))
      return;
    for (Bells::Part part : {Bells::Come, Bells::Awake}) {
      bells.arrive(number, part, members);
      auto there = [&] { return bells.haveArrived(number, part, members); };
      // Who finds a core wakes at once. Who does not may get this rank's.
      for (double begin = now(); part == Bells::Awake && !there();)
        if (now() - begin > kWakes)
          break;
      progress.sleepUntil(
          [&] {
            progress.poll();
            return there();
          },
          kLooksForMessage);
    }
  }

  template <typename F>
  void pieces(DType type, const void *in, void *out, int64_t n, F call) {
    for (int64_t at = 0; at < n; at += kPiece) {
      size_t offset = at * sizeOf(type);
      call(in == out ? MPI_IN_PLACE : static_cast<const char *>(in) + offset,
           static_cast<char *>(out) + offset, int(std::min(kPiece, n - at)));
    }
  }

  /// What an all-gather sends.
  const void *own(const void *in, size_t bytes, void *out) const {
    return in == static_cast<char *>(out) + place * bytes ? MPI_IN_PLACE : in;
  }

  /// Where a reduce-scatter writes: not into what it reads.
  void *target(Calls &calls, DType type, const void *in, void *out,
               int64_t n) const {
    size_t bytes = n * sizeOf(type);
    if (out != static_cast<const char *>(in) + place * bytes)
      return out;
    calls.copy.reset(new char[bytes]);
    calls.copyTo = out;
    calls.copyBytes = bytes;
    return calls.copy.get();
  }

  void scatter(DType type, const void *in, void *out, int64_t n, Calls *calls) {
    MPI_Datatype element = mpiType(type);
    MPI_Op sum = mpiOp(Reduction::Sum, type);
    if (n <= INT_MAX / size()) {
      if (calls)
        mpiCheck(MPI_Ireduce_scatter_block(in, out, int(n), element, sum, comm,
                                           calls->add()),
                 "MPI_Ireduce_scatter_block");
      else
        mpiCheck(MPI_Reduce_scatter_block(in, out, int(n), element, sum, comm),
                 "MPI_Reduce_scatter_block");
      return;
    }
    for (int root = 0; root < size(); ++root)
      for (int64_t at = 0; at < n; at += kPiece) {
        const char *from =
            static_cast<const char *>(in) + (root * n + at) * sizeOf(type);
        void *to = static_cast<char *>(out) + at * sizeOf(type);
        int count = int(std::min(kPiece, n - at));
        if (calls)
          mpiCheck(MPI_Ireduce(from, to, count, element, sum, root, comm,
                               calls->add()),
                   "MPI_Ireduce");
        else
          mpiCheck(MPI_Reduce(from, to, count, element, sum, root, comm),
                   "MPI_Reduce");
      }
  }

  void exchangeBlocks(const void *in, void *out, size_t bytes) {
    auto lock = progress.lock();
    Block block(bytes, size());
    mpiCheck(MPI_Alltoall(in, block.count, block.type, out, block.count,
                          block.type, comm),
             "MPI_Alltoall");
  }

  /// Elements of all ranks, until the next call.
  bf16 *narrowBlocks(int64_t n) {
    if (n > stagedElements) {
      staged.reset(new bf16[size_t(n)]);
      stagedElements = n;
    }
    return staged.get();
  }

  /// The ranks' blocks of this one come here and are combined here, so that
  /// they are rounded once. No more bytes than a ring moves.
  void scatterNarrow(const void *in, bf16 *out, int64_t n) {
    bf16 *all = narrowBlocks(n * size());
    exchangeBlocks(in, all, size_t(n) * sizeof(bf16));
    combine(Reduction::Sum, DType::BF16, all, size(), out, n);
  }

  /// Every rank combines a share, as above, and gives it to all.
  void reduceNarrow(Reduction kind, const bf16 *in, bf16 *out, int64_t n) {
    for (int64_t at = 0; at < n; at += kPiece)
      reduceNarrowPiece(kind, in + at, out + at, int(std::min(kPiece, n - at)));
  }
  void reduceNarrowPiece(Reduction kind, const bf16 *in, bf16 *out, int n) {
    std::vector<int> counts, places, own, ownPlaces;
    auto begin = [&](int rank) { return int(int64_t(n) * rank / size()); };
    int share = begin(place + 1) - begin(place);
    for (int r = 0; r < size(); ++r) {
      counts.push_back(begin(r + 1) - begin(r));
      places.push_back(begin(r));
      own.push_back(share);
      ownPlaces.push_back(r * share);
    }
    bf16 *all = narrowBlocks(int64_t(share) * size());
    {
      auto lock = progress.lock();
      mpiCheck(MPI_Alltoallv(in, counts.data(), places.data(), MPI_UINT16_T,
                             all, own.data(), ownPlaces.data(), MPI_UINT16_T,
                             comm),
               "MPI_Alltoallv");
    }
    combine(kind, DType::BF16, all, size(), out + begin(place), share);
    auto lock = progress.lock();
    mpiCheck(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_UINT16_T, out, counts.data(),
                            places.data(), MPI_UINT16_T, comm),
             "MPI_Allgatherv");
  }

  void broadcastBytes(char *data, size_t bytes, int root) {
    for (size_t at = 0; at < bytes; at += kPieceBytes)
      mpiCheck(MPI_Bcast(data + at, int(std::min(kPieceBytes, bytes - at)),
                         MPI_BYTE, root, comm),
               "MPI_Bcast");
  }

  MPI_Comm comm;
  std::vector<int> members;
  int number;
  MessageProgress &progress;
  std::map<std::string, Traffic> &traffic;
  Blocking &blocking;
  int place = 0;
  uint32_t begun = 0; ///< collectives
  std::unique_ptr<bf16[]> staged;
  int64_t stagedElements = 0;
};

//===----------------------------------------------------------------------===//
// The world
//===----------------------------------------------------------------------===//

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
    all = std::make_unique<MpiGroup>(world, everybody, /*number=*/0, progress,
                                     counters, blocked);
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
  result = std::make_unique<MpiGroup>(comm, members, number, progress, counters,
                                      blocked);
  return result.get();
}

} // namespace

std::unique_ptr<Comm> startMpi(StatusBoard *board, Comm::AddGroup addGroup) {
  return std::make_unique<Mpi>(board, std::move(addGroup));
}

} // namespace dt::rt
