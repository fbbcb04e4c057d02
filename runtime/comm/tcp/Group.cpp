//===- Group.cpp - collectives over messages ------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Group.h"
#include "runtime/comm/Combine.h"

#include <algorithm>
#include <cstring>

namespace dt::rt::tcp {

namespace {

void copyOver(void *to, const void *from, size_t bytes) {
  if (bytes && to != from)
    std::memmove(to, from, bytes);
}

} // namespace

bool hasEnded(const Transfer &transfer) {
  if (!transfer.ended.load())
    return false;
  if (!transfer.error.empty())
    throw Error(transfer.error);
  return true;
}

//===----------------------------------------------------------------------===//
// What is under way
//===----------------------------------------------------------------------===//

Message::~Message() {
  if (!transfer->ended.load())
    shared.messages.cancel(*transfer);
}

bool Message::test() {
  shared.advanceAll();
  return hasEnded(*transfer);
}

void Message::wait() {
  BlockingCall waits(shared.blocking, awaited, false);
  shared.waitUntil([&] { return hasEnded(*transfer); });
}

/// A collective under way: rounds of messages, and work between them.
class Rounds final : public Request::Operation {
public:
  /// Posts the messages of the next round, after work on what the last one
  /// brought; false: there is none.
  using Next = std::function<bool(Rounds &)>;
  Rounds(Shared &shared, const std::vector<int> &members, uint64_t tag,
         const Awaited &awaited, Next next)
      : shared(shared), members(members), tag(tag), awaited(awaited),
        next(std::move(next)),
        place(shared.open.insert(shared.open.end(), this)) {}
  ~Rounds() override {
    shared.open.erase(place);
    for (const TransferPtr &transfer : pending)
      if (!transfer->ended.load())
        shared.messages.cancel(*transfer);
  }

  void send(int to, const void *data, size_t bytes) {
    if (bytes)
      pending.push_back(
          shared.messages.send(members[size_t(to)], tag, data, bytes));
  }
  void receive(int from, void *data, size_t bytes) {
    if (bytes)
      pending.push_back(
          shared.messages.receive(members[size_t(from)], tag, data, bytes));
  }

  /// Whether all is done; goes on if it can.
  bool advance() {
    while (!ended) {
      while (!pending.empty() && hasEnded(*pending.back()))
        pending.pop_back();
      if (!pending.empty())
        return false;
      ended = !next(*this);
    }
    return true;
  }

  bool test() override {
    shared.advanceAll();
    return ended;
  }
  void wait() override {
    BlockingCall waits(shared.blocking, awaited, false);
    complete();
  }
  /// What blocks meanwhile is counted by the caller.
  void complete() {
    shared.waitUntil([&] { return ended; });
  }

private:
  Shared &shared;
  const std::vector<int> &members;
  uint64_t tag;
  Awaited awaited;
  Next next;
  std::vector<TransferPtr> pending;
  bool ended = false;
  std::list<Rounds *>::iterator place;
};

void Shared::advanceAll() {
  for (Rounds *rounds : open)
    rounds->advance();
}

namespace {

//===----------------------------------------------------------------------===//
// Combining
//===----------------------------------------------------------------------===//

/// All-reduce and reduce-scatter: of each piece every rank combines a share
/// that the others send to it.
struct Reduce {
  Reduction kind;
  DType type;
  const char *in;
  char *out;
  int64_t count; ///< elements of `in`, or of each of its blocks
  int rank, size;
  /// Everybody combines everything; each a share that all get; each its block.
  enum Form { All, Shares, Blocks } form;

  /// For a share of every rank; the first piece is the largest.
  std::shared_ptr<device::Pool::Block> block;
  int64_t at = 0, piece = 0; ///< elements: what is done, what is under way
  bool combined = true;

