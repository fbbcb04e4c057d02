//===- RendezvousTest.cpp - who may be a rank of a run ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Ranks in threads meet while others do what they can to be one of them.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/base/Clock.h"
#include "runtime/comm/tcp/Introduction.h"
#include "runtime/comm/tcp/Reception.h"
#include "test/runtime/TestSupport.h"

#include <cstdlib>
#include <future>
#include <optional>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace dt::rt;
using namespace dt::rt::tcp;

namespace {

constexpr int kRanks = 3;
constexpr const char *kShared = "a secret of many characters";

class Ranks : public ::testing::Test {
protected:
  Ranks() : listener(listenOn(0, kLoopback)) { port = listener.ownPort(); }

  Meeting meeting(const std::string &secret, double timeout = 60) const {
    Meeting m;
    m.host = kLoopback;
    m.port = port;
    m.timeout = timeout;
    m.secret = secret;
    return m;
  }
  /// A rank meets the others: the error's text, if it does not.
  std::future<std::string> start(int rank, const std::string &secret = kShared,
                                 double timeout = 60) {
    Meeting m = meeting(secret, timeout);
    if (rank == 0)
      m.listener = ::dup(listener.get());
    return std::async(std::launch::async, [this, m, rank]() -> std::string {
      try {
        std::vector<Peer> &own = peers[size_t(rank)];
        own = meet(m, rank, kRanks, [] {});
        for (int r = 0; r < kRanks; ++r)
          if (bool(own[size_t(r)].socket) != (r != rank))
            return "no connection to rank " + std::to_string(r);
        return "met";
      } catch (const Error &e) {
        return e.what();
      }
    });
  }
  Socket connectAsStranger() const {
    std::string why;
    return connectTo(kLoopback, port, now() + 30, why);
  }
  /// Greets rank 0: what both have said.
  Introduction greet(const Socket &socket) const {
    Introduction said;
    said.guest = makeGreeting();
    std::string why;
    EXPECT_TRUE(
        sendAll(socket, &said.guest, sizeof said.guest, now() + 30, why));
    EXPECT_TRUE(
        receiveAll(socket, &said.host, sizeof said.host, now() + 30, why));
    return said;
  }
  static Announcement announcement(int rank) {
    Announcement own;
    own.rank = rank;
    own.ranks = kRanks;
    own.port = 1;
    own.checksums = 1;
    return own;
  }
  /// What rank 0 answers; nothing: it closes the connection.
  std::optional<Answer> announce(const Socket &socket,
                                 const Announcement &own) const {
    Answer answer;
    std::string why;
    if (sendAll(socket, &own, sizeof own, now() + 30, why) &&
        receiveAll(socket, &answer, sizeof answer, now() + 30, why))
      return answer;
    return std::nullopt;
  }
  /// The others come, and all meet.
  void expectMeeting(std::future<std::string> first) {
    auto second = start(1), third = start(2);
    EXPECT_EQ(first.get(), "met");
    EXPECT_EQ(second.get(), "met");
    EXPECT_EQ(third.get(), "met");
  }

  Socket listener;
  int port;
  std::vector<Peer> peers[kRanks]; ///< connections stay until all have met
};

TEST_F(Ranks, Meet) { expectMeeting(start(0)); }

TEST_F(Ranks, MeetWithoutASecret) {
  auto first = start(0, ""), second = start(1, ""), third = start(2, "");
  EXPECT_EQ(first.get(), "met");
  EXPECT_EQ(second.get(), "met");
  EXPECT_EQ(third.get(), "met");
}

TEST_F(Ranks, AreNotReplacedByWhoDoesNotKnowTheSecret) {
  auto first = start(0);
  Socket socket = connectAsStranger();
  Introduction said = greet(socket);
  Announcement own = announcement(1);
  own.proof = said.ofGuest("another secret altogether", own);
  EXPECT_FALSE(announce(socket, own));
  // The host's own proof, sent back.
  socket = connectAsStranger();
  own.proof = greet(socket).host.proof;
  EXPECT_FALSE(announce(socket, own));
  expectMeeting(std::move(first));
}

TEST_F(Ranks, AreNotReplacedByWhatARankSaidBefore) {
  auto first = start(0);
  Socket honest = connectAsStranger(), replayed = connectAsStranger();
  Introduction heard = greet(honest), said;
  Announcement own = announcement(1);
  own.proof = heard.ofGuest(kShared, own);
  std::string why;
  said.guest = heard.guest;
  ASSERT_TRUE(
      sendAll(replayed, &said.guest, sizeof said.guest, now() + 30, why));
  ASSERT_TRUE(
      receiveAll(replayed, &said.host, sizeof said.host, now() + 30, why));
  EXPECT_NE(said.host.nonce, heard.host.nonce);
  EXPECT_FALSE(announce(replayed, own));
  // What a rank says to another one is no proof here.
  own.to = 2;
  own.proof = heard.ofGuest(kShared, own);
  EXPECT_FALSE(announce(honest, own));
  expectMeeting(std::move(first));
}

TEST_F(Ranks, ThatAreThereStay) {
  auto first = start(0), second = start(1);
  std::optional<Answer> answer;
  // Whichever is first; the other is told.
  for (int i = 0; i < 100; ++i) {
    Socket socket = connectAsStranger();
    Introduction said = greet(socket);
    Announcement own = announcement(5);
    own.proof = said.ofGuest(kShared, own);
    answer = announce(socket, own);
  }
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->refuses);
  EXPECT_EQ(textIn(answer->text), "there is no rank 5 to come");
  auto third = start(2);
  EXPECT_EQ(first.get(), "met");
  EXPECT_EQ(second.get(), "met");
  EXPECT_EQ(third.get(), "met");
}

