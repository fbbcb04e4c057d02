//===- Group.h - collectives over messages ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every rank sends what another needs to it directly, so that results never
// depend on who comes first: what is combined is combined in the order of
// ranks, whatever the size, and blocking or not. A large all-reduce moves no
// more bytes than a ring: every rank combines a share and gives it to all.
//
// What every step needs of all ranks (fold, barrier) and what one rank has for
// all (broadcast) goes along a binomial tree: n ranks take n - 1 messages a
// direction, not n(n - 1).
//
// Between rounds of messages the calling thread works, inside of any call that
// waits for or looks at something (Rounds::advanceAll).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_GROUP_H
#define DT_RUNTIME_COMM_TCP_GROUP_H

#include "runtime/comm/Comm.h"
#include "runtime/comm/tcp/Messages.h"

#include <list>

namespace dt::rt::tcp {

class Rounds;

/// What the calls of one process share.
struct Shared {
  Messages &messages;
  std::map<std::string, Traffic> &traffic;
  Blocking &blocking;
  device::Pool &combining;
  std::list<Rounds *> open = {}; ///< collectives under way, in their order

  /// Collectives go on whose messages have come.
  void advanceAll();
  /// Until `done()`; all collectives go on meanwhile.
  template <typename F> void waitUntil(F done) {
    messages.waitUntil([&] {
      advanceAll();
      return done();
    });
  }
};

/// Throws Error if it ended with one.
bool hasEnded(const Transfer &transfer);

/// One message as a request.
class Message final : public Request::Operation {
public:
  Message(Shared &shared, TransferPtr transfer, const Awaited &awaited)
      : shared(shared), transfer(std::move(transfer)), awaited(awaited) {}
  ~Message() override;
  bool test() override;
  void wait() override;

private:
  Shared &shared;
  TransferPtr transfer;
  Awaited awaited;
};

/// A group of ranks. `number`: the same on all members, another for every group
/// of several ranks.
std::unique_ptr<Group> makeGroup(Shared &shared, std::vector<int> members,
                                 int rank, int number);

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_GROUP_H