  /// What rank r combines of the piece, in elements.
  int64_t beginOf(int r) const {
    return form == Shares   ? at + piece * r / size
           : form == Blocks ? r * count + at
                            : at;
  }
  int64_t lengthOf(int r) const {
    return form == Shares ? piece * (r + 1) / size - piece * r / size : piece;
  }
  size_t bytes(int64_t elements) const {
    return size_t(elements) * sizeOf(type);
  }
  char *stage(int r) const {
    return reinterpret_cast<char *>(block->get()) + r * bytes(lengthOf(rank));
  }

  /// Every rank's numbers of this rank's share come here.
  bool exchange(Rounds &rounds) {
    at += piece;
    if (at >= count)
      return false;
    int64_t most = int64_t(kReducePiece / sizeOf(type));
    piece = std::min(count - at,
                     form == Shares ? most : std::max<int64_t>(1, most / size));
    for (int step = 1; step < size; ++step) {
      int from = (rank + size - step) % size, to = (rank + step) % size;
      rounds.receive(from, stage(from), bytes(lengthOf(rank)));
      rounds.send(to, in + bytes(beginOf(to)), bytes(lengthOf(to)));
    }
    copyOver(stage(rank), in + bytes(beginOf(rank)), bytes(lengthOf(rank)));
    combined = false;
    return true;
  }

  /// In the order of ranks; then all get it, if they are to.
  bool finishPiece(Rounds &rounds) {
    combined = true;
    char *mine = out + bytes(form == Blocks ? at : beginOf(rank));
    combine(kind, type, stage(0), size, mine, lengthOf(rank));
    for (int step = 1; form == Shares && step < size; ++step) {
      int from = (rank + size - step) % size, to = (rank + step) % size;
      rounds.receive(from, out + bytes(beginOf(from)), bytes(lengthOf(from)));
      rounds.send(to, mine, bytes(lengthOf(rank)));
    }
    return true;
  }

  bool operator()(Rounds &rounds) {
    return combined ? exchange(rounds) : finishPiece(rounds);
  }
};

//===----------------------------------------------------------------------===//
// Trees
//===----------------------------------------------------------------------===//

/// A place in a binomial tree with root 0: the parent of p is p without its
/// lowest bit, and the places below p are those from p on, as many as that bit
/// says.
struct Branch {
  int place, size;
  int bit = 1; ///< the lowest of `place`; of the root one that no place has

  Branch(int place, int size) : place(place), size(size) {
    while (bit < size && !(place & bit))
      bit *= 2;
  }
  int parent() const { return place - bit; }
  /// Of the child at `place + step`: places in its branch, itself too.
  int below(int step) const { return std::min(step, size - place - step); }
  int all() const { return std::min(bit, size - place); }
  /// body(step) for each child, the one with the largest branch first.
  template <typename F> void children(F body) const {
    for (int step = bit / 2; step > 0; step /= 2)
      if (place + step < size)
        body(step);
  }
};

/// Records go up a tree side by side, are added at its root in the order of
/// ranks, and the result goes down.
struct Fold {
  Branch branch;
  void *record;
  size_t bytes;
  Group::AddRecord add;
  std::vector<char> records = {}; ///< of the branch
  int round = 0;

  char *at(int step) { return records.data() + bytes * size_t(step); }

  void gather(Rounds &rounds) {
    records.resize(bytes * size_t(branch.all()));
    copyOver(at(0), record, bytes);
    branch.children([&](int step) {
      rounds.receive(branch.place + step, at(step),
                     bytes * size_t(branch.below(step)));
    });
  }
  void turn(Rounds &rounds) {
    if (branch.place) {
      rounds.send(branch.parent(), at(0), records.size());
      return rounds.receive(branch.parent(), record, bytes);
    }
    for (int r = 1; r < branch.size; ++r)
      add(record, at(r));
  }
  void spread(Rounds &rounds) {
    branch.children(
        [&](int step) { rounds.send(branch.place + step, record, bytes); });
  }

