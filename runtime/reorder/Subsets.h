//===- Subsets.h - all ways to cut two small groups -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_REORDER_SUBSETS_H
#define DT_RUNTIME_REORDER_SUBSETS_H

#include <cstdint>
#include <limits>
#include <vector>

namespace dt::reorder {

/// Pairs of groups with at most this many items together are divided anew by
/// trying all ways; larger ones trade one item for one or none.
constexpr int kExhaustive = 10;

/// Where a way to cut n items in two comes, those with the first item in
/// Gray-code order and each before its opposite.
inline uint32_t grayRank(uint32_t mask, int n) {
  bool opposite = !(mask & 1);
  uint32_t code = (opposite ? ~mask & ((1u << n) - 1) : mask) >> 1;
  for (int shift = 1; shift < kExhaustive; shift *= 2)
    code ^= code >> shift;
  return 2 * code + opposite;
}

/// Subsets of a small group's items, those with the least sum first.
class Subsets {
public:
  /// `withFirst`: only those with the first item.
  void make(const std::vector<int64_t> &costs,
            const std::vector<int32_t> &items, bool withFirst) {
    sums.assign(1, withFirst ? costs[size_t(items[0])] : 0);
    masks.assign(1, withFirst ? 1 : 0);
    bits = 0;
    for (size_t i = withFirst ? 1 : 0; i < items.size(); ++i)
      add(costs[size_t(items[i])], 1u << i);
    sums.push_back(std::numeric_limits<int64_t>::max());
  }

  /// The first whose sum is at least that, or the end. Without branches, as
  /// nothing predicts them.
  size_t atLeast(int64_t sum) const {
    size_t at = 0;
    for (int bit = bits - 1; bit >= 0; --bit)
      at |= size_t(sums[at + (size_t(1) << bit) - 1] < sum) << bit;
    return at + (sums[at] < sum);
  }
  /// The end's is larger than all.
  int64_t sum(size_t subset) const { return sums[subset]; }
  /// Bit i: has the i-th item.
  uint32_t mask(size_t subset) const { return masks[subset]; }

private:
  /// Merges the subsets with the same ones and one more item, from the end.
  /// Those without it are read last: they fill the front.
  void add(int64_t cost, uint32_t bit) {
    size_t n = sums.size(), i = n, j = n;
    sums.resize(2 * n), masks.resize(2 * n), ++bits;
    while (j > 0) {
      bool with = sums[j - 1] + cost >= sums[i - 1];
      size_t to = i + j - 1, from = with ? --j : --i;
      sums[to] = sums[from] + (with ? cost : 0);
      masks[to] = masks[from] | (with ? bit : 0);
    }
  }

  int bits = 0;
  std::vector<int64_t> sums;   ///< 2^bits, and the end
  std::vector<uint32_t> masks; ///< 2^bits
};

} // namespace dt::reorder

#endif // DT_RUNTIME_REORDER_SUBSETS_H
