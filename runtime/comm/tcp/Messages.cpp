//===- Messages.cpp - messages between ranks over sockets -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Messages.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Error.h"
#include "runtime/base/Log.h"
#include "runtime/base/Thread.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dt::rt::tcp {

namespace {

/// Seconds after which a lost rank is spoken of: others may know better why it
/// is gone. The watchdogs of its node look five times a second; of those who
/// know nothing the first rank speaks.
constexpr double kOwnNode = 2, kFirst = 1.5, kOthers = 3.5;
/// Of a rank that waits: at least so often does it look by itself, which shows
/// the watchdog that it does not hang.
constexpr std::chrono::milliseconds kLooks(50);
/// Of the thread, while nothing comes.
constexpr int kRestMs = 200;
/// Seconds between two looks at connections that may be dead.
constexpr double kExamines = 1;
/// Seconds that the last words have.
constexpr double kLastWords = 0.5;

} // namespace

Messages::Messages(int rank, std::vector<Peer> peers, StatusBoard *board)
    : rank(rank), board(board) {
  int ends[2];
  if (::pipe(ends) != 0)
    throw Error(std::string("pipe: ") + std::strerror(errno));
  wakes[0] = Socket(ends[0]);
  wakes[1] = Socket(ends[1]);
  for (Peer &peer : peers)
    links.emplace_back(std::move(peer));
  if (board)
    board->onFault([this] { warn(); });
  thread = startThread("messages", [this] { run(); });
}

Messages::~Messages() {
  if (board)
    board->onFault({});
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  wake();
  thread.join();
}

void Messages::wake() { (void)!::write(wakes[1].get(), "", 1); }

TransferPtr Messages::send(int to, uint64_t tag, const void *data,
                           size_t bytes) {
  auto transfer = std::make_shared<Transfer>();
  transfer->from = static_cast<const char *>(data);
  transfer->bytes = bytes;
  std::lock_guard<std::mutex> lock(mutex);
  ++sent;
  Link &link = links[size_t(to)];
  bool wrote = link.wantsToWrite();
  link.send(tag, transfer);
  if (!wrote) // else the thread is at it
    link.write();
  if (!wrote && link.wantsToWrite())
    wake();
  return transfer;
}

TransferPtr Messages::receive(int from, uint64_t tag, void *data,
                              size_t bytes) {
  auto transfer = std::make_shared<Transfer>();
  transfer->to = static_cast<char *>(data);
  transfer->bytes = bytes;
  std::lock_guard<std::mutex> lock(mutex);
  Link &link = links[size_t(from)];
  bool wrote = link.wantsToWrite();
  link.receive(tag, transfer);
  if (!wrote) // a grant
    link.write();
  if (!wrote && link.wantsToWrite())
    wake();
  return transfer;
}

uint64_t Messages::countSent() {
  std::lock_guard<std::mutex> lock(mutex);
  return sent;
}

void Messages::cancel(Transfer &transfer) {
  std::lock_guard<std::mutex> lock(mutex);
  transfer.from = nullptr;
  transfer.to = nullptr;
}

uint64_t Messages::ends() {
  std::lock_guard<std::mutex> lock(mutex);
  return ended;
}

void Messages::sleep(uint64_t seen) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_for(lock, kLooks, [&] { return ended != seen; });
}

//===----------------------------------------------------------------------===//
// The thread
//===----------------------------------------------------------------------===//

/// The pipe, then the links.
std::vector<pollfd> Messages::connections() {
  std::vector<pollfd> entries = {{wakes[0].get(), POLLIN, 0}};
  for (const Link &link : links)
    entries.push_back({link.getPeer().socket.get(),
                       short(POLLIN | (link.wantsToWrite() ? POLLOUT : 0)), 0});
  return entries;
}