/// More than rank 0 listens to at a time, silent or with a greeting.
TEST_F(Ranks, ComeThroughAFlood) {
  auto first = start(0);
  std::vector<Socket> strangers;
  Greeting greeting = makeGreeting();
  std::string why;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(connectAsStranger());
    if (i % 2)
      sendAll(strangers.back(), &greeting, sizeof greeting, now() + 30, why);
  }
  auto flood = std::async(std::launch::async, [&] {
    for (int i = 0; i < 2000; ++i)
      strangers[size_t(i) % strangers.size()] = connectAsStranger();
  });
  expectMeeting(std::move(first));
  listener.close(); // nobody accepts what still comes
  flood.get();
}

TEST_F(Ranks, DoNotTellAStrangerWhoTheyAre) {
  auto second = start(1);
  Socket listening = Socket(::dup(listener.get()));
  int fd;
  while ((fd = ::accept(listening.get(), nullptr, nullptr)) < 0)
    ::usleep(1000);
  Socket socket(fd);
  Introduction said;
  std::string why;
  ASSERT_TRUE(
      receiveAll(socket, &said.guest, sizeof said.guest, now() + 30, why));
  said.host = makeGreeting();
  said.host.proof = said.ofHost("another secret altogether", 0);
  ASSERT_TRUE(sendAll(socket, &said.host, sizeof said.host, now() + 30, why));
  EXPECT_NE(second.get().find("what listens there does not know this run's "
                              "secret (DT_SECRET is another one there, or it "
                              "is no rank of this run)"),
            std::string::npos);
  char more;
  EXPECT_FALSE(receiveAll(socket, &more, 1, now() + 30, why));
}

TEST_F(Ranks, WithAnotherSecretAreNotWelcome) {
  auto first = start(0);
  auto other = start(1, "a secret of more characters");
  EXPECT_CONTAINS(other.get(), "does not know this run's secret");
  expectMeeting(std::move(first));
}

TEST_F(Ranks, ThatDoNotComeAreMissed) {
  EXPECT_CONTAINS(start(0, kShared, /*timeout=*/1).get(),
                  "ranks that have not come");
}

/// Neither who connects nor who listens waits for the end of the time.
TEST(Descriptors, AreSaidToBeMissing) {
  Socket listener = listenOn(0, kLoopback);
  std::string why;
  Socket waits = connectTo(kLoopback, listener.ownPort(), now() + 30, why);
  Reception reception(
      listener, kShared, /*rank=*/0, /*expected=*/1,
      [](const Announcement &) { return ""; }, [](Comer) {});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  int next = ::dup(listener.get());
  ::close(next);
  none.rlim_cur = rlim_t(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string made = errorOf(
      [&] { connectTo(kLoopback, listener.ownPort(), now() + 30, why); });
  std::string taken = errorOf([&] {
    while (true)
      reception.wait();
  });
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(made, "no connection to another rank can be made: Too many open "
                  "files (ulimit -n)");
  EXPECT_EQ(taken, "no connection of another rank can be taken: Too many open "
                   "files (ulimit -n)");
}

} // namespace
