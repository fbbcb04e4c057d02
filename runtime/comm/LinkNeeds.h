//===- LinkNeeds.h - communicators that a run has ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What step/LinkPlan.h finds in the tables and a fabric makes. No ranks here:
// the compiler asks, too.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_LINKNEEDS_H
#define DT_RUNTIME_COMM_LINKNEEDS_H

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace dt::rt {

/// Axes of a group, by over and stride (Collectives.h).
using Axes = std::set<std::pair<int64_t, int64_t>>;

/// The members of `group` that differ in their places on an axis only, by the
/// place of one of them; none where that one is not their first.
inline std::vector<int> axisFrom(const std::vector<int> &group, int64_t first,
                                 int64_t over, int64_t stride) {
  std::vector<int> members;
  for (int64_t i = 0; first / stride % over == 0 && i < over; ++i)
    members.push_back(group[std::size_t(first + i * stride)]);
  return members;
}

/// Of all ranks, the same on each of them.
struct LinkNeeds {
  /// Between which ranks there are messages, forward and of gradients: from,
  /// to.
  std::set<std::pair<int, int>> messages[2];
  /// On the rank that has most: streams with collectives, each of which may
  /// have a kernel on the device that waits for other ranks.
  int streams = 0;

  int directions() const {
    return int(!messages[0].empty()) + int(!messages[1].empty());
  }
};

/// Thread blocks that a kernel of NCCL may take (its maxCTAs). A spinning one
/// keeps a multiprocessor to itself at worst: a quarter of them stay for what
/// computes. NCCL launches clusters of 4 blocks, which run within a group of 16
/// multiprocessors or more: where a quarter of all is free, 4 are in some
/// group.
struct LinkShares {
  int messages = 4;    ///< of a direction
  int collectives = 0; ///< of a stream; 0: there is no room
  int sum(const LinkNeeds &needs) const {
    return messages * needs.directions() + collectives * needs.streams;
  }
};

/// For a device with so many multiprocessors. Powers of two, as NCCL rounds
/// what exchanges messages up to them; 32 at most, beyond which nothing is won.
inline LinkShares sharesFor(const LinkNeeds &needs, int multiprocessors) {
  LinkShares shares;
  for (shares.collectives = 32; shares.collectives > 0; shares.collectives /= 2)
    if (shares.sum(needs) <= multiprocessors - (multiprocessors + 3) / 4)
      break;
  return shares;
}

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_LINKNEEDS_H
