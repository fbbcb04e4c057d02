//===- Comm.cpp - one rank alone, and what does not depend on MPI ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Comm.h"
#include "runtime/comm/mpi/Launch.h"

#include <cstdlib>
#include <cstring>
#include <list>

namespace dt::rt {

#ifdef DT_RUNTIME_MPI
/// comm/mpi/Comm.cpp
std::unique_ptr<Comm> startMpi(StatusBoard *board, Comm::AddGroup addGroup);
#endif

namespace {

void count(std::map<std::string, Traffic> &traffic, const char *label,
           size_t bytes) {
  Traffic &t = traffic[label];
  ++t.calls;
  t.bytes += bytes;
}

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

/// Messages of a rank to itself: they meet when both sides are there.
class SoloMail {
public:
  Request send(const void *data, size_t bytes, int tag) {
    return post({data, nullptr, bytes, tag, false});
  }
  Request receive(void *data, size_t bytes, int tag) {
    return post({nullptr, data, bytes, tag, false});
  }

private:
  struct Letter {
    const void *from;
    void *to;
    size_t bytes;
    int tag;
    bool done;
  };

  struct Waiting final : Request::Operation {
    explicit Waiting(std::shared_ptr<Letter> letter)
        : letter(std::move(letter)) {}
    bool test() override { return letter->done; }
    void wait() override {
      if (!letter->done)
        throw Error("waiting for a message that this rank itself would have to "
                    "send");
    }
    std::shared_ptr<Letter> letter;
  };

  Request post(Letter letter) {
    for (auto it = open.begin(); it != open.end(); ++it) {
      Letter &other = **it;
      if (other.tag != letter.tag || !other.from == !letter.from)
        continue;
      if (other.bytes != letter.bytes)
        throw Error("a message of " + std::to_string(letter.bytes) +
                    " bytes meets a buffer of " + std::to_string(other.bytes));
      copyOver(letter.to ? letter.to : other.to,
               letter.from ? letter.from : other.from, letter.bytes);
      other.done = true;
      open.erase(it);
      return {};
    }
    open.push_back(std::make_shared<Letter>(letter));
    return Request(std::make_unique<Waiting>(open.back()));
  }

  std::list<std::shared_ptr<Letter>> open; ///< in order of posting
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
  SoloMail mail;
  SoloGroup all{counters};
};

} // namespace

std::unique_ptr<Comm> Comm::start(StatusBoard *board, AddGroup addGroup) {
  if (!isLaunched())
    return std::make_unique<Solo>(board);
#ifdef DT_RUNTIME_MPI
  return startMpi(board, std::move(addGroup));
#else
  (void)addGroup;
  if (launchedRanks() > 1)
    throw CommonError("started as " + std::to_string(launchedRanks()) +
                      " ranks, but this program was built without MPI");
  return std::make_unique<Solo>(board);
#endif
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

void Comm::agree(const std::string &error) {
  for (const std::string &text : allGatherText(error))
    if (!text.empty())
      throw CommonError(text);
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
