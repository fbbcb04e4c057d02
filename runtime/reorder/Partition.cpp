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

using Cost = int64_t;

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

namespace {

/// Of every group, what a unit of cost takes it: 1, or in 1/256 of what it
/// takes the fastest.
std::vector<Cost> slownessOf(const PartitionOptions &options) {
  std::vector<Cost> result(options.groups, 1);
  const std::vector<int32_t> &speeds = options.speeds;
  if (std::adjacent_find(speeds.begin(), speeds.end(), std::not_equal_to<>()) ==
      speeds.end())
    return result;
  Cost fastest = *std::max_element(speeds.begin(), speeds.end());
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = (fastest * 256 + speeds[i] / 2) / speeds[i];
  return result;
}

bool areAlike(const std::vector<Cost> &slowness) {
  return slowness.front() == 1;
}

/// No partition over groups of unequal speed takes less: all of them busy all
/// the time.
Cost boundOfUnequal(Cost sum, const std::vector<Cost> &slowness) {
  constexpr Cost kOne = 1 << 20;
  Cost together = 0; // work in kOne units of time, rounded up
  for (Cost one : slowness)
    together += (kOne + one - 1) / one;
  return sum / together * kOne + sum % together * kOne / together;
}

/// partitionLowerBound() of items whose order by cost is known.
Cost lowerBound(const std::vector<Cost> &costs,
                const std::vector<int32_t> &order, int32_t groups) {
  Cost sum = 0;
  for (Cost cost : costs)
    sum += cost;
  Cost bound = (sum + groups - 1) / groups;
  // Of the k*m + 1 most expensive, some group holds k + 1: at least the
  // cheapest ones.
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

/// Loads and groups, a heap with the least on top.
using Heap = std::vector<std::pair<Cost, int32_t>>;

/// Moves the top, which has grown, to where it belongs.
void sink(Heap &heap) {
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

/// Of groups alike the empty ones get the first items in turn, as those that
/// cost nothing would not. Returns how many have been dealt.
size_t dealFirst(const std::vector<Cost> &costs,
                 const std::vector<int32_t> &order,
                 std::vector<std::pair<Cost, Heap>> &heaps,
                 const PartitionOptions &options, Partition &result) {
  size_t n = std::min(order.size(), result.groups.size());
  if (heaps.size() != 1 || options.maxCount == 1 || n < result.groups.size() ||
      costs[order[n - 1]] == 0)
    return 0;
  Heap &heap = heaps[0].second; // sorted: a heap, too
  for (size_t i = 0; i < n; ++i) {
    result.groups[i].push_back(order[i]);
    heap[n - 1 - i] = {costs[order[i]], int32_t(i)};
  }
  // Of equal loads the group that comes first stands first.
  for (size_t begin = 0, end; begin < n; begin = end) {
    for (end = begin; end < n && heap[end].first == heap[begin].first;)
      ++end;
    std::reverse(heap.begin() + long(begin), heap.begin() + long(end));
  }
  result.largest = costs[order[0]] * heaps[0].first;
  return n;
}

/// partitionLPT() of items whose order by cost is known; groups have them in
/// that order.
Partition assignInOrder(const std::vector<Cost> &costs,
                        const std::vector<int32_t> &order,
                        const std::vector<Cost> &slowness,
                        const PartitionOptions &options) {
  std::vector<std::pair<Cost, Heap>> heaps; // by slowness
  Partition result;
  result.groups.resize(options.groups);
  for (int32_t i = 0; i < options.groups; ++i) {
    auto same = std::find_if(heaps.begin(), heaps.end(), [&](const auto &heap) {
      return heap.first == slowness[i];
    });
    if (same == heaps.end())
      same = heaps.insert(same, {slowness[i], Heap()});
    same->second.emplace_back(0, i);
    result.groups[i].reserve(costs.size() / options.groups + 1);
  }
  size_t first = dealFirst(costs, order, heaps, options, result);
  for (size_t i = first; i < order.size(); ++i) {
    int32_t item = order[i];
    // Where it is done first; of equals the group that comes first.
    Heap *best = nullptr;
    std::pair<Cost, int32_t> least;
    for (auto &[slow, heap] : heaps) {
      if (heap.empty())
        continue;
      std::pair<Cost, int32_t> done = {
          (heap.front().first + costs[item]) * slow, heap.front().second};
      if (!best || done < least) {
        best = &heap;
        least = done;
      }
    }
    auto &group = result.groups[least.second];
    group.push_back(item);
    best->front().first += costs[item];
    result.largest = std::max(result.largest, least.first);
    if (options.maxCount > 0 && int32_t(group.size()) >= options.maxCount) {
      best->front() = best->back();
      best->pop_back();
    }
    if (!best->empty())
      sink(*best);
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

constexpr uint32_t kMask = 1u << 31;

/// What a pair of groups becomes; `largest` is what matters.
struct Trade {
  Cost largest = std::numeric_limits<Cost>::max();
  int partner = -1;
  uint32_t mask = 0;        ///< items of the first group, of both, and kMask
  int give = -1, take = -1; ///< else: positions
};

class Improver {
public:
  Improver(const std::vector<Cost> &costs, const PartitionOptions &options,
           const std::vector<Cost> &slowness,
           std::vector<std::vector<int32_t>> &groups)
      : costs(costs), options(options), slowness(slowness), groups(groups) {
    for (size_t i = 0; i < groups.size(); ++i) {
      Cost sum = 0;
      for (int32_t item : groups[i])
        sum += costs[item];
      sums.push_back(sum);
      times.push_back(sum * slowness[i]);
    }
    order.resize(groups.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return less(a, b); });
  }

  /// Returns the longest time.
  Cost run(Cost bound) {
    int64_t left = options.effort;
    while (left > 0 && times[order.back()] > bound) {
      Trade best = findTrade(order.back(), bound, left);
      if (best.partner < 0)
        break;
      apply(order.back(), best);
    }
    return times[order.back()];
  }

private:
  bool less(int a, int b) const {
    return times[a] != times[b] ? times[a] < times[b] : a < b;
  }
  /// What two groups take with the load of both, if it could be cut anywhere.
  Cost shared(int a, int b) const {
    Cost both = sums[a] + sums[b], slow = slowness[a] + slowness[b];
    if (slowness[a] == slowness[b])
      return (both + 1) / 2 * slowness[a];
    return (both / slow * slowness[b] + both % slow * slowness[b] / slow) *
           slowness[a];
  }

  /// A good trade of the fullest group, looked for among the emptiest first.
  /// Two that leave the pair below the second fullest group end the search, or
  /// one that takes most of what is above the bound: the rounds saved are worth
  /// more than the best trade.
  Trade findTrade(int full, Cost bound, int64_t &left) const {
    Trade best;
    best.largest = times[full];
    Cost second = order.size() > 1 ? times[order[order.size() - 2]] : 0;
    int better = 0;
    for (size_t i = 0; i + 1 < order.size() && left > 0; ++i) {
      int other = order[i];
      if (times[other] >= times[full])
        break;
      // Even a perfect cut of the two is no better; of groups alike that holds
      // for all that follow.
      if (shared(full, other) >= best.largest) {
        if (areAlike(slowness))
          break;
        --left;
        continue;
      }
      Trade trade = groups[full].size() + groups[other].size() <= kExhaustive
                        ? divide(full, other, left)
                        : exchange(full, other, left);
      if (trade.largest < best.largest) {
        best = trade;
        best.partner = other;
      }
      if (best.largest < second && ++better == 2)
        break;
      if (best.largest <= bound + (times[full] - bound) / 4)
        break;
    }
    return best;
  }

  bool fits(size_t count) const {
    return options.maxCount == 0 || count <= size_t(options.maxCount);
  }

  /// All ways to cut the items of two small groups in two, in Gray-code order,
  /// so that each costs one addition. The first item stays in the first group,
  /// unless the groups are unlike: then each way is one for the other group
  /// too.
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
    bool alike = slowness[a] == slowness[b];
    for (uint32_t i = 1;; ++i) {
      auto consider = [&](Cost first, uint32_t items) {
        Cost largest =
            std::max(first * slowness[a], (total - first) * slowness[b]);
        if (largest < best.largest && fits(count) && fits(n - count)) {
          best.largest = largest;
          best.mask = items | kMask;
        }
      };
      consider(sum, mask);
      if (!alike)
        consider(total - sum, ~mask & ((1u << n) - 1));
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
  /// of a group stand most expensive first, so one sweep over both finds it.
  Trade exchange(int a, int b, int64_t &left) const {
    Trade best;
    const auto &from = groups[a], &to = groups[b];
    left -= int64_t(from.size() + to.size());
    auto consider = [&](int give, int take) {
      Cost delta = costs[from[give]] - (take < 0 ? 0 : costs[to[take]]);
      Cost largest = std::max((sums[a] - delta) * slowness[a],
                              (sums[b] + delta) * slowness[b]);
      if (largest < best.largest) {
        best.largest = largest;
        best.give = give;
        best.take = take;
      }
    };
    // The difference that would make both equal.
    Cost half = (times[a] - times[b]) / (slowness[a] + slowness[b]);
    size_t take = 0;
    bool room = fits(to.size() + 1);
    for (size_t give = 0; give < from.size(); ++give) {
      if (room)
        consider(int(give), -1);
      Cost want = costs[from[give]] - half; // cost of the item to get back
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
    times[group] = sum * slowness[group];
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
  const std::vector<Cost> &slowness;
  std::vector<std::vector<int32_t>> &groups;
  std::vector<Cost> sums, times;
  std::vector<int> order; ///< groups, done first first, ties by number
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
  if (options.speeds.empty())
    return "";
  if (options.speeds.size() != size_t(options.groups))
    return std::to_string(options.speeds.size()) + " speeds of " +
           std::to_string(options.groups) + " groups";
  for (int32_t speed : options.speeds)
    if (speed < 1)
      return "expected speeds of at least 1, not " + std::to_string(speed);
  std::vector<Cost> slowness = slownessOf(options);
  Cost slowest = *std::max_element(slowness.begin(), slowness.end());
  if (__builtin_mul_overflow(sum, slowest, &sum))
    return "the sum of the costs over the least speed does not fit 63 bits";
  return "";
}

Cost partitionLowerBound(const std::vector<Cost> &costs, int32_t groups) {
  return lowerBound(costs, sortedByCost(costs), groups);
}

Partition partitionLPT(const std::vector<Cost> &costs,
                       const PartitionOptions &options) {
  return sortedGroups(
      assignInOrder(costs, sortedByCost(costs), slownessOf(options), options));
}

Partition partition(const std::vector<Cost> &costs,
                    const PartitionOptions &options) {
  return partition(costs, sortedByCost(costs), options);
}

Partition partition(const std::vector<Cost> &costs,
                    const std::vector<int32_t> &order,
                    const PartitionOptions &options) {
  std::vector<Cost> slowness = slownessOf(options);
  Partition result = assignInOrder(costs, order, slowness, options);
  Cost bound =
      areAlike(slowness)
          ? lowerBound(costs, order, options.groups)
          : boundOfUnequal(std::accumulate(costs.begin(), costs.end(), Cost(0)),
                           slowness);
  if (result.largest != bound)
    result.largest =
        Improver(costs, options, slowness, result.groups).run(bound);
  return sortedGroups(std::move(result));
}

} // namespace dt::reorder
