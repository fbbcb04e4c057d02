//===- Rendezvous.cpp - ranks find each other -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Files.h"
#include "runtime/comm/Comm.h"
#include "runtime/comm/tcp/Checksum.h"
#include "runtime/comm/tcp/Frame.h"
#include "runtime/comm/tcp/Reception.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace dt::rt::tcp {

namespace {

/// Seconds that ranks have for one answer, and a rank that is dropped to come
/// again.
constexpr double kAnswers = 30;
constexpr double kAgain = 0.1;
/// Descriptors beside those of connections: of data, checkpoints, strangers.
constexpr rlim_t kOwnFiles = 128;
/// Seconds that a rank has to say why it goes.
constexpr double kOwnWord = 1.5;

std::string endpoint(const std::string &host, int port) {
  return host.find(':') == std::string::npos
             ? host + ":" + std::to_string(port)
             : "[" + host + "]:" + std::to_string(port);
}

/// "rank 3 on gpu07 (10.0.0.7)".
std::string nameOf(int rank, const std::string &host,
                   const std::string &address) {
  return "rank " + std::to_string(rank) + " on " + host +
         (address.empty() ? "" : " (" + address + ")");
}

/// "2, 5-7 of 8 ranks".
std::string listMissing(const std::vector<Peer> &peers, int first) {
  std::string text;
  int ranks = int(peers.size());
  for (int r = first, end; r < ranks; r = end + 1) {
    for (end = r; end < ranks && !peers[size_t(end)].socket;)
      ++end;
    if (end == r)
      continue;
    text += (text.empty() ? "" : ", ") + std::to_string(r) +
            (end > r + 1 ? "-" + std::to_string(end - 1) : "");
  }
  return text + " of " + std::to_string(ranks) + " ranks";
}

/// A rank has a connection to every other one, and files of its own. Allows
/// itself as many descriptors; throws Error where the system does not.
void expectDescriptors(int ranks) {
  rlimit limit{};
  rlim_t least = rlim_t(ranks) + kOwnFiles, good = least + kOwnFiles;
  if (::getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= good)
    return;
  limit.rlim_cur = std::min(limit.rlim_max, good);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < least)
    throw Error(std::to_string(ranks) + " ranks take " + std::to_string(least) +
                " descriptors in each, but " + std::to_string(limit.rlim_cur) +
                " are allowed (ulimit -Hn)");
}

class Rendezvous {
public:
  Rendezvous(const Meeting &meeting, int rank, int ranks,
             const std::function<void()> &waits)
      : meeting(meeting), rank(rank), ranks(ranks), waits(waits),
        peers(size_t(ranks)) {
    expectDescriptors(ranks);
    peers[size_t(rank)].host = hostName();
  }

  std::vector<Peer> run() {
    if (rank == 0)
      lead();
    else
      follow();
    return std::move(peers);
  }

private:
  //===--- listening ----------------------------------------------------===//

  /// Why a rank that knows the secret is none of those that are to come from
  /// `first` on; empty: it is.
  std::string faultOf(const Announcement &said, int first) const {
    if (textIn(said.run) != textIn(announcement(0, 0).run))
      return "it belongs to another run";
    if (said.ranks != ranks)
      return "it is one of " + std::to_string(said.ranks) + " ranks, not of " +
             std::to_string(ranks);
    if (said.checksums != uint32_t(usesChecksums()))
      return std::string("DT_CHECKSUM is off ") +
             (said.checksums ? "here, and not there" : "there, and not here");
    if (said.rank < first || said.rank >= ranks || said.rank == rank)
      return "there is no rank " + std::to_string(said.rank) + " to come";
    if (peers[size_t(said.rank)].socket)
      return "rank " + std::to_string(said.rank) + " is there already";
    return "";
  }

  void welcome(Comer comer) {
    size_t r = size_t(comer.said.rank);
    peers[r] = {std::move(comer.socket), textIn(comer.said.machine),
                comer.address};
    ports[r] = comer.said.port;
    introductions[r] = comer.introduction;
  }

  bool haveAllCome(int first) const {
    for (int r = first; r < ranks; ++r)
      if (r != rank && !peers[size_t(r)].socket)
        return false;
    return true;
  }

  /// Until all ranks from `first` on have come. Throws Error at the deadline.
  void gather(const Socket &listener, int first) {
    Reception reception(
        listener, meeting.secret, rank, ranks - first,
        [&](const Announcement &said) { return faultOf(said, first); },
        [&](Comer comer) { welcome(std::move(comer)); });
    while (!haveAllCome(first)) {
      if (now() > deadline)
        throw Error("ranks that have not come to " +
                    (rank ? nameOf(rank, hostName(), "")
                          : endpoint(hostName(), meeting.port)) +
                    " after " + std::to_string(int(seconds)) +
                    " s: " + listMissing(peers, first));
      waits();
      expectLeader();
      reception.wait();
    }
  }

