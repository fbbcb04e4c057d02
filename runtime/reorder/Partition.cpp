//===- Partition.cpp - Items over replicas, evenly ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/reorder/Partition.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace dt::reorder {

namespace {

using Cost = int64_t;

/// Ids, dearest first, ties by id.
std::vector<int32_t> sortedByCost(const std::vector<Cost> &costs) {
  // Side by side with their costs, which are read at every comparison.
  std::vector<std::pair<Cost, int32_t>> items;
  items.reserve(costs.size());
  for (size_t i = 0; i < costs.size(); ++i)
    items.emplace_back(-costs[i], int32_t(i));
  std::sort(items.begin(), items.end());
  std::vector<int32_t> order;
  order.reserve(items.size());
  for (const auto &[cost, item] : items)
    order.push_back(item);
  return order;
}

/// partitionLowerBound() of items whose order by cost is known.
Cost lowerBound(const std::vector<Cost> &costs,
                const std::vector<int32_t> &order, int32_t groups) {
  Cost sum = 0;
  for (Cost cost : costs)
    sum += cost;
  Cost bound = (sum + groups - 1) / groups;
  // Of the k*m + 1 dearest, some group holds k + 1: at least the cheapest ones.
  for (size_t k = 1; k * groups < costs.size(); ++k) {
    Cost together = 0;
    for (size_t i = 0; i <= k; ++i)
      together += costs[order[k * groups - i]];
    bound = std::max(bound, together);
    if (k > 64)
      break; // the mean is the better bound by far
  }
  return costs.empty() ? 0 : std::max(bound, costs[order[0]]);
}

/// A heap of loads and groups, the least on top: moves the top, which has
/// grown, to where it belongs.
void sink(std::vector<std::pair<Cost, int32_t>> &heap) {
  size_t at = 0;
  auto entry = heap.front();
  for (size_t next; (next = 2 * at + 1) < heap.size(); at = next) {
    next += next + 1 < heap.size() && heap[next + 1] < heap[next];
    if (!(heap[next] < entry))
      break;
    heap[at] = heap[next];
  }
  heap[at] = entry;
}

/// partitionLPT() of items whose order by cost is known; groups have them in
/// that order.
Partition assignInOrder(const std::vector<Cost> &costs,
                        const std::vector<int32_t> &order,
                        const PartitionOptions &options) {
  std::vector<std::pair<Cost, int32_t>> heap;
  heap.reserve(options.groups);
  Partition result;
  result.groups.resize(options.groups);
  for (int32_t i = 0; i < options.groups; ++i) {
    heap.emplace_back(0, i);
    result.groups[i].reserve(costs.size() / options.groups + 1);
  }
  for (int32_t item : order) {
    auto &group = result.groups[heap.front().second];
    group.push_back(item);
    heap.front().first += costs[item];
    result.largest = std::max(result.largest, heap.front().first);
    if (options.maxCount > 0 && int32_t(group.size()) >= options.maxCount) {
      heap.front() = heap.back();
      heap.pop_back();
    }
    if (!heap.empty())
      sink(heap);
  }
  return result;
}

Partition sortedGroups(Partition partition) {
  for (auto &group : partition.groups)
    std::sort(group.begin(), group.end());
  return partition;
}

/// Pairs of groups with at most this many items together are divided anew by
/// trying all ways; larger ones trade one item for one or none.
constexpr int kExhaustive = 10;

/// What a pair of groups becomes; `largest` is what matters.
struct Trade {
  Cost largest = std::numeric_limits<Cost>::max();
  int partner = -1;
  uint32_t mask = 0;        ///< items of the first group, of both in order
  int give = -1, take = -1; ///< else: positions
};

class Improver {
public:
  Improver(const std::vector<Cost> &costs, const PartitionOptions &options,
           std::vector<std::vector<int32_t>> &groups)
      : costs(costs), options(options), groups(groups) {
    for (const auto &group : groups) {
      Cost sum = 0;
      for (int32_t item : group)
        sum += costs[item];
      sums.push_back(sum);
    }
    order.resize(groups.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return less(a, b); });
  }

  /// Returns the largest load.
  Cost run(Cost bound) {
    int64_t left = options.effort;
    while (left > 0 && sums[order.back()] > bound) {
      Trade best = findTrade(order.back(), bound, left);
      if (best.partner < 0)
        break;
      apply(order.back(), best);
    }
    return sums[order.back()];
  }

private:
  bool less(int a, int b) const {
    return sums[a] != sums[b] ? sums[a] < sums[b] : a < b;
  }

  /// A good trade of the fullest group, looked for among the emptiest first.
  /// Two that leave the pair below the second fullest group end the search, or
  /// one that takes most of what is above the bound: the rounds saved are worth
  /// more than the best trade.
  Trade findTrade(int full, Cost bound, int64_t &left) const {
    Trade best;
    best.largest = sums[full];
    Cost second = order.size() > 1 ? sums[order[order.size() - 2]] : 0;
    int better = 0;
    for (size_t i = 0; i + 1 < order.size() && left > 0; ++i) {
      int other = order[i];
      if (sums[other] >= sums[full])
        break;
      // Even a perfect cut of the two is no better.
      if ((sums[full] + sums[other] + 1) / 2 >= best.largest)
        break;
      Trade trade = groups[full].size() + groups[other].size() <= kExhaustive
                        ? divide(full, other, left)
                        : exchange(full, other, left);
      if (trade.largest < best.largest) {
        best = trade;
        best.partner = other;
      }
      if (best.largest < second && ++better == 2)
        break;
      if (best.largest <= bound + (sums[full] - bound) / 4)
        break;
    }
    return best;
  }

  bool fits(size_t count) const {
    return options.maxCount == 0 || count <= size_t(options.maxCount);
  }

