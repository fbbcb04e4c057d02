//===- Reception.cpp - who comes to a rank that listens -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Reception.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Error.h"
#include "runtime/base/Log.h"

#include <cerrno>
#include <map>
#include <poll.h>
#include <sys/socket.h>
#include <tuple>

namespace dt::rt::tcp {

namespace {

/// Seconds that a guest has to prove itself.
constexpr double kProves = 10;
/// Guests at a time, beyond one for each rank, and new ones at a time.
constexpr int kStrangers = 64, kAtOnce = 16;
/// Lines about what was dropped.
constexpr int kLines = 10;

} // namespace

Reception::Reception(const Socket &listener, std::string secret, int rank,
                     int expected, Judge judge, Welcome welcome)
    : listener(listener), secret(std::move(secret)), rank(rank),
      most(size_t(expected + kStrangers)), judge(std::move(judge)),
      welcome(std::move(welcome)) {}

void Reception::wait() {
  std::vector<pollfd> entries = {{listener.get(), POLLIN, 0}};
  for (Guest &guest : guests)
    entries.push_back({guest.comer.socket.get(), POLLIN, 0});
  ::poll(entries.data(), entries.size(), 100);
  std::vector<short> events;
  for (const pollfd &entry : entries)
    events.push_back(entry.revents);
  hearAll(events);
  if (events[0])
    accept();
}

/// `events`: of the listener, and of each guest.
void Reception::hearAll(const std::vector<short> &events) {
  size_t at = 1;
  for (auto guest = guests.begin(); guest != guests.end(); ++at) {
    bool stays = !events[at] || hear(*guest);
    if (stays && now() > guest->until) {
      drop(*guest,
           guest->greeted ? "it does not prove itself" : "it says nothing");
      stays = false;
    }
    guest = stays ? std::next(guest) : guests.erase(guest);
  }
}

/// A rank has said its greeting by the time it is here, mostly, and is
/// distinguished from who is silent.
void Reception::accept() {
  for (int i = 0; i < kAtOnce; ++i) {
    int fd = ::accept(listener.get(), nullptr, nullptr);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
      throw Error(std::string("no connection of another rank can be taken: ") +
                  std::strerror(errno) + " (ulimit -n)");
    if (fd < 0)
      return;
    Guest guest;
    guest.comer.socket = Socket(fd);
    guest.comer.address = guest.comer.socket.peerAddress();
    guest.until = now() + kProves;
    if (guests.size() >= most)
      evict();
    guests.push_back(std::move(guest));
    if (!hear(guests.back()))
      guests.pop_back();
  }
}

/// Room for one more: who has not greeted goes before who has, guests of an
/// address that has many before those of others, older before younger ones.
void Reception::evict() {
  std::map<std::string, int> count;
  for (const Guest &guest : guests)
    ++count[guest.comer.address];
  auto worth = [&](const Guest &guest) {
    return std::make_tuple(guest.greeted, -count[guest.comer.address]);
  };
  auto worst = guests.begin();
  for (auto guest = guests.begin(); guest != guests.end(); ++guest)
    if (worth(*guest) < worth(*worst))
      worst = guest;
  drop(*worst, "too many have not proved themselves");
  guests.erase(worst);
}

void Reception::drop(const Guest &guest, const std::string &why) {
  if (lines++ < kLines)
    printError("warning: dropped a connection from %s: %s\n",
               guest.comer.address.c_str(), why.c_str());
}

Reception::Heard Reception::read(Guest &guest, void *into, size_t size) {
  ssize_t n =
      ::recv(guest.comer.socket.get(), static_cast<char *>(into) + guest.have,
             size - guest.have, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return Heard::Part;
  guest.have += n > 0 ? size_t(n) : 0;
  bool speaksOurs = !std::memcmp(guest.comer.introduction.guest.magic, kMagic,
                                 std::min(guest.have, sizeof kMagic));
  if (n <= 0 && guest.greeted) {
    drop(guest, "it went when it was asked for its proof (DT_SECRET is "
                "another one there, or it is no rank of this run)");
    return Heard::Gone;
  }
  if (n <= 0 || (!guest.greeted && !speaksOurs)) {
    if (guest.have || n < 0) // else somebody has only looked
      drop(guest, "it does not announce a rank");
    return Heard::Gone;
  }
  if (guest.have < size)
    return Heard::Part;
  guest.have = 0;
  return Heard::All;
}

/// False: the guest has to go.
bool Reception::hear(Guest &guest) {
  Introduction &introduction = guest.comer.introduction;
  if (!guest.greeted) {
    Heard heard = read(guest, &introduction.guest, sizeof introduction.guest);
    if (heard != Heard::All)
      return heard == Heard::Part;
    if (!greet(guest))
      return false;
  }
  Heard heard = read(guest, &guest.comer.said, sizeof guest.comer.said);
  if (heard == Heard::All)
    judgeProved(guest);
  return heard == Heard::Part;
}

/// Answers a greeting. What differs in version is told, for ranks of one run.
bool Reception::greet(Guest &guest) {
  Introduction &introduction = guest.comer.introduction;
  introduction.host = makeGreeting();
  introduction.host.proof = introduction.ofHost(secret, rank);
  std::string why;
  bool sent = sendAll(guest.comer.socket, &introduction.host,
                      sizeof introduction.host, now(), why);
  const Greeting &said = introduction.guest;
  if (said.order != kOrder || said.protocol != kProtocol) {
    drop(guest, "it is another version of this program (" +
                    std::to_string(said.protocol) + ", not " +
                    std::to_string(kProtocol) + ")");
    return false;
  }
  guest.greeted = true;
  return sent;
}

void Reception::judgeProved(Guest &guest) {
  Comer &comer = guest.comer;
  if (!areEqual(comer.said.proof,
                comer.introduction.ofGuest(secret, comer.said)) ||
      comer.said.to != rank) {
    drop(guest, "it does not know this run's secret (DT_SECRET)");
    return;
  }
  std::string fault = judge(comer.said), why;
  if (!fault.empty())
    drop(guest, fault);
  Answer answer = fault.empty() ? Answer() : refusal(fault);
  answer.proof = comer.introduction.ofAnswer(secret, /*turn=*/0, answer, {});
  if (!sendAll(comer.socket, &answer, sizeof answer, now(), why) ||
      !fault.empty())
    return;
  comer.socket.prepare();
  welcome(std::move(comer));
}

} // namespace dt::rt::tcp