  //===--- rank 0 -------------------------------------------------------===//

  /// Where the others find a rank.
  Entry entryOf(int r) const {
    const Peer &peer = peers[size_t(r)];
    Entry entry;
    std::string from = peer.address;
    if (r > 0 && !isLoopback(from) && from != peer.socket.ownAddress())
      putText(entry.address, from);
    putText(entry.machine, peer.host);
    entry.port = ports[size_t(r)];
    return entry;
  }

  void answerAll(Answer answer, const std::vector<Entry> &table) {
    for (int r = 1; r < ranks; ++r) {
      std::string why;
      const Peer &peer = peers[size_t(r)];
      double until = now() + kAnswers;
      answer.proof = introductions[size_t(r)].ofAnswer(
          meeting.secret, /*turn=*/1, answer, table);
      if (peer.socket &&
          (!sendAll(peer.socket, &answer, sizeof answer, until, why) ||
           !sendAll(peer.socket, table.data(), table.size() * sizeof(Entry),
                    until, why)) &&
          !answer.refuses)
        throw Error(nameOf(r, peer.host, peer.address) +
                    " is gone while ranks start: " + why);
    }
  }

  void lead() {
    Socket listener =
        meeting.listener >= 0 ? Socket(meeting.listener) : listen();
    try {
      gather(listener, 1);
    } catch (const Error &e) {
      answerAll(refusal(e.what(), true), {});
      throw CommonError(e.what());
    }
    std::vector<Entry> table;
    for (int r = 0; r < ranks; ++r)
      table.push_back(entryOf(r));
    answerAll({}, table);
  }

  Socket listen() const {
    try {
      return listenOn(meeting.port, meeting.interface());
    } catch (const Error &e) {
      throw Error("rank 0 on " + hostName() + " " + e.what() +
                  " (DT_PORT names another one)");
    }
  }

  //===--- the others ---------------------------------------------------===//

  /// Who closes a connection knows best why, and may still be about to say it.
  static void leaveWord() {
    std::this_thread::sleep_for(std::chrono::duration<double>(kOwnWord));
  }

