//===- Partition.h - Items over replicas, evenly ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Intra-microbatch reordering: items of known cost are cut over data-parallel
// replicas so that the slowest replica is as fast as possible. DistTrain
// (section 5.1) uses LPT alone, which leaves up to 11 % on packed sequences,
// where a replica holds few items of nearly equal size; here the slowest
// replica then trades items with the others until no trade helps.
//
// A pure function of integers: no clock, no threads, no hashes, ties by id, the
// work is bounded by a count. All ranks compute the same parts and nobody sends
// them. Plain C++17, since emitted programs have a copy.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_REORDER_PARTITION_H
#define DT_RUNTIME_REORDER_PARTITION_H

#include <cstdint>
#include <string>
#include <vector>

namespace dt::reorder {

struct PartitionOptions {
  int32_t groups = 1;
  /// Most items in a group (what its memory is planned for); 0: no bound.
  int32_t maxCount = 0;
  /// Work of the improvement, in pairs of items looked at.
  int64_t effort = 48000;
  /// Of every group, at least 1; only their ratios count. Empty: all alike.
  std::vector<int32_t> speeds;
};

struct Partition {
  /// Items of every group, ascending.
  std::vector<std::vector<int32_t>> groups;
  /// Time of the slowest group: its load; with unequal speeds its load times
  /// how much slower than the fastest it is, in 1/256.
  int64_t largest = 0;
};

/// What is wrong with the input: groups below 1, negative costs, times that do
/// not fit, more items than groups * maxCount, speeds of other groups. Empty if
/// nothing is.
std::string checkPartition(const std::vector<int64_t> &costs,
                           const PartitionOptions &options);

/// No partition has a smaller largest load, groups being alike.
int64_t partitionLowerBound(const std::vector<int64_t> &costs, int32_t groups);

/// Largest first, each to the group with room that is done with it first. Costs
/// of any unit; the input must have passed checkPartition().
Partition partitionLPT(const std::vector<int64_t> &costs,
                       const PartitionOptions &options);

/// LPT, then trades. O(n log n + effort).
Partition partition(const std::vector<int64_t> &costs,
                    const PartitionOptions &options);
/// The same of items whose order is known: most expensive first, ties by
/// number.
Partition partition(const std::vector<int64_t> &costs,
                    const std::vector<int32_t> &order,
                    const PartitionOptions &options);
/// That order.
std::vector<int32_t> sortedByCost(const std::vector<int64_t> &costs);

} // namespace dt::reorder

#endif // DT_RUNTIME_REORDER_PARTITION_H
