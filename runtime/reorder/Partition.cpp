//===- Partition.cpp - Items over replicas, evenly ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/reorder/Partition.h"

#include "runtime/reorder/Subsets.h"
#include "runtime/reorder/Tournament.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace dt::reorder {

using Cost = int64_t;

namespace {

/// Costs and items.
using Keys = std::vector<std::pair<Cost, int32_t>>;

/// By cost, byte by byte from the last one, which keeps equal ones in order.
/// No cost is negative or above `most`.
void sortByBytes(Keys &keys, Cost most) {
  Keys sorted(keys.size());
  for (int shift = 0; shift < 64 && most >> shift > 0; shift += 8) {
    size_t starts[257] = {};
    for (const auto &[cost, item] : keys)
      ++starts[(cost >> shift & 255) + 1];
    std::partial_sum(starts, starts + 257, starts);
    for (const auto &key : keys)
      sorted[starts[key.first >> shift & 255]++] = key;
    keys.swap(sorted);
  }
}

} // namespace

std::vector<int32_t> sortedByCost(const std::vector<Cost> &costs) {
  // Side by side with what they cost less than the most expensive one.
  Keys keys;
  keys.reserve(costs.size());
  Cost most = 0, range = 0;
  for (Cost cost : costs)
    most = std::max(most, cost);
  for (size_t i = 0; i < costs.size(); ++i) {
    keys.emplace_back(most - costs[i], int32_t(i));
    range = std::max(range, keys.back().first);
  }
  // Counting the values of bytes takes longer than comparing a few items.
  if (keys.size() < 256)
    std::sort(keys.begin(), keys.end());
  else
    sortByBytes(keys, range);
  std::vector<int32_t> order;
  order.reserve(keys.size());
  for (const auto &[cost, item] : keys)
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

/// Of groups that have nothing, by slowness.
std::vector<Tournament> tournaments(const std::vector<Cost> &slowness) {
  std::vector<Tournament> result;
  for (size_t i = 0; i < slowness.size(); ++i) {
    auto same =
        std::find_if(result.begin(), result.end(), [&](const auto &other) {
          return other.slowness == slowness[i];
        });
    if (same == result.end())
      same = result.insert(same, Tournament(slowness[i]));
    same->add(int32_t(i));
  }
  for (Tournament &one : result)
    one.begin();
  return result;
}

/// partitionLPT() of items whose order by cost is known; groups have them in
/// that order.
Partition assignInOrder(const std::vector<Cost> &costs,
                        const std::vector<int32_t> &order,
                        const std::vector<Cost> &slowness,
                        const PartitionOptions &options) {
  Partition result;
  result.groups.resize(size_t(options.groups));
  size_t mean = costs.size() / result.groups.size() + 1;
  for (auto &group : result.groups)
    group.reserve(mean);
  std::vector<Tournament> kinds = tournaments(slowness);
  for (int32_t item : order) {
    // Where it is done first; of equals the group that comes first.
    Tournament *best = nullptr;
    std::pair<Cost, int32_t> least;
    for (Tournament &kind : kinds) {
      if (kind.load() == Tournament::kOut)
        continue;
      std::pair done = {(kind.load() + costs[item]) * kind.slowness,
                        kind.group()};
      if (!best || done < least) {
        best = &kind;
        least = done;
      }
    }
    auto &group = result.groups[size_t(least.second)];
    group.push_back(item);
    result.largest = std::max(result.largest, least.first);
    bool full =
        options.maxCount > 0 && int32_t(group.size()) >= options.maxCount;
    best->setLoad(full ? Tournament::kOut : best->load() + costs[item]);
  }
  return result;
}

/// Groups with their items ascending.
Partition sortedGroups(Partition partition, size_t items) {
  std::vector<int32_t> groupOf(items);
  for (size_t g = 0; g < partition.groups.size(); ++g) {
    for (int32_t item : partition.groups[g])
      groupOf[size_t(item)] = int32_t(g);
    partition.groups[g].clear();
  }
  for (size_t i = 0; i < items; ++i)
    partition.groups[size_t(groupOf[i])].push_back(int32_t(i));
  return partition;
}

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
  Trade findTrade(int full, Cost bound, int64_t &left) {
    if (groups[full].size() <= kExhaustive)
      subsets.make(costs, groups[full], areAlike(slowness));
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
                        ? divide(full, other, best.largest, left)
                        : exchange(full, other, best.largest, left);
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

  /// What the group does in that time.
  Cost loadIn(Cost time, int group) const {
    return slowness[group] == 1 ? time : time / slowness[group];
  }

  /// All ways to cut the items of two small groups in two: to the subsets of
  /// the second group are added those of the first that make the pair faster
  /// than `limit`. Of ways as good the one that comes first in Gray-code order.
  Trade divide(int a, int b, Cost limit, int64_t &left) {
    size_t sizeA = groups[a].size(), n = sizeA + groups[b].size();
    left -= int64_t((size_t(1) << (n - 1)) / 8 + 1);
    sumSubsets(groups[b]);
    Trade best;
    best.largest = limit;
    uint32_t rank = 0;
    Cost total = sums[a] + sums[b];
    for (size_t i = 0; i < others.size(); ++i) {
      Cost least = total - loadIn(best.largest, b) - others[i],
           most = loadIn(best.largest, a) - others[i];
      for (size_t s = subsets.atLeast(least); subsets.sum(s) <= most; ++s) {
        Cost first = subsets.sum(s) + others[i];
        uint32_t items = subsets.mask(s) | uint32_t(i) << sizeA;
        std::pair key = {
            std::max(first * slowness[a], (total - first) * slowness[b]),
            grayRank(items, int(n))};
        size_t count = size_t(__builtin_popcount(items));
        if (key < std::pair(best.largest, rank) && fits(count) &&
            fits(n - count)) {
          std::tie(best.largest, rank) = key;
          best.mask = items | kMask;
        }
      }
    }
    return best;
  }

  /// Of every subset of some items, by mask.
  void sumSubsets(const std::vector<int32_t> &items) {
    others.resize(size_t(1) << items.size());
    size_t n = 1;
    others[0] = 0;
    for (int32_t item : items) {
      Cost cost = costs[size_t(item)];
      for (size_t i = 0; i < n; ++i)
        others[n + i] = others[i] + cost;
      n *= 2;
    }
  }

  /// One item for one or none: the difference nearest to half the gap. Items
  /// of a group stand most expensive first, so one sweep over both finds it.
  Trade exchange(int a, int b, Cost limit, int64_t &left) const {
    Trade best;
    best.largest = limit;
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

  /// Deals the items of both groups anew, most expensive first as they stand.
  void apply(int a, const Trade &trade) {
    const std::vector<int32_t> &own = groups[a], &other = groups[trade.partner];
    first.clear(), second.clear();
    for (size_t i = 0, j = 0; i < own.size() || j < other.size();) {
      bool mine =
          j == other.size() || (i < own.size() && comesFirst(own[i], other[j]));
      size_t at = mine ? i : own.size() + j;
      bool moves = int(at) == trade.give ||
                   (trade.take >= 0 && at == own.size() + size_t(trade.take));
      bool inFirst = trade.mask ? trade.mask >> at & 1 : mine != moves;
      (inFirst ? first : second).push_back(mine ? own[i++] : other[j++]);
    }
    groups[a].swap(first);
    groups[trade.partner].swap(second);
    place(a);
    place(trade.partner);
  }

  /// Most expensive first, ties by number.
  bool comesFirst(int32_t x, int32_t y) const {
    return costs[x] != costs[y] ? costs[x] > costs[y] : x < y;
  }

  /// Gives a group with new items its new place in the order by load.
  void place(int group) {
    auto byLoad = [&](int x, int y) { return less(x, y); };
    auto old = std::lower_bound(order.begin(), order.end(), group, byLoad);
    Cost sum = 0;
    for (int32_t item : groups[group])
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
  }

  const std::vector<Cost> &costs;
  const PartitionOptions &options;
  const std::vector<Cost> &slowness;
  std::vector<std::vector<int32_t>> &groups;
  std::vector<Cost> sums, times;
  Subsets subsets;                    ///< of the fullest group, if it is small
  std::vector<Cost> others;           ///< sums of subsets of its partner
  std::vector<int32_t> first, second; ///< what a trade makes
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
      assignInOrder(costs, sortedByCost(costs), slownessOf(options), options),
      costs.size());
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
  return sortedGroups(std::move(result), costs.size());
}

} // namespace dt::reorder