  /// Rank 0 may begin before this rank is ready. Anything else than messages is
  /// the end: somebody has said why, unless rank 0 is gone.
  void expectLeader() const {
    if (rank == 0)
      return;
    Frame frame;
    ssize_t n = ::recv(peers[0].socket.get(), &frame, sizeof frame, MSG_PEEK);
    if (n == ssize_t(sizeof frame) && frame.kind == Frame::Ends)
      ::_exit(exitAfterFault);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      leaveWord();
      throw Error(nameOf(0, peers[0].host, peers[0].address) +
                  " is gone while ranks start");
    }
  }

  Socket comeTo(int other, const std::string &host, int port, double until) {
    std::string why;
    while (true) {
      Socket socket = connectTo(host, port, until, why);
      if (socket) {
        socket.prepare();
        return socket;
      }
      waits();
      if (now() > until)
        throw Error(nameOf(rank, hostName(), "") + " does not reach rank " +
                    std::to_string(other) + " at " + endpoint(host, port) +
                    " for " + std::to_string(int(now() - deadline + seconds)) +
                    " s: " + why);
      std::this_thread::sleep_for(std::chrono::duration<double>(kAgain));
    }
  }

  Announcement announcement(int other, int port) const {
    Announcement own;
    own.rank = rank;
    own.ranks = ranks;
    own.to = other;
    own.port = uint32_t(port);
    own.checksums = usesChecksums();
    putText(own.run, meeting.run);
    putText(own.machine, hostName());
    return own;
  }

  /// Comes to a rank that listens, until that welcomes this one. What listens
  /// may have to drop connections before it knows whose they are: then this
  /// rank comes again. Throws Error.
  void introduce(int other, const std::string &host, int port, int ownPort) {
    Peer &peer = peers[size_t(other)];
    double until = deadline;
    std::string why;
    while (true) {
      peer.socket = comeTo(other, host, port, until);
      peer.address = peer.socket.peerAddress();
      if (isWelcomed(other, ownPort, why))
        return;
      if (now() > until)
        failGone(other, why);
      until = std::min(until, now() + kAnswers);
      std::this_thread::sleep_for(std::chrono::duration<double>(kAgain));
    }
  }

  /// False, and why: the connection was closed. Throws Error.
  bool isWelcomed(int other, int ownPort, std::string &why) {
    Introduction &introduction = introductions[size_t(other)];
    introduction.guest = makeGreeting();
    Answer answer;
    if (!say(other, &introduction.guest, sizeof introduction.guest, why) ||
        !hear(other, &introduction.host, sizeof introduction.host, why))
      return false;
    expectProof(other);
    Announcement own = announcement(other, ownPort);
    own.proof = introduction.ofGuest(meeting.secret, own);
    if (!say(other, &own, sizeof own, why) ||
        !hear(other, &answer, sizeof answer, why))
      return false;
    expectWelcome(other, /*turn=*/0, answer, {});
    return true;
  }

  /// Throws Error unless what listens has proved to be the rank.
  void expectProof(int other) const {
    const Introduction &introduction = introductions[size_t(other)];
    const Greeting &said = introduction.host;
    if (std::memcmp(said.magic, kMagic, sizeof kMagic))
      failAt(other, "what listens there is no rank of this program");
    if (said.order != kOrder || said.protocol != kProtocol)
      failAt(other, "it is another version of this program (" +
                        std::to_string(said.protocol) + ", not " +
                        std::to_string(kProtocol) + ")");
    if (!areEqual(said.proof, introduction.ofHost(meeting.secret, other)))
      failAt(other, "what listens there does not know this run's secret "
                    "(DT_SECRET is another one there, or it is no rank of "
                    "this run)");
  }

  /// Throws Error; CommonError if everybody is refused.
  void expectWelcome(int other, int turn, const Answer &answer,
                     const std::vector<Entry> &table) const {
    const Introduction &introduction = introductions[size_t(other)];
    if (!areEqual(answer.proof,
                  introduction.ofAnswer(meeting.secret, turn, answer, table)))
      failAt(other, "its answer was changed on the way");
    if (answer.refuses && answer.common)
      throw CommonError(textIn(answer.text));
    if (answer.refuses)
      failAt(other, "it refuses this rank: " + textIn(answer.text));
  }

  bool say(int other, const void *data, size_t bytes, std::string &why) const {
    return sendAll(peers[size_t(other)].socket, data, bytes, now() + kAnswers,
                   why);
  }

  /// In small waits, as others may be busy until the last rank has come.
  bool hear(int other, void *data, size_t bytes, std::string &why) const {
    const Socket &socket = peers[size_t(other)].socket;
    // Rank 0 ends at its own deadline and says so.
    double until = deadline + kAnswers;
    pollfd entry{socket.get(), POLLIN, 0};
    while (::poll(&entry, 1, 100) <= 0 && now() < until)
      waits();
    return receiveAll(socket, data, bytes, until, why);
  }

  [[noreturn]] void failAt(int other, const std::string &why) const {
    const Peer &peer = peers[size_t(other)];
    throw Error(nameOf(rank, hostName(), "") + " gets no answer of " +
                nameOf(other, peer.host, peer.address) + ": " + why);
  }

  [[noreturn]] void failGone(int other, const std::string &why) const {
    leaveWord();
    failAt(other, why);
  }

  void follow() {
    Socket listener = listenOn(0, meeting.interface());
    peers[0].host = meeting.host;
    introduce(0, meeting.host, meeting.port, listener.ownPort());
    std::vector<Entry> table = hearTable();
    try {
      join(listener, table);
    } catch (const Error &) {
      // This rank says why; rank 0 tells the others.
      Frame ends{Frame::Ends, 0, 0, 0, 0};
      if (usesChecksums())
        ends.head = checksum(&ends, offsetof(Frame, head));
      std::string why;
      sendAll(peers[0].socket, &ends, sizeof ends, now(), why);
      throw;
    }
  }

  /// Rank 0's second answer. A refusal comes without a table.
  std::vector<Entry> hearTable() {
    Answer answer;
    std::vector<Entry> table;
    std::string why;
    if (!hear(0, &answer, sizeof answer, why))
      failGone(0, why);
    if (!answer.refuses) {
      table.resize(size_t(ranks));
      if (!hear(0, table.data(), table.size() * sizeof(Entry), why))
        failGone(0, why);
    }
    expectWelcome(0, /*turn=*/1, answer, table);
    return table;
  }

  /// A rank comes to all lower ones before it listens: rank 1 listens at once,
  /// so no circle of waits arises.
  void join(const Socket &listener, const std::vector<Entry> &table) {
    deadline = now() + (seconds = kAnswers);
    for (int r = 0; r < ranks; ++r)
      if (r != rank)
        peers[size_t(r)].host = textIn(table[size_t(r)].machine);
    for (int r = 1; r < rank; ++r) {
      std::string address = textIn(table[size_t(r)].address);
      if (address.empty())
        address = peers[0].address;
      introduce(r, address, int(table[size_t(r)].port), 0);
    }
    gather(listener, rank + 1);
  }

  const Meeting &meeting;
  int rank, ranks;
  const std::function<void()> &waits;
  double seconds = meeting.timeout; ///< that ranks have to come
  double deadline = now() + seconds;
  std::vector<Peer> peers;
  std::vector<uint32_t> ports = std::vector<uint32_t>(size_t(ranks), 0u);
  std::vector<Introduction> introductions =
      std::vector<Introduction>(size_t(ranks));
};

} // namespace

std::vector<Peer> meet(const Meeting &meeting, int rank, int ranks,
                       const std::function<void()> &waits) {
  return Rendezvous(meeting, rank, ranks, waits).run();
}

} // namespace dt::rt::tcp
