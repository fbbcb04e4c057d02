//===- GroupTest.cpp - trees of ranks -------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Ranks are threads here, with a connection for every pair; messages are
// counted.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Group.h"
#include "test/runtime/TestSupport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <utility>
#include <vector>

using namespace dt::rt;
using namespace dt::rt::tcp;

namespace {

/// A rank without a launcher.
class ThreadRank final : public Comm {
public:
  ThreadRank(int rank, int ranks, std::vector<Peer> peers)
      : place(rank), ranks(ranks),
        messages(rank, std::move(peers), /*board=*/nullptr) {
    std::vector<int> members;
    for (int r = 0; r < ranks; ++r)
      members.push_back(r);
    all = makeGroup(shared, members, place, /*number=*/0);
  }
  int rank() const override { return place; }
  int size() const override { return ranks; }
  Request isend(const void *, size_t, int, int, const char *) override {
    return {};
  }
  Request irecv(void *, size_t, int, int) override { return {}; }
  void poll() override {}
  Carrier carrier() const override { return Carrier::Tcp; }
  Group *group(const std::vector<int> &, const std::string &) override {
    return all.get();
  }
  Group &world() override { return *all; }
  int watch(const std::vector<int> &) override { return 0; }
  std::string describe() const override { return ""; }
  void finish() override { messages.close(); }
  [[noreturn]] void abort(int code) override { std::_Exit(code); }

  uint64_t sent() { return messages.countSent(); }

private:
  int place, ranks;
  Messages messages;
  Shared shared{messages, counters, blocked, combining()};
  std::unique_ptr<Group> all;
};

/// Of 33 ranks every pair has two descriptors: more than the 1024 that are
/// usual.
void allowDescriptors() {
  rlimit limit{};
  const rlim_t good = 2048;
  if (::getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= good)
    return;
  limit.rlim_cur = std::min(limit.rlim_max, good);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Calls body(rank) in a thread of each of so many ranks; `dead` goes without a
/// word.
template <typename F> void onRanks(int ranks, F body, int dead = -1) {
  allowDescriptors();
  std::vector<std::vector<Peer>> peers;
  for (int r = 0; r < ranks; ++r)
    peers.emplace_back(size_t(ranks));
  for (int a = 0; a < ranks; ++a)
    for (int b = a + 1; b < ranks; ++b) {
      int ends[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
      peers[size_t(a)][size_t(b)] = {Socket(ends[0]), "here", ""};
      peers[size_t(b)][size_t(a)] = {Socket(ends[1]), "here", ""};
    }
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      ThreadRank rank(r, ranks, std::move(peers[size_t(r)]));
      if (r == dead)
        return;
      body(rank);
      rank.finish();
    });
  for (std::thread &thread : threads)
    thread.join();
}

constexpr int kMost = 9;
const int kManyRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, kMost, 17, 33};

int log2Up(int n) {
  int log = 0;
  while ((1 << log) < n)
    ++log;
  return log;
}

/// Messages that `call` takes, of all ranks; and the most of one.
template <typename F> std::pair<uint64_t, uint64_t> messagesOf(int n, F call) {
  std::vector<uint64_t> sent(size_t(n), 0u);
  onRanks(n, [&](ThreadRank &rank) {
    uint64_t before = rank.sent();
    call(rank);
    sent[size_t(rank.rank())] = rank.sent() - before;
  });
  std::pair<uint64_t, uint64_t> out{0, 0};
  for (uint64_t count : sent)
    out = {out.first + count, std::max(out.second, count)};
  return out;
}

TEST(TcpTree, AFoldTakesTwoMessagesARank) {
  for (int n : kManyRanks) {
    auto [all, most] = messagesOf(n, [](ThreadRank &rank) {
      int one = 1;
      rank.world().fold(
          &one, sizeof one,
          [](void *sum, const void *next) {
            *static_cast<int *>(sum) += *static_cast<const int *>(next);
          },
          "test");
      EXPECT_EQ(one, rank.size());
    });
    EXPECT_EQ(all, uint64_t(2 * (n - 1))) << n << " ranks";
    EXPECT_LE(most, uint64_t(log2Up(n))) << n << " ranks";
  }
}