void Messages::serve(const std::vector<pollfd> &ready) {
  char bytes[64];
  while (ready[0].revents && ::read(wakes[0].get(), bytes, sizeof bytes) > 0)
    ;
  int count = 0;
  for (size_t r = 0; r < links.size(); ++r) {
    short events = ready[r + 1].revents;
    if (events & ~POLLOUT)
      count += links[r].read();
    // A grant that came may be answered at once.
    if (events)
      count += links[r].write();
  }
  ended += uint64_t(count);
  if (count)
    changed.notify_all();
}

/// Whom no answer comes from, and who is gone.
void Messages::examine() {
  bool looks = now() - examined > kExamines;
  if (looks)
    examined = now();
  int first = rank;
  for (int r = int(links.size()); r-- > 0;) {
    Link &link = links[size_t(r)];
    if (looks && link.isOpen() && link.getPeer().socket.isUnanswered())
      link.lose("it does not answer");
    if (link.isOpen())
      first = std::min(first, r);
  }
  for (int r = 0; lost < 0 && r < int(links.size()); ++r)
    if (!links[size_t(r)].loss().empty()) {
      lost = r;
      bool here = board && board->read(r).pid;
      speaks = now() + (here ? kOwnNode : first == rank ? kFirst : kOthers);
      if (links[size_t(r)].isDamaged())
        speaks = now(); // nobody knows better
    }
}

void Messages::run() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!stopping) {
    std::vector<pollfd> entries = connections();
    lock.unlock();
    ::poll(entries.data(), entries.size(), kRestMs);
    lock.lock();
    serve(entries);
    examine();
    lock.unlock();
    check();
    lock.lock();
  }
}

/// Ends the process if another rank has ended.
void Messages::check() {
  std::string line;
  bool told = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (warned)
      return; // this process ends already
    for (const Link &link : links)
      told = told || link.saidEnds();
    if (lost >= 0 && now() >= speaks) {
      const Link &link = links[size_t(lost)];
      const Peer &peer = link.getPeer();
      std::string name =
          "rank " + std::to_string(lost) + " on " + peer.host +
          (peer.address.empty() ? "" : " (" + peer.address + ")");
      line = link.isDamaged()
                 ? "error: rank " + std::to_string(rank) + " on " +
                       links[size_t(rank)].getPeer().host + ": what " + name +
                       " sent came damaged: its checksum is wrong"
                 : "error: " + name + " is gone: " + link.loss();
    }
  }
  if (told) {
    if (board)
      board->claimReport(); // somebody has the word, though not on this node
    end("", exitAfterFault);
  }
  if (!line.empty())
    end(line, 1);
}

void Messages::end(const std::string &line, int code) {
  if (!line.empty() && board)
    board->report(line, code);
  else if (!line.empty())
    printLast(line);
  warn();
  ::_exit(code);
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

/// Writes what is still to be written, for so long.
void Messages::flushAll(double seconds) {
  double deadline = now() + seconds;
  while (true) {
    std::vector<pollfd> entries;
    {
      std::lock_guard<std::mutex> lock(mutex);
      for (Link &link : links) {
        link.write();
        const Socket &socket = link.getPeer().socket;
        if (link.wantsToWrite())
          entries.push_back({socket.get(), POLLOUT, 0});
        else if (link.isOpen() && socket.unsentBytes())
          entries.push_back({-1, 0, 0}); // its end is not reported
      }
    }
    if (entries.empty() || now() > deadline)
      return;
    ::poll(entries.data(), entries.size(), 5);
  }
}

void Messages::warn() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (std::exchange(warned, true))
      return;
    for (Link &link : links)
      if (link.isOpen())
        link.say(Frame::Ends);
  }
  flushAll(kLastWords);
}

void Messages::close() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (Link &link : links)
      if (link.isOpen()) {
        link.say(Frame::Bye);
        link.write();
      }
  }
  wake();
  waitUntil([&] {
    std::lock_guard<std::mutex> lock(mutex);
    for (const Link &link : links)
      if (link.isOpen() && (!link.saidBye() || link.wantsToWrite()))
        return false;
    return true;
  });
}

} // namespace dt::rt::tcp
