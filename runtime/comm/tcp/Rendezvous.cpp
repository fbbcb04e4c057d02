//===- Rendezvous.cpp - ranks find each other -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/comm/Comm.h"
#include "runtime/comm/tcp/Checksum.h"
#include "runtime/comm/tcp/Frame.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <list>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace dt::rt::tcp {

namespace {

constexpr char kMagic[8] = {'D', 'T', 'r', 'a', 'n', 'k', 's', '\n'};
constexpr uint32_t kOrder = 0x01020304;
/// Seconds that a connection has for its announcement, and for one answer.
constexpr double kAnnounces = 10, kAnswers = 30;
/// Connections that have said nothing yet, beyond one for each rank.
constexpr size_t kStrangers = 64;
/// Lines about what was dropped.
constexpr int kLines = 10;
constexpr double kAgain = 0.1;

template <size_t N> void put(char (&to)[N], const std::string &text) {
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}
template <size_t N> std::string textIn(const char (&from)[N]) {
  return {from, ::strnlen(from, N)};
}

/// What a rank says first, to rank 0 (`secret` is 0 then) and to others.
struct Announcement {
  char magic[8];
  uint32_t order = kOrder, protocol = kProtocol;
  int32_t rank = 0, ranks = 0;
  uint32_t port = 0, checksums = usesChecksums();
  uint64_t secret = 0;
  char run[128] = {};
  char host[64] = {};
};

/// The answer; of rank 0 the table follows, unless it refuses.
struct Answer {
  char magic[8];
  uint32_t refuses = 0;
  uint32_t common = 0; ///< everybody is refused
  uint64_t secret = 0; ///< what only ranks of this run know
  char text[360] = {}; ///< why
};

/// Where to find a rank. Without an address: where rank 0 is.
struct Entry {
  char address[64] = {};
  char host[64] = {};
  uint32_t port = 0;
};

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

Answer refusal(const std::string &why, bool common = false) {
  Answer answer;
  std::memcpy(answer.magic, kMagic, sizeof kMagic);
  answer.refuses = 1;
  answer.common = common;
  put(answer.text, why);
  return answer;
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

class Rendezvous {
public:
  Rendezvous(const Meeting &meeting, int rank, int ranks,
             const std::function<void()> &waits)
      : meeting(meeting), rank(rank), ranks(ranks), waits(waits),
        peers(size_t(ranks)) {
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
  /// A connection that has not announced itself.
  struct Guest {
    Socket socket;
    std::string from;
    double until;
    Announcement said;
    size_t have = 0;
  };

  Announcement announcement(int port) const {
    Announcement own;
    std::memcpy(own.magic, kMagic, sizeof kMagic);
    own.rank = rank;
    own.ranks = ranks;
    own.port = uint32_t(port);
    own.secret = secret;
    put(own.run, meeting.run);
    put(own.host, hostName());
    return own;
  }

  //===--- listening ----------------------------------------------------===//

  void drop(const Guest &guest, const std::string &why) {
    if (lines++ < kLines)
      printError("warning: dropped a connection from %s: %s\n",
                 guest.from.c_str(), why.c_str());
  }

  /// Why an announcement is no rank's of this run; empty: it is.
  std::string faultOf(const Announcement &said, int first) const {
    if (said.order != kOrder || said.protocol != kProtocol)
      return "it is another version of this program (" +
             std::to_string(said.protocol) + ", not " +
             std::to_string(kProtocol) + ")";
    if (textIn(said.run) != textIn(announcement(0).run))
      return "it belongs to another run";
    if (said.ranks != ranks)
      return "it is one of " + std::to_string(said.ranks) + " ranks, not of " +
             std::to_string(ranks);
    if (said.checksums != uint32_t(usesChecksums()))
      return std::string("DT_CHECKSUM is off ") +
             (said.checksums ? "here, and not there" : "there, and not here");
    if (rank > 0 && said.secret != secret)
      return "it does not belong to this run";
    if (said.rank < first || said.rank >= ranks || said.rank == rank)
      return "there is no rank " + std::to_string(said.rank) + " to come";
    if (peers[size_t(said.rank)].socket)
      return "rank " + std::to_string(said.rank) + " is there already";
    return "";
  }

  /// False: the guest has to go.
  bool hear(Guest &guest, int first) {
    char *into = reinterpret_cast<char *>(&guest.said);
    ssize_t n = ::recv(guest.socket.get(), into + guest.have,
                       sizeof guest.said - guest.have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return true;
    size_t had = guest.have;
    guest.have += n > 0 ? size_t(n) : 0;
    bool ours = !std::memcmp(guest.said.magic, kMagic,
                             std::min(guest.have, sizeof kMagic));
    if (n <= 0 || !ours) {
      if (guest.have || n < 0) // else somebody has only looked
        drop(guest, "it does not announce a rank");
      return false;
    }
    if (had + size_t(n) < sizeof guest.said)
      return true;
    const Announcement &said = guest.said;
    std::string fault = faultOf(said, first);
    if (!fault.empty()) {
      drop(guest, fault);
      Answer answer = refusal(fault);
      std::string why;
      sendAll(guest.socket, &answer, sizeof answer, now(), why);
      return false;
    }
    Peer &peer = peers[size_t(said.rank)];
    peer = {std::move(guest.socket), textIn(said.host), guest.from};
    peer.socket.prepare();
    ports[size_t(said.rank)] = said.port;
    return false;
  }

  void welcome(const Socket &listener, std::list<Guest> &guests) {
    int fd;
    while ((fd = ::accept(listener.get(), nullptr, nullptr)) >= 0) {
      Guest guest{Socket(fd), "", now() + kAnnounces, {}, 0};
      guest.from = guest.socket.peerAddress();
      guests.push_back(std::move(guest));
      if (guests.size() > size_t(ranks) + kStrangers) {
        drop(guests.front(), "too many have said nothing");
        guests.pop_front();
      }
    }
  }

  /// Until all ranks from `first` on have come. Throws Error at the deadline.
  void gather(const Socket &listener, int first) {
    std::list<Guest> guests;
    auto all = [&] {
      for (int r = first; r < ranks; ++r)
        if (r != rank && !peers[size_t(r)].socket)
          return false;
      return true;
    };
    while (!all()) {
      if (now() > deadline)
        throw Error("ranks that have not come to " +
                    (rank ? nameOf(rank, hostName(), "")
                          : endpoint(hostName(), meeting.port)) +
                    " after " + std::to_string(int(seconds)) +
                    " s: " + listMissing(peers, first));
      waits();
      expectLeader();
      std::vector<pollfd> entries = {{listener.get(), POLLIN, 0}};
      for (Guest &guest : guests)
        entries.push_back({guest.socket.get(), POLLIN, 0});
      ::poll(entries.data(), entries.size(), 100);
      size_t at = 1;
      for (auto guest = guests.begin(); guest != guests.end(); ++at) {
        bool stays = !entries[at].revents || hear(*guest, first);
        if (stays && now() > guest->until) {
          drop(*guest, "it says nothing");
          stays = false;
        }
        guest = stays ? std::next(guest) : guests.erase(guest);
      }
      if (entries[0].revents)
        welcome(listener, guests);
    }
  }

  //===--- rank 0 -------------------------------------------------------===//

  /// Where the others find a rank.
  Entry entryOf(int r) const {
    const Peer &peer = peers[size_t(r)];
    Entry entry;
    std::string from = peer.address;
    if (r > 0 && !isLoopback(from) && from != peer.socket.ownAddress())
      put(entry.address, from);
    put(entry.host, peer.host);
    entry.port = ports[size_t(r)];
    return entry;
  }

  void answerAll(Answer answer, const std::vector<Entry> &table) {
    std::memcpy(answer.magic, kMagic, sizeof kMagic);
    for (int r = 1; r < ranks; ++r) {
      std::string why;
      const Peer &peer = peers[size_t(r)];
      double until = now() + kAnswers;
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
    Answer answer;
    std::random_device random;
    answer.secret = uint64_t(random()) << 32 | random();
    std::vector<Entry> table;
    for (int r = 0; r < ranks; ++r)
      table.push_back(entryOf(r));
    answerAll(answer, table);
  }

  Socket listen() const {
    try {
      return listenOn(meeting.port);
    } catch (const Error &e) {
      throw Error("rank 0 on " + hostName() + " " + e.what() +
                  " (DT_PORT names another one)");
    }
  }

  //===--- the others ---------------------------------------------------===//

  /// Rank 0 may begin before this rank is ready. Anything else than messages is
  /// the end: somebody has said why, unless rank 0 is gone.
  void expectLeader() const {
    if (rank == 0)
      return;
    Frame frame;
    ssize_t n = ::recv(peers[0].socket.get(), &frame, sizeof frame, MSG_PEEK);
    if (n == ssize_t(sizeof frame) && frame.kind == Frame::Ends)
      ::_exit(exitAfterFault);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
      throw Error(nameOf(0, peers[0].host, peers[0].address) +
                  " is gone while ranks start");
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
                    " for " + std::to_string(int(seconds)) + " s: " + why);
      std::this_thread::sleep_for(std::chrono::duration<double>(kAgain));
    }
  }

  void say(int other, int port) {
    std::string why;
    Announcement own = announcement(port);
    if (!sendAll(peers[size_t(other)].socket, &own, sizeof own,
                 now() + kAnswers, why))
      failAt(other, why);
  }

  /// In small waits, as rank 0 answers when the last rank has come.
  void hear(int other, void *data, size_t bytes) {
    const Socket &socket = peers[size_t(other)].socket;
    std::string why;
    // Rank 0 ends at its own deadline and says so.
    double until = deadline + kAnswers;
    pollfd entry{socket.get(), POLLIN, 0};
    while (::poll(&entry, 1, 100) <= 0 && now() < until)
      waits();
    if (!receiveAll(socket, data, bytes, until, why))
      failAt(other, why);
  }

  [[noreturn]] void failAt(int other, const std::string &why) const {
    const Peer &peer = peers[size_t(other)];
    throw Error(nameOf(rank, hostName(), "") + " gets no answer of " +
                nameOf(other, peer.host, peer.address) + ": " + why);
  }

  Answer hearAnswer(int other) {
    Answer answer;
    hear(other, &answer, sizeof answer);
    if (std::memcmp(answer.magic, kMagic, sizeof kMagic))
      failAt(other, "what listens there is no rank of this program");
    if (answer.refuses && answer.common)
      throw CommonError(textIn(answer.text));
    if (answer.refuses)
      failAt(other, "it refuses this rank: " + textIn(answer.text));
    return answer;
  }

  void follow() {
    Socket listener = listenOn(0);
    peers[0].host = meeting.host;
    peers[0].socket = comeTo(0, meeting.host, meeting.port, deadline);
    peers[0].address = peers[0].socket.peerAddress();
    say(0, listener.ownPort());
    secret = hearAnswer(0).secret;
    std::vector<Entry> table{size_t(ranks), Entry()};
    hear(0, table.data(), table.size() * sizeof(Entry));
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

  /// All connect before they wait for an answer, so no circle of waits arises.
  void join(const Socket &listener, const std::vector<Entry> &table) {
    deadline = now() + (seconds = kAnswers);
    for (int r = 0; r < ranks; ++r)
      if (r != rank)
        peers[size_t(r)].host = textIn(table[size_t(r)].host);
    for (int r = 1; r < rank; ++r) {
      std::string address = textIn(table[size_t(r)].address);
      if (address.empty())
        address = peers[0].address;
      Peer &peer = peers[size_t(r)];
      peer.address = address;
      peer.socket = comeTo(r, address, int(table[size_t(r)].port), deadline);
      say(r, 0);
    }
    gather(listener, rank + 1);
    Answer welcome;
    std::memcpy(welcome.magic, kMagic, sizeof kMagic);
    for (int r = rank + 1; r < ranks; ++r) {
      std::string why;
      if (!sendAll(peers[size_t(r)].socket, &welcome, sizeof welcome,
                   now() + kAnswers, why))
        failAt(r, why);
    }
    for (int r = 1; r < rank; ++r)
      hearAnswer(r);
  }

  const Meeting &meeting;
  int rank, ranks;
  const std::function<void()> &waits;
  double seconds = meeting.timeout; ///< that ranks have to come
  double deadline = now() + seconds;
  std::vector<Peer> peers;
  std::vector<uint32_t> ports = std::vector<uint32_t>(size_t(ranks), 0u);
  uint64_t secret = 0;
  int lines = 0;
};

} // namespace

std::vector<Peer> meet(const Meeting &meeting, int rank, int ranks,
                       const std::function<void()> &waits) {
  return Rendezvous(meeting, rank, ranks, waits).run();
}

} // namespace dt::rt::tcp