  bool operator()(Rounds &rounds) {
    switch (round++) {
    case 0:
      gather(rounds);
      return true;
    case 1:
      turn(rounds);
      return true;
    case 2:
      spread(rounds);
      return true;
    }
    return false;
  }
};

//===----------------------------------------------------------------------===//
// The group
//===----------------------------------------------------------------------===//

class TcpGroup final : public Group {
public:
  TcpGroup(Shared &shared, std::vector<int> members, int rank, int number)
      : shared(shared), members(std::move(members)), number(number),
        place(int(std::find(this->members.begin(), this->members.end(), rank) -
                  this->members.begin())) {}

  int rank() const override { return place; }
  int size() const override { return int(members.size()); }
  const std::vector<int> &ranks() const override { return members; }

  void allReduce(Reduction kind, DType type, const void *in, void *out,
                 int64_t n, const char *label) override {
    block(label, n * sizeOf(type), reduce(kind, type, in, out, n));
  }
  Request iallReduce(Reduction kind, DType type, const void *in, void *out,
                     int64_t n, const char *label) override {
    if (type == DType::BF16 && kind != Reduction::Sum)
      throw Error("bf16 is only summed while other work goes on");
    return start(label, n * sizeOf(type), reduce(kind, type, in, out, n));
  }

  void allGather(const void *in, size_t bytes, void *out,
                 const char *label) override {
    block(label, bytes, gather(in, out, equal(bytes)));
  }
  Request iallGather(const void *in, size_t bytes, void *out,
                     const char *label) override {
    return start(label, bytes, gather(in, out, equal(bytes)));
  }
  void allGatherV(const void *in, void *out, const std::vector<size_t> &sizes,
                  const char *label) override {
    block(label, sizes.at(size_t(place)), gather(in, out, sizes));
  }

  void reduceScatter(DType type, const void *in, void *out, int64_t n,
                     const char *label) override {
    block(label, n * sizeOf(type) * members.size(), scatter(type, in, out, n));
  }
  Request ireduceScatter(DType type, const void *in, void *out, int64_t n,
                         const char *label) override {
    return start(label, n * sizeOf(type) * members.size(),
                 scatter(type, in, out, n));
  }

  void allToAll(const void *in, void *out, size_t bytes,
                const char *label) override {
    block(label, bytes * members.size(),
          once([this, in, out, bytes](Rounds &rounds) {
            copyOver(at(out, bytes, place), at(in, bytes, place), bytes);
            others([&](int from, int to) {
              rounds.receive(from, at(out, bytes, from), bytes);
              rounds.send(to, at(in, bytes, to), bytes);
            });
          }));
  }
  void shift(const void *in, void *out, size_t bytes,
             const char *label) override {
    block(label, bytes, once([this, in, out, bytes](Rounds &rounds) {
            rounds.receive((place + size() - 1) % size(), out, bytes);
            rounds.send((place + 1) % size(), in, bytes);
          }));
  }
  void fold(void *record, size_t bytes, const AddRecord &add,
            const char *label) override {
    block(label, bytes, Fold{{place, size()}, record, bytes, add});
  }
  /// Down a tree whose root is the group's rank `root`.
  void broadcast(void *data, size_t bytes, int root,
                 const char *label) override {
    Branch branch((place + size() - root) % size(), size());
    auto rankOf = [this, root](int p) { return (p + root) % size(); };
    block(label, root == place ? bytes : 0,
          [rankOf, branch, data, bytes,
           round = branch.place ? 0 : 1](Rounds &rounds) mutable {
            if (round == 0)
              rounds.receive(rankOf(branch.parent()), data, bytes);
            if (round == 1)
              branch.children([&](int step) {
                rounds.send(rankOf(branch.place + step), data, bytes);
              });
            return round++ < 2;
          });
  }
  void barrier() override {
    char nothing = 0; // no message is without bytes
    BlockingCall blocks(shared.blocking, begins("barrier"));
    run(Fold{{place, size()}, &nothing, 1, [](void *, const void *) {}});
  }

private:
  using Next = Rounds::Next;

