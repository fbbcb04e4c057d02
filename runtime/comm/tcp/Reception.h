//===- Reception.h - who comes to a rank that listens -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Anybody may connect. Who says nothing, or what no rank says, or cannot prove
// to know the run's secret, is dropped with a line, gets to know nothing but a
// proof, and keeps nobody waiting: what has not proved itself has a deadline,
// and when too many are there the most silent of the most frequent address has
// to go. A rank that goes with them comes again by itself (Rendezvous.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_RECEPTION_H
#define DT_RUNTIME_COMM_TCP_RECEPTION_H

#include "runtime/comm/tcp/Introduction.h"
#include "runtime/comm/tcp/Socket.h"

#include <functional>
#include <list>
#include <string>
#include <vector>

namespace dt::rt::tcp {

/// A rank that has proved itself and is welcomed.
struct Comer {
  Socket socket;
  std::string address;
  Introduction introduction;
  Announcement said;
};

class Reception {
public:
  /// Why a rank of this run is refused; empty: it is welcome.
  using Judge = std::function<std::string(const Announcement &)>;
  using Welcome = std::function<void(Comer)>;

  /// For `rank`, to whom up to `expected` others come.
  Reception(const Socket &listener, std::string secret, int rank, int expected,
            Judge judge, Welcome welcome);

  /// Hears who comes, and what is said, within a tenth of a second.
  void wait();

private:
  struct Guest {
    Comer comer;
    double until = 0;
    bool greeted = false; ///< its greeting is read and answered
    size_t have = 0;      ///< bytes of what it says now
  };
  enum class Heard { Part, All, Gone };

  void accept();
  void evict();
  void hearAll(const std::vector<short> &events);
  bool hear(Guest &guest);
  Heard read(Guest &guest, void *into, size_t size);
  bool greet(Guest &guest);
  void judgeProved(Guest &guest);
  void drop(const Guest &guest, const std::string &why);

  const Socket &listener;
  std::string secret;
  int rank;
  size_t most; ///< guests at a time
  Judge judge;
  Welcome welcome;
  std::list<Guest> guests;
  int lines = 0;
};

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_RECEPTION_H