/// The order of ranks, and what one rank alone would compute: the same bits.
TEST(TcpTree, RecordsAreAddedInTheOrderOfRanks) {
  auto roughOf = [](int rank) { return 1. / (1 + rank * 7919 % 1003); };
  for (int n : kManyRanks) {
    double expected = roughOf(0);
    std::string order = "0";
    for (int r = 1; r < n; ++r)
      expected += roughOf(r), order += " " + std::to_string(r);
    onRanks(n, [&](ThreadRank &rank) {
      double sum = roughOf(rank.rank());
      rank.world().fold(
          &sum, sizeof sum,
          [](void *all, const void *next) {
            *static_cast<double *>(all) += *static_cast<const double *>(next);
          },
          "test");
      EXPECT_EQ(sum, expected);
      std::string seen = "0";
      int own = rank.rank();
      rank.world().fold(
          &own, sizeof own,
          [&](void *, const void *next) {
            seen += " " + std::to_string(*static_cast<const int *>(next));
          },
          "test");
      EXPECT_EQ(own, 0);
      if (rank.rank() == 0)
        EXPECT_EQ(seen, order);
    });
  }
}

TEST(TcpTree, ABarrierAndAnAgreementOfNobody) {
  for (int n : kManyRanks) {
    uint64_t tree = uint64_t(2 * (n - 1));
    EXPECT_EQ(
        messagesOf(n, [](ThreadRank &rank) { rank.world().barrier(); }).first,
        tree);
    EXPECT_EQ(messagesOf(n, [](ThreadRank &rank) { rank.agree(""); }).first,
              tree);
  }
}

/// Whoever disagrees, all ranks have its words; of several the lowest speaks.
/// The words go down a tree of their own.
TEST(TcpTree, WhoDisagreesIsNamedWhereverItStands) {
  for (int n = 2; n <= kMost; ++n)
    for (int first = 0; first < n; ++first) {
      auto [all, most] = messagesOf(n, [&](ThreadRank &rank) {
        int r = rank.rank();
        std::string mine =
            r < first ? "" : "rank " + std::to_string(r) + " is wrong";
        try {
          rank.agree(mine);
          ADD_FAILURE() << "rank " << r << " of " << n << " agrees";
        } catch (const CommonError &e) {
          EXPECT_EQ(e.what(), "rank " + std::to_string(first) + " is wrong");
        }
      });
      EXPECT_EQ(all, uint64_t(3 * (n - 1)));
      EXPECT_LE(most, uint64_t(2 * log2Up(n)));
    }
}

/// A barrier ends nowhere before the last rank has come, whichever that is.
TEST(TcpTree, ABarrierWaitsForEverybody) {
  for (int late = 0; late < 5; ++late) {
    std::atomic<bool> come{false};
    onRanks(5, [&](ThreadRank &rank) {
      if (rank.rank() == late) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        come = true;
      }
      rank.world().barrier();
      EXPECT_TRUE(come);
    });
  }
}

/// One of the ranks says it; whoever it tells may end the process first.
bool endsTheRun(int status) {
  return WIFEXITED(status) &&
         (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == exitAfterFault);
}
[[noreturn]] void agreeWithout(int dead) {
  onRanks(4, [](ThreadRank &rank) { rank.agree(""); }, dead);
  std::_Exit(0);
}

/// At the tree's root, within it and at its leaves.
TEST(TcpTreeDeathTest, ARankThatIsGoneIsNamed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (int dead : {0, 2, 3})
    EXPECT_EXIT(agreeWithout(dead), endsTheRun,
                "^error: rank " + std::to_string(dead) + " on here is gone: ");
}

} // namespace
