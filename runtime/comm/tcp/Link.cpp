//===- Link.cpp - the connection to one rank ------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Link.h"
#include "runtime/comm/tcp/Checksum.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

namespace dt::rt::tcp {

namespace {

/// The largest message that is sent unasked, and the largest part of others.
constexpr size_t kWhole = 64 << 10, kPart = 256 << 10;
/// Bytes that one call of read() takes, so that others have their turn.
constexpr size_t kTurn = 1 << 20;

/// In place of what was canceled.
const char *nothing() {
  static const char zeros[kPart] = {};
  return zeros;
}
char *anywhere() {
  static char scratch[kPart];
  return scratch;
}

/// Of all connections.
const bool checked = usesChecksums();

} // namespace

//===----------------------------------------------------------------------===//
// What this rank asks for
//===----------------------------------------------------------------------===//

void Link::send(uint64_t tag, const TransferPtr &transfer) {
  if (transfer->bytes <= kWhole) {
    push({Frame::Whole, 0, tag, 0, transfer->bytes}, transfer);
    return;
  }
  asked[numbers] = transfer;
  push({Frame::Ask, 0, tag, numbers++, transfer->bytes});
}

void Link::receive(uint64_t tag, const TransferPtr &transfer) {
  posted[tag].push_back(transfer);
  match(tag);
}

void Link::say(Frame::Kind kind) {
  if (kind == Frame::Ends && !out.empty()) {
    size_t begun = out.front().written > 0;
    out.resize(begun);
  }
  push({kind, 0, 0, 0, 0});
}

void Link::lose(const std::string &why) {
  if (lossText.empty() && !bye)
    lossText = why;
  peer.socket.close();
}

void Link::end(Transfer &transfer) { transfer.ended.store(true); }

/// Messages and receives of a tag meet in their order. Returns how many
/// receives have ended.
int Link::match(uint64_t tag) {
  auto have = arrived.find(tag);
  auto want = posted.find(tag);
  int count = 0;
  while (have != arrived.end() && want != posted.end() &&
         !have->second.empty() && !want->second.empty()) {
    Arrived message = std::move(have->second.front());
    TransferPtr receive = std::move(want->second.front());
    have->second.pop_front();
    want->second.pop_front();
    if (message.bytes != receive->bytes) {
      receive->error = "a message of " + std::to_string(message.bytes) +
                       " bytes meets a buffer of " +
                       std::to_string(receive->bytes);
    } else if (message.asks) {
      granted[message.number] = receive;
      push({Frame::Grant, 0, tag, message.number, 0});
      continue;
    } else if (receive->to) {
      std::memcpy(receive->to, message.data.data(), message.bytes);
    }
    end(*receive);
    ++count;
  }
  if (have != arrived.end() && have->second.empty())
    arrived.erase(have);
  if (want != posted.end() && want->second.empty())
    posted.erase(want);
  return count;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// With its sums, if ranks use them.
void Link::push(Frame frame, TransferPtr body) {
  if (checked) {
    if (body)
      frame.body = checksum(body->from ? body->from + body->moved : nothing(),
                            frame.bytes);
    frame.head = checksum(&frame, offsetof(Frame, head));
  }
  out.push_back({frame, std::move(body)});
}

void Link::pushPart(uint64_t number, const TransferPtr &transfer) {
  size_t bytes = std::min(kPart, transfer->bytes - transfer->moved);
  push({Frame::Part, 0, 0, number, bytes}, transfer);
}

/// The first of `out` is written: 1 if a send has ended.
int Link::wrote() {
  Out done = std::move(out.front());
  out.pop_front();
  if (!done.body)
    return 0;
  Transfer &transfer = *done.body;
  transfer.moved += done.frame.bytes;
  if (transfer.moved < transfer.bytes) {
    // Behind what waits, so that small messages overtake large ones.
    pushPart(done.frame.number, done.body);
    return 0;
  }
  end(transfer);
  return 1;
}

int Link::write() {
  int count = 0;
  while (wantsToWrite()) {
    Out &first = out.front();
    size_t head = std::min(first.written, sizeof(Frame));
    size_t body = first.written - head;
    iovec parts[2] = {
        {reinterpret_cast<char *>(&first.frame) + head, sizeof(Frame) - head},
        {nullptr, 0}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 1;
    if (first.body) {
      const char *from =
          first.body->from ? first.body->from + first.body->moved : nothing();
      parts[1] = {const_cast<char *>(from) + body, first.frame.bytes - body};
      message.msg_iovlen = 2;
    }
    ssize_t n =
        ::sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      // What the rank said before it went is still to be read.
      if (errno != EAGAIN && errno != EPIPE && errno != ECONNRESET)
        lose(std::strerror(errno));
      else if (errno != EAGAIN)
        out.clear();
      break;
    }
    first.written += size_t(n);
    size_t all = sizeof(Frame) + (first.body ? first.frame.bytes : 0);
    if (first.written == all)
      count += wrote();
  }
  return count;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// False: what came is damaged, which is the run's end.
bool Link::isWhole(uint32_t sum, uint32_t said) {
  if (!checked || sum == said)
    return true;
  damaged = true;
  lose("what it sent came damaged");
  return false;
}

/// A frame has come.
int Link::begin() {
  if (!isWhole(checked ? checksum(&head, offsetof(Frame, head)) : 0, head.head))
    return 0;
  bodySum = 0;
  bool body = head.kind == Frame::Whole || head.kind == Frame::Part;
  bodyHave = 0;
  into = nullptr;
  if (head.kind == Frame::Whole && head.bytes <= kWhole) {
    auto want = posted.find(head.tag);
    if (want != posted.end() && want->second.front()->bytes == head.bytes) {
      into = std::move(want->second.front());
      want->second.pop_front();
      if (want->second.empty())
        posted.erase(want);
    } else {
      kept.resize(head.bytes);
    }
  } else if (head.kind == Frame::Part && granted.count(head.number)) {
    into = granted[head.number];
    body = head.bytes <= into->bytes - into->moved && head.bytes <= kPart;
  } else {
    body = false;
  }
  if (body && head.bytes)
    return 0;
  headHave = 0;
  switch (head.kind) {
  case Frame::Ask: {
    Arrived message;
    message.number = head.number;
    message.bytes = head.bytes;
    message.asks = true;
    arrived[head.tag].push_back(std::move(message));
    return match(head.tag);
  }
  case Frame::Grant:
    if (auto it = asked.find(head.number); it != asked.end()) {
      pushPart(head.number, it->second);
      asked.erase(it);
      return 0;
    }
    break;
  case Frame::Bye:
    bye = true;
    return 1; // who waits for it is to look
  case Frame::Ends:
    ends = true;
    return 0;
  default:
    break;
  }
  lose("it sends what is no message");
  return 0;
}

/// The body of a frame has come: the number of receives that have ended.
int Link::complete() {
  if (!isWhole(bodySum, head.body))
    return 0;
  headHave = 0;
  if (head.kind == Frame::Whole && !into) {
    Arrived message;
    message.bytes = kept.size();
    message.data = std::move(kept);
    kept.clear();
    arrived[head.tag].push_back(std::move(message));
    return match(head.tag);
  }
  TransferPtr receive = std::move(into);
  into = nullptr;
  receive->moved += head.bytes;
  if (receive->moved < receive->bytes)
    return 0;
  if (head.kind == Frame::Part)
    granted.erase(head.number);
  end(*receive);
  return 1;
}

/// One call of the system; false: there is nothing more now.
bool Link::readBytes() {
  char *to;
  size_t want;
  bool inHead = headHave < sizeof head;
  if (inHead) {
    to = reinterpret_cast<char *>(&head) + headHave;
    want = sizeof head - headHave;
  } else {
    want = head.bytes - bodyHave;
    to = !into      ? kept.data() + bodyHave
         : into->to ? into->to + into->moved + bodyHave
                    : anywhere();
  }
  ssize_t n = ::recv(peer.socket.get(), to, want, MSG_DONTWAIT);
  if (n < 0 && errno == EINTR)
    return true;
  if (n == 0)
    lose("its connection was closed");
  else if (n < 0 && errno != EAGAIN)
    lose(std::strerror(errno));
  if (n <= 0)
    return false;
  if (!inHead && checked)
    bodySum = checksum(to, size_t(n), bodySum);
  (inHead ? headHave : bodyHave) += size_t(n);
  return true;
}

int Link::read() {
  int count = 0;
  for (size_t taken = 0; isOpen() && taken < kTurn;) {
    bool wasHead = headHave < sizeof head;
    size_t before = wasHead ? headHave : bodyHave;
    if (!readBytes())
      break;
    taken += (wasHead ? headHave : bodyHave) - before;
    if (wasHead && headHave == sizeof head)
      count += begin();
    else if (!wasHead && bodyHave == head.bytes)
      count += complete();
  }
  return count;
}

} // namespace dt::rt::tcp
