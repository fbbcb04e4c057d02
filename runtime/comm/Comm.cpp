//===- Comm.cpp - one rank alone, and what does not depend on MPI ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Comm.h"
#include "runtime/comm/Launch.h"
#include "runtime/comm/OwnMail.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace dt::rt {

#ifdef DT_RUNTIME_MPI
/// comm/mpi/Comm.cpp
std::unique_ptr<Comm> startMpi(StatusBoard *board, Comm::AddGroup addGroup);
#endif
/// comm/tcp/Comm.cpp
std::unique_ptr<Comm> startTcp(StatusBoard *board, Comm::AddGroup addGroup);

namespace {

void copyOver(void *to, const void *from, size_t bytes) {
  if (bytes && to != from)
    std::memmove(to, from, bytes);
}

/// A group of this rank only.
class SoloGroup final : public Group {
public:
  explicit SoloGroup(std::map<std::string, Traffic> &traffic)
      : traffic(traffic) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::vector<int> &ranks() const override { return members; }

  void allReduce(Reduction, DType type, const void *in, void *out, int64_t n,
                 const char *label) override {
    pass(in, out, n * sizeOf(type), label);
  }
  Request iallReduce(Reduction, DType type, const void *in, void *out,
                     int64_t n, const char *label) override {
    pass(in, out, n * sizeOf(type), label);
    return {};
  }
  void allGather(const void *in, size_t bytes, void *out,
                 const char *label) override {
    pass(in, out, bytes, label);
  }
  Request iallGather(const void *in, size_t bytes, void *out,
                     const char *label) override {
    pass(in, out, bytes, label);
    return {};
  }
  void allGatherV(const void *in, void *out, const std::vector<size_t> &sizes,
                  const char *label) override {
    pass(in, out, sizes.at(0), label);
  }
  void reduceScatter(DType type, const void *in, void *out, int64_t n,
                     const char *label) override {
    pass(in, out, n * sizeOf(type), label);
  }
  Request ireduceScatter(DType type, const void *in, void *out, int64_t n,
                         const char *label) override {
    pass(in, out, n * sizeOf(type), label);
    return {};
  }
  void allToAll(const void *in, void *out, size_t bytes,
                const char *label) override {
    pass(in, out, bytes, label);
  }
  void shift(const void *in, void *out, size_t bytes,
             const char *label) override {
    pass(in, out, bytes, label);
  }
  void fold(void *, size_t bytes, const AddRecord &,
            const char *label) override {
    count(traffic, label, bytes);
  }
  void broadcast(void *, size_t bytes, int, const char *label) override {
    count(traffic, label, bytes);
  }
  void barrier() override {}

private:
  void pass(const void *in, void *out, size_t bytes, const char *label) {
    count(traffic, label, bytes);
    copyOver(out, in, bytes);
  }
  std::map<std::string, Traffic> &traffic;
  std::vector<int> members = {0};
};

class Solo final : public Comm {
public:
  explicit Solo(StatusBoard *board) { blocked.board = board; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Request isend(const void *data, size_t bytes, int to, int tag,
                const char *label) override {
    expectRank(to);
    count(label, bytes);
    return bytes ? mail.send(data, bytes, tag) : Request();
  }
  Request irecv(void *data, size_t bytes, int from, int tag) override {
    expectRank(from);
    return bytes ? mail.receive(data, bytes, tag) : Request();
  }
  void poll() override {}
  Carrier carrier() const override { return Carrier::Tcp; }
  Group *group(const std::vector<int> &ranks, const std::string &) override {
    if (ranks.size() > 1)
      expectRank(1);
    for (int rank : ranks)
      expectRank(rank);
    return ranks.empty() ? nullptr : &all;
  }
  Group &world() override { return all; }
  int watch(const std::vector<int> &) override { return -1; }
  std::string describe() const override { return "1 rank"; }
  void finish() override {}
  [[noreturn]] void abort(int code) override { std::_Exit(code); }

  int tagLimit() const override { return 0x7fffffff; }

private:
  static void expectRank(int rank) {
    if (rank != 0)
      throw Error("there is no rank " + std::to_string(rank) +
                  ": this process runs alone");
  }
  OwnMail mail;
  SoloGroup all{counters};
};

} // namespace

std::unique_ptr<Comm> Comm::start(StatusBoard *board, AddGroup addGroup) {
  if (!isLaunched())
    return std::make_unique<Solo>(board);
#ifdef DT_RUNTIME_MPI
  if (launchedTransport() == Transport::Mpi)
    return startMpi(board, std::move(addGroup));
#endif
  return startTcp(board, std::move(addGroup));
}

std::vector<std::string> Comm::allGatherText(const std::string &mine) {
  std::vector<uint64_t> lengths(size());
  uint64_t length = mine.size();
  world().allGather(&length, sizeof length, lengths.data(), "setup");
  std::vector<size_t> sizes(lengths.begin(), lengths.end());
  size_t total = 0;
  for (size_t n : sizes)
    total += n;
  std::string all(total, ' ');
  world().allGatherV(mine.data(), &all[0], sizes, "setup");
  std::vector<std::string> texts;
  size_t at = 0;
  for (size_t n : sizes) {
    texts.push_back(all.substr(at, n));
    at += n;
  }
  return texts;
}

std::vector<double> Comm::allGather(const std::vector<double> &mine,
                                    const char *label) {
  std::vector<double> all(mine.size() * size());
  world().allGather(mine.data(), mine.size() * sizeof(double), all.data(),
                    label);
  return all;
}

std::string Comm::firstText(const std::string &mine) {
  struct Speaker {
    int64_t rank = -1; ///< -1: nobody
    uint64_t length = 0;
  } first;
  if (!mine.empty())
    first = {rank(), mine.size()};
  world().fold(
      &first, sizeof first,
      [](void *all, const void *next) {
        if (static_cast<Speaker *>(all)->rank < 0)
          std::memcpy(all, next, sizeof(Speaker));
      },
      "setup");
  if (first.rank < 0)
    return {};
  std::string text = first.rank == rank() ? mine : std::string();
  text.resize(first.length);
  world().broadcast(&text[0], text.size(), int(first.rank), "setup");
  return text;
}

void Comm::agree(const std::string &error) {
  std::string text = firstText(error);
  if (!text.empty())
    throw CommonError(text);
}

void Comm::expectMembers(std::vector<int> members) const {
  std::sort(members.begin(), members.end());
  if (members.empty() || members.front() < 0 || members.back() >= size() ||
      std::adjacent_find(members.begin(), members.end()) != members.end())
    throw Error("a group needs different ranks below " +
                std::to_string(size()));
}

void Comm::expectRanks(int wanted) const {
  if (size() != wanted)
    throw CommonError("the plan has " + std::to_string(wanted) +
                      (wanted == 1 ? " rank" : " ranks") + ", but " +
                      std::to_string(size()) +
                      (size() == 1 ? " runs" : " run") +
                      ": start with --ranks " + std::to_string(wanted));
}

} // namespace dt::rt