  /// All ways to cut the items of two small groups in two, in Gray-code order,
  /// so that each costs one addition. The first item stays in the first group.
  Trade divide(int a, int b, int64_t &left) const {
    Cost items[kExhaustive];
    int n = 0;
    for (int group : {a, b})
      for (int32_t item : groups[group])
        items[n++] = costs[item];
    Cost total = sums[a] + sums[b], sum = items[0];
    uint32_t mask = 1;
    int count = 1;
    Trade best;
    uint32_t ways = 1u << (n - 1);
    left -= ways / 8 + 1;
    for (uint32_t i = 1;; ++i) {
      Cost largest = std::max(sum, total - sum);
      if (largest < best.largest && fits(count) && fits(n - count)) {
        best.largest = largest;
        best.mask = mask;
      }
      if (i == ways)
        return best;
      int bit = __builtin_ctz(i) + 1;
      mask ^= 1u << bit;
      bool in = mask >> bit & 1;
      sum += in ? items[bit] : -items[bit];
      count += in ? 1 : -1;
    }
  }

  /// One item for one or none: the difference nearest to half the gap. Items
  /// of a group stand dearest first, so one sweep over both finds it.
  Trade exchange(int a, int b, int64_t &left) const {
    Trade best;
    const auto &from = groups[a], &to = groups[b];
    left -= int64_t(from.size() + to.size());
    auto consider = [&](int give, int take) {
      Cost delta = costs[from[give]] - (take < 0 ? 0 : costs[to[take]]);
      Cost largest = std::max(sums[a] - delta, sums[b] + delta);
      if (largest < best.largest) {
        best.largest = largest;
        best.give = give;
        best.take = take;
      }
    };
    Cost gap = sums[a] - sums[b];
    size_t take = 0;
    bool room = fits(to.size() + 1);
    for (size_t give = 0; give < from.size(); ++give) {
      if (room)
        consider(int(give), -1);
      Cost want = costs[from[give]] - gap / 2; // cost of the item to get back
      while (take < to.size() && costs[to[take]] > want)
        ++take;
      if (take < to.size())
        consider(int(give), int(take));
      if (take > 0)
        consider(int(give), int(take) - 1);
    }
    return best;
  }

  void apply(int a, const Trade &trade) {
    int b = trade.partner;
    std::vector<int32_t> both(groups[a]);
    both.insert(both.end(), groups[b].begin(), groups[b].end());
    size_t sizeA = groups[a].size();
    std::vector<int32_t> first, second;
    for (size_t i = 0; i < both.size(); ++i) {
      bool inFirst = i < sizeA;
      if (trade.mask)
        inFirst = trade.mask >> i & 1;
      else if (int(i) == trade.give ||
               (trade.take >= 0 && i == sizeA + trade.take))
        inFirst = !inFirst;
      (inFirst ? first : second).push_back(both[i]);
    }
    place(a, std::move(first));
    place(b, std::move(second));
  }

  /// Gives a group new items and its new place in the order by load.
  void place(int group, std::vector<int32_t> items) {
    std::sort(items.begin(), items.end(), [&](int32_t x, int32_t y) {
      return costs[x] != costs[y] ? costs[x] > costs[y] : x < y;
    });
    auto byLoad = [&](int x, int y) { return less(x, y); };
    auto old = std::lower_bound(order.begin(), order.end(), group, byLoad);
    Cost sum = 0;
    for (int32_t item : items)
      sum += costs[item];
    sums[group] = sum;
    // All but this one are in order: move it to where it belongs.
    auto right = std::lower_bound(old + 1, order.end(), group, byLoad);
    if (right != old + 1)
      std::rotate(old, old + 1, right);
    else
      std::rotate(std::lower_bound(order.begin(), old, group, byLoad), old,
                  old + 1);
    groups[group] = std::move(items);
  }

  const std::vector<Cost> &costs;
  const PartitionOptions &options;
  std::vector<std::vector<int32_t>> &groups;
  std::vector<Cost> sums;
  std::vector<int> order; ///< groups, emptiest first, ties by number
};

} // namespace

std::string checkPartition(const std::vector<Cost> &costs,
                           const PartitionOptions &options) {
  if (options.groups < 1)
    return "expected at least one group, not " + std::to_string(options.groups);
  Cost sum = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i] < 0)
      return "item " + std::to_string(i) + " has the negative cost " +
             std::to_string(costs[i]);
    if (__builtin_add_overflow(sum, costs[i], &sum))
      return "the sum of the costs does not fit 63 bits";
  }
  if (costs.size() > size_t(std::numeric_limits<int32_t>::max()))
    return "more than 2^31 items";
  if (options.maxCount > 0 &&
      int64_t(costs.size()) > int64_t(options.groups) * options.maxCount)
    return std::to_string(costs.size()) + " items do not fit " +
           std::to_string(options.groups) + " groups of at most " +
           std::to_string(options.maxCount);
  return "";
}

Cost partitionLowerBound(const std::vector<Cost> &costs, int32_t groups) {
  return lowerBound(costs, sortedByCost(costs), groups);
}

Partition partitionLPT(const std::vector<Cost> &costs,
                       const PartitionOptions &options) {
  return sortedGroups(assignInOrder(costs, sortedByCost(costs), options));
}

Partition partition(const std::vector<Cost> &costs,
                    const PartitionOptions &options) {
  std::vector<int32_t> order = sortedByCost(costs);
  Partition result = assignInOrder(costs, order, options);
  Cost bound = lowerBound(costs, order, options.groups);
  if (result.largest != bound)
    result.largest = Improver(costs, options, result.groups).run(bound);
  return sortedGroups(std::move(result));
}

} // namespace dt::reorder