  static char *at(void *data, size_t bytes, int place) {
    return static_cast<char *>(data) + bytes * size_t(place);
  }
  static const char *at(const void *data, size_t bytes, int place) {
    return static_cast<const char *>(data) + bytes * size_t(place);
  }
  std::vector<size_t> equal(size_t bytes) const {
    return std::vector<size_t>(members.size(), bytes);
  }
  /// body(from, to): the next before and behind this one first, so that not all
  /// send to the same rank.
  template <typename F> void others(F body) const {
    for (int step = 1; step < size(); ++step)
      body((place + size() - step) % size(), (place + step) % size());
  }
  /// One round.
  template <typename F> static Next once(F post) {
    return [post, begun = false](Rounds &rounds) mutable {
      if (begun)
        return false;
      post(rounds);
      return begun = true;
    };
  }

  Next gather(const void *in, void *out, std::vector<size_t> sizes) {
    return once([this, in, out, sizes = std::move(sizes)](Rounds &rounds) {
      std::vector<char *> places;
      char *end = static_cast<char *>(out);
      for (size_t bytes : sizes) {
        places.push_back(end);
        end += bytes;
      }
      copyOver(places[size_t(place)], in, sizes[size_t(place)]);
      others([&](int from, int to) {
        rounds.receive(from, places[size_t(from)], sizes[size_t(from)]);
        rounds.send(to, in, sizes[size_t(place)]);
      });
    });
  }
  Next reduce(Reduction kind, DType type, const void *in, void *out,
              int64_t n) const {
    expectCombined(type);
    return Reduce{kind,
                  type,
                  static_cast<const char *>(in),
                  static_cast<char *>(out),
                  n,
                  place,
                  size(),
                  combinesAll(type, n, size()) ? Reduce::All : Reduce::Shares,
                  blockFor(CollectiveKind::AllReduce, type, n)};
  }
  Next scatter(DType type, const void *in, void *out, int64_t n) const {
    expectCombined(type);
    return Reduce{Reduction::Sum,
                  type,
                  static_cast<const char *>(in),
                  static_cast<char *>(out),
                  n,
                  place,
                  size(),
                  Reduce::Blocks,
                  blockFor(CollectiveKind::ReduceScatter, type, n * size())};
  }
  std::shared_ptr<device::Pool::Block> blockFor(CollectiveKind kind, DType type,
                                                int64_t count) const {
    return std::make_shared<device::Pool::Block>(
        shared.combining.take(combinedBytes(kind, type, count, size())));
  }

  /// The next of this group's collectives begins.
  Awaited begins(const char *label) {
    ++begun;
    int group = members.size() > 1 ? number + kFirstGroup : -1;
    if (shared.blocking.board)
      shared.blocking.board->enter(group, begun);
    return {Awaited::Collective, -1, group, begun, label};
  }
  /// Tags of groups are no tags of messages, whose upper half is 0.
  uint64_t tag() const { return uint64_t(number + 1) << 32 | begun; }

  void run(Next next) {
    Rounds(shared, members, tag(), {}, std::move(next)).complete();
  }
  void block(const char *label, size_t bytes, Next next) {
    count(shared.traffic, label, bytes);
    BlockingCall blocks(shared.blocking, begins(label));
    run(std::move(next));
  }
  Request start(const char *label, size_t bytes, Next next) {
    count(shared.traffic, label, bytes);
    Awaited awaited = begins(label);
    auto rounds = std::make_unique<Rounds>(shared, members, tag(), awaited,
                                           std::move(next));
    rounds->advance();
    return Request(std::move(rounds));
  }

  Shared &shared;
  std::vector<int> members;
  int number, place;
  uint32_t begun = 0; ///< collectives
};

} // namespace

std::unique_ptr<Group> makeGroup(Shared &shared, std::vector<int> members,
                                 int rank, int number) {
  return std::make_unique<TcpGroup>(shared, std::move(members), rank, number);
}

} // namespace dt::rt::tcp
