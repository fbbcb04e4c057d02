//===- Messages.h - messages between ranks over sockets ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A thread reads and writes all connections, so that messages move on while a
// rank computes; who sends writes at once what the system takes. Small messages
// are sent unasked and kept where nobody has asked for them yet. Large ones are
// announced and sent, in parts, when their receive is posted: into its buffer,
// whatever other messages come meanwhile, so that two ranks that send to each
// other never wait for each other.
//
// A connection that ends before its rank said so ends the run: the thread says
// which rank is gone, in one line, tells the others and ends the process.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_MESSAGES_H
#define DT_RUNTIME_COMM_TCP_MESSAGES_H

#include "runtime/comm/Status.h"
#include "runtime/comm/tcp/Link.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

struct pollfd;

namespace dt::rt::tcp {

class Messages {
public:
  /// Takes the connections over; `board` may be null.
  Messages(int rank, std::vector<Peer> peers, StatusBoard *board);
  ~Messages();

  /// To or from another rank; more than 0 bytes. In the order of calls for
  /// equal tags.
  TransferPtr send(int to, uint64_t tag, const void *data, size_t bytes);
  TransferPtr receive(int from, uint64_t tag, void *data, size_t bytes);
  /// Calls of send() so far.
  uint64_t countSent();
  /// Its buffer is not touched any more. The run cannot go on.
  void cancel(Transfer &transfer);

  /// Until `done()`, which is asked again when some transfer has ended.
  template <typename F> void waitUntil(F done) {
    while (true) {
      uint64_t seen = ends();
      if (done())
        return;
      sleep(seen);
    }
  }

  /// Tells all other ranks that this one ends because of an error that was
  /// said. Waits for less than a second.
  void warn();
  /// Ends together with all other ranks, which call it too.
  void close();

private:
  uint64_t ends();
  void sleep(uint64_t seen);
  void run();
  std::vector<pollfd> connections();
  void serve(const std::vector<pollfd> &ready);
  void examine();
  void check();
  void wake();
  void flushAll(double seconds);
  [[noreturn]] void end(const std::string &line, int code);

  int rank;
  StatusBoard *board;
  std::mutex mutex; ///< guards the links and what follows
  std::condition_variable changed;
  std::vector<Link> links;
  uint64_t ended = 0; ///< transfers
  uint64_t sent = 0;
  bool stopping = false, warned = false;
  /// The first rank that was lost, and when to speak of it.
  int lost = -1;
  double speaks = 0, examined = 0;
  Socket wakes[2]; ///< a pipe
  std::thread thread;
};

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_MESSAGES_H
