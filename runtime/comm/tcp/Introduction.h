//===- Introduction.h - what ranks say when they meet -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The guest connects, the host listens. Nothing of the run is told before both
// have proved that they know its secret:
//
//   guest: Greeting with a nonce
//   host:  Greeting with a nonce, and its proof of both nonces and its rank
//   guest: Announcement, with its proof of both nonces and all that it says
//   host:  Answer, with its proof of all that was said
//
// Rank 0 answers a second time, with the table of all, when everybody is there.
// In the byte order of the machine: ranks of another order are refused.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_INTRODUCTION_H
#define DT_RUNTIME_COMM_TCP_INTRODUCTION_H

#include "runtime/comm/tcp/Secret.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace dt::rt::tcp {

constexpr char kMagic[8] = {'D', 'T', 'r', 'a', 'n', 'k', 's', '\n'};
constexpr uint32_t kOrder = 0x01020304;
/// Changes with everything that ranks say to each other.
constexpr uint32_t kProtocol = 3;

/// Text in a field of fixed size: cut to it, zeros behind it.
template <size_t N> void putText(char (&to)[N], const std::string &text) {
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}
template <size_t N> std::string textIn(const char (&from)[N]) {
  return {from, ::strnlen(from, N)};
}

struct Greeting {
  char magic[8];
  uint32_t order = kOrder, protocol = kProtocol;
  Nonce nonce{};
  Proof proof{}; ///< of the host
};

struct Announcement {
  int32_t rank = 0, ranks = 0, to = 0; ///< the guest, all, the host
  uint32_t port = 0;                   ///< where the guest listens itself
  uint32_t checksums = 0;
  char run[128] = {};
  char machine[64] = {};
  Proof proof{};
};

struct Answer {
  uint32_t refuses = 0;
  uint32_t common = 0; ///< everybody is refused
  char text[360] = {}; ///< why
  Proof proof{};
};

/// Where to find a rank. Without an address: where rank 0 is.
struct Entry {
  char address[64] = {};
  char machine[64] = {};
  uint32_t port = 0;
};

/// A Greeting with a new nonce. Throws Error.
Greeting makeGreeting();
Answer refusal(const std::string &why, bool common = false);

/// The proofs that belong to one connection.
class Introduction {
public:
  Greeting guest{}, host{};

  Proof ofHost(const std::string &secret, int host) const;
  Proof ofGuest(const std::string &secret, Announcement said) const;
  /// `turn`: 0 for the first answer, 1 for rank 0's second.
  Proof ofAnswer(const std::string &secret, int turn, Answer answer,
                 const std::vector<Entry> &table) const;

private:
  std::string begin(const char *who) const;
};

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_INTRODUCTION_H
