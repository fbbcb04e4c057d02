//===- Rendezvous.h - ranks find each other ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Rank 0 listens where the environment says. The others come with their number
// and the port at which they listen themselves, and get the table of all. A
// rank is reached by the address that rank 0 saw it come from, those of rank
// 0's machine by the one that rank 0 is reached by.
//
// Then every pair has one connection; the higher rank connects. All of them are
// made at start, though not all pairs have messages: what a firewall forbids is
// known before the first step, and every rank sees at once when another is
// gone.
//
// Both ends of a connection prove that they know the run's secret before they
// say anything of the run (Introduction.h, Reception.h).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_RENDEZVOUS_H
#define DT_RUNTIME_COMM_TCP_RENDEZVOUS_H

#include "runtime/comm/tcp/Meeting.h"
#include "runtime/comm/tcp/Socket.h"

#include <functional>
#include <vector>

namespace dt::rt::tcp {

struct Peer {
  Socket socket;       ///< none to oneself
  std::string host;    ///< its machine's name
  std::string address; ///< where it came from; for messages about it
};

/// A connection to every other rank, by rank. Called by all ranks. `waits` is
/// called several times a second meanwhile. Throws Error; a CommonError if all
/// ranks that have come know (some did not).
std::vector<Peer> meet(const Meeting &meeting, int rank, int ranks,
                       const std::function<void()> &waits);

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_RENDEZVOUS_H
