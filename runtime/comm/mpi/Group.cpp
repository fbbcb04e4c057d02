//===- Group.cpp - collectives over MPI -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// MPI counts in int, so large buffers go in pieces or as one element of a large
// type.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/mpi/Group.h"
#include "runtime/comm/Combine.h"
#include "runtime/comm/mpi/Calls.h"
#include "runtime/comm/mpi/Elements.h"

#include <algorithm>
#include <climits>
#include <cstring>

namespace dt::rt {

namespace {

/// Elements of one call.
constexpr int64_t kPiece = kMpiPiece;

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

class MpiCollectives final : public MpiGroup {
public:
  MpiCollectives(MPI_Comm comm, std::vector<int> members, int number,
                 MessageProgress &progress,
                 std::map<std::string, Traffic> &traffic, Blocking &blocking,
                 device::Pool &combining)
      : comm(comm), members(std::move(members)), number(number),
        progress(progress), traffic(traffic), blocking(blocking),
        combining(combining) {
    mpiCheck(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN),
             "MPI_Comm_set_errhandler");
    mpiCheck(MPI_Comm_rank(comm, &place), "MPI_Comm_rank");
  }
  void free() override { MPI_Comm_free(&comm); }

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
  void shift(const void *in, void *out, size_t bytes,
             const char *label) override {
    count(traffic, label, bytes);
    BlockingCall blocks(blocking, begins(label));
    meet();
    auto lock = progress.lock();
    Block block(bytes, 1);
    mpiCheck(MPI_Sendrecv(in, block.count, block.type, (place + 1) % size(), 0,
                          out, block.count, block.type,
                          (place + size() - 1) % size(), 0, comm,
                          MPI_STATUS_IGNORE),
             "MPI_Sendrecv");
  }
  /// The library's all-gather is a tree of its own.
  void fold(void *record, size_t bytes, const AddRecord &add,
            const char *label) override {
    std::vector<char> all(bytes * members.size());
    allGather(record, bytes, all.data(), label);
    std::memcpy(record, all.data(), bytes);
    for (int r = 1; r < size(); ++r)
      add(record, all.data() + bytes * size_t(r));
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
    calls.copy = combining.take(bytes);
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

  /// The ranks' blocks of this one come here and are combined here, so that
  /// they are rounded once. No more bytes than a ring moves.
  void scatterNarrow(const void *in, bf16 *out, int64_t n) {
    device::Pool::Block all = combining.take(mpiCombinedBytes(
        CollectiveKind::ReduceScatter, DType::BF16, n * size(), size()));
    exchangeBlocks(in, all.get(), size_t(n) * sizeof(bf16));
    combine(Reduction::Sum, DType::BF16, all.get(), size(), out, n);
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
    device::Pool::Block all = combining.take(
        mpiCombinedBytes(CollectiveKind::AllReduce, DType::BF16, n, size()));
    {
      auto lock = progress.lock();
      mpiCheck(MPI_Alltoallv(in, counts.data(), places.data(), MPI_UINT16_T,
                             all.get(), own.data(), ownPlaces.data(),
                             MPI_UINT16_T, comm),
               "MPI_Alltoallv");
    }
    combine(kind, DType::BF16, all.get(), size(), out + begin(place), share);
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
  device::Pool &combining;
  int place = 0;
  uint32_t begun = 0; ///< collectives
};

} // namespace

std::unique_ptr<MpiGroup> makeMpiGroup(MPI_Comm comm, std::vector<int> members,
                                       int number, MessageProgress &progress,
                                       std::map<std::string, Traffic> &traffic,
                                       Blocking &blocking,
                                       device::Pool &combining) {
  return std::make_unique<MpiCollectives>(
      comm, std::move(members), number, progress, traffic, blocking, combining);
}

} // namespace dt::rt
