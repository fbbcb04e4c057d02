//===- Link.h - the connection to one rank ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Matches messages with receives, and turns both into frames and back. Knows no
// threads: whoever calls holds a lock (Messages.h).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_LINK_H
#define DT_RUNTIME_COMM_TCP_LINK_H

#include "runtime/comm/tcp/Frame.h"
#include "runtime/comm/tcp/Rendezvous.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dt::rt::tcp {

/// One side of a message under way.
struct Transfer {
  std::atomic<bool> ended{false};
  std::string error;          ///< once it has ended; empty: it came
  const char *from = nullptr; ///< of a send; null: canceled
  char *to = nullptr;         ///< of a receive; null: canceled
  size_t bytes = 0;
  size_t moved = 0;
};
using TransferPtr = std::shared_ptr<Transfer>;

class Link {
public:
  Link() = default;
  explicit Link(Peer peer) : peer(std::move(peer)) {}

  void send(uint64_t tag, const TransferPtr &transfer);
  void receive(uint64_t tag, const TransferPtr &transfer);
  /// A frame without bytes: Bye or Ends. Ends overtakes what is not begun.
  void say(Frame::Kind kind);

  /// Write and read what goes without waiting. Return how many transfers have
  /// ended, or whether else somebody may wait for what came.
  int write();
  int read();

  bool isOpen() const { return bool(peer.socket); }
  bool wantsToWrite() const { return isOpen() && !out.empty(); }
  /// Why the connection is gone though the rank did not end; empty: it is not.
  const std::string &loss() const { return lossText; }
  void lose(const std::string &why);
  /// What came is not what was sent.
  bool isDamaged() const { return damaged; }
  /// What the rank has said.
  bool saidBye() const { return bye; }
  bool saidEnds() const { return ends; }

  const Peer &getPeer() const { return peer; }

private:
  /// Bytes to be written: a frame and, of a transfer, what belongs to it.
  struct Out {
    Frame frame;
    TransferPtr body;
    size_t written = 0;
  };
  /// A message that nobody waited for: its bytes, or its announcement.
  struct Arrived {
    std::vector<char> data;
    uint64_t number = 0;
    size_t bytes = 0;
    bool asks = false;
  };
  /// By tag, in order; empty queues are removed.
  template <typename T> using Queues = std::map<uint64_t, std::deque<T>>;

  int match(uint64_t tag);
  int begin();
  int complete();
  bool readBytes();
  int wrote();
  void end(Transfer &transfer);
  void pushPart(uint64_t number, const TransferPtr &transfer);
  void push(Frame frame, TransferPtr body = nullptr);
  bool isWhole(uint32_t sum, uint32_t said);

  Peer peer;
  std::string lossText;
  bool bye = false, ends = false, damaged = false;

  std::deque<Out> out;
  std::map<uint64_t, TransferPtr> asked; ///< own sends, by number
  uint64_t numbers = 0;

  Queues<TransferPtr> posted;
  Queues<Arrived> arrived;
  std::map<uint64_t, TransferPtr> granted; ///< own receives, by its number
  Frame head;                              ///< that is read
  size_t headHave = 0, bodyHave = 0;
  uint32_t bodySum = 0;   ///< of what has come of it
  TransferPtr into;       ///< of the body; null: nobody waits for it
  std::vector<char> kept; ///< the body then
};

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_LINK_H
