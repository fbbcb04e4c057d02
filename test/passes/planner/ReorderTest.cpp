//===- ReorderTest.cpp - Parts and orders ---------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/reorder/Order.h"
#include "runtime/reorder/Partition.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

using namespace dt::reorder;
using Json = nlohmann::json;

namespace {

Json reference(const char *key) {
  return Json::parse(std::ifstream(DT_PLAN_DATA "/reorder.json"))[key];
}

/// Every item in one group; the largest load is what is claimed.
void expectPartition(const std::vector<int64_t> &costs,
                     const PartitionOptions &options, const Partition &parts) {
  ASSERT_EQ(parts.groups.size(), size_t(options.groups));
  std::vector<int> seen(costs.size(), 0);
  int64_t largest = 0;
  for (const auto &group : parts.groups) {
    int64_t sum = 0;
    for (int32_t item : group) {
      ++seen[item];
      sum += costs[item];
    }
    largest = std::max(largest, sum);
    if (options.maxCount)
      EXPECT_LE(int32_t(group.size()), options.maxCount);
  }
  EXPECT_EQ(largest, parts.largest);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), int64_t(costs.size()));
}

TEST(Partition, NearBestKnown) {
  for (const Json &test : reference("intra")) {
    std::vector<int64_t> costs = test["costs"];
    for (const char *kind : {"free", "equal_count"}) {
      if (!test.contains(kind))
        continue;
      SCOPED_TRACE(test["id"].get<std::string>() + " " + kind);
      PartitionOptions options;
      options.groups = test["ranks"];
      if (std::string(kind) == "equal_count")
        options.maxCount =
            int32_t((costs.size() + options.groups - 1) / options.groups);
      ASSERT_EQ(checkPartition(costs, options), "");
      Partition parts = partition(costs, options);
      expectPartition(costs, options, parts);
      EXPECT_LE(double(parts.largest), 1.01 * test[kind]["best"].get<double>());
      EXPECT_GE(parts.largest, test[kind]["lower_bound"].get<int64_t>());
      EXPECT_GE(parts.largest, partitionLowerBound(costs, options.groups));
    }
  }
}

TEST(Partition, EmptyAndDegenerate) {
  PartitionOptions options;
  options.groups = 3;
  Partition parts = partition({}, options);
  expectPartition({}, options, parts);
  std::vector<int64_t> zeros(7, 0);
  expectPartition(zeros, options, partition(zeros, options));
  std::vector<int64_t> one = {5};
  EXPECT_EQ(partition(one, options).largest, 5);
  options.groups = 1;
  EXPECT_EQ(partition({1, 2, 3}, options).largest, 6);
}

TEST(Partition, TiesGoById) {
  PartitionOptions options;
  options.groups = 2;
  Partition parts = partition({4, 4, 4, 4}, options);
  EXPECT_EQ(parts.groups[0], (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(parts.groups[1], (std::vector<int32_t>{1, 3}));
}

/// The slowest group's time, in 1/256 of what a unit of cost takes the fastest.
int64_t longestOf(const std::vector<int64_t> &costs,
                  const std::vector<int32_t> &speeds,
                  const std::vector<std::vector<int32_t>> &groups) {
  int64_t fastest = *std::max_element(speeds.begin(), speeds.end()),
          longest = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    int64_t sum = 0;
    for (int32_t item : groups[g])
      sum += costs[item];
    longest =
        std::max(longest, sum * ((fastest * 256 + speeds[g] / 2) / speeds[g]));
  }
  return longest;
}

TEST(Partition, SharesOfUnequalSpeed) {
  PartitionOptions options;
  options.groups = 3;
  options.speeds = {2, 1, 3};
  std::vector<int64_t> alike(12, 5);
  Partition parts = partition(alike, options);
  EXPECT_EQ(parts.groups[0].size(), 4u);
  EXPECT_EQ(parts.groups[1].size(), 2u);
  EXPECT_EQ(parts.groups[2].size(), 6u);
  EXPECT_EQ(parts.largest, longestOf(alike, options.speeds, parts.groups));
  // Who is too slow for one item gets none.
  options.groups = 2;
  options.speeds = {1, 10};
  EXPECT_TRUE(partition({7, 7}, options).groups[0].empty());
  // Bounds of memory hold for the fast one too.
  options.maxCount = 3;
  EXPECT_EQ(partition({7, 7, 7, 7}, options).groups[1].size(), 3u);
  // Equal speeds are none.
  options.speeds = {4, 4};
  Partition even = partition({9, 8, 7, 6}, options);
  options.speeds = {};
  EXPECT_EQ(partition({9, 8, 7, 6}, options).groups, even.groups);
  EXPECT_EQ(even.largest, 15);
}

/// All ways to cut eight items over two groups are tried.
TEST(Partition, UnequalSpeedNearBest) {
  uint64_t state = 1;
  auto next = [&](uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return int64_t((state >> 33) % below);
  };
  double worst = 1;
  for (int test = 0; test < 200; ++test) {
    std::vector<int64_t> costs;
    for (int i = 0; i < 8; ++i)
      costs.push_back(1 + next(100));
    PartitionOptions options;
    options.groups = 2;
    options.speeds = {int32_t(1 + next(9)), int32_t(1 + next(9))};
    if (options.speeds[0] == options.speeds[1])
      continue;
    int64_t best = INT64_MAX;
    for (int mask = 0; mask < 256; ++mask) {
      std::vector<std::vector<int32_t>> groups(2);
      for (int i = 0; i < 8; ++i)
        groups[mask >> i & 1].push_back(i);
      best = std::min(best, longestOf(costs, options.speeds, groups));
    }
    Partition parts = partition(costs, options);
    EXPECT_EQ(parts.largest, longestOf(costs, options.speeds, parts.groups));
    EXPECT_GE(parts.largest, best);
    worst = std::max(worst, double(parts.largest) / double(best));
  }
  EXPECT_LT(worst, 1.001);
}

/// What makes partitions faster must not change them: a plan's predictions and
/// a run that is resumed rely on it.
TEST(Partition, Unchanged) {
  uint64_t state = 7, hash = 0;
  auto next = [&](uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return int64_t((state >> 33) % below);
  };
  auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 29;
  };
  for (int test = 0; test < 600; ++test) {
    PartitionOptions options;
    options.groups = int32_t(1 + next(60));
    std::vector<int64_t> costs;
    for (int64_t i = 0, n = next(options.groups * 8), range = 1 << next(30);
         i < n; ++i)
      costs.push_back(next(uint64_t(range)));
    if (next(2))
      options.maxCount =
          int32_t(1 + int64_t(costs.size()) / options.groups + next(2));
    for (int i = 0; test % 3 == 0 && i < options.groups; ++i)
      options.speeds.push_back(int32_t(1 + next(4)));
    ASSERT_EQ(checkPartition(costs, options), "");
    Partition parts = partition(costs, options);
    mix(uint64_t(parts.largest));
    for (const auto &group : parts.groups)
      for (int32_t item : group)
        mix(uint64_t(item) + 1);
  }
  EXPECT_EQ(hash, 0x75C153DB0AB6EE81ull);
}

TEST(Partition, BadInput) {
  PartitionOptions options;
  options.groups = 0;
  EXPECT_NE(checkPartition({1}, options), "");
  options.groups = 2;
  EXPECT_NE(checkPartition({1, -1}, options), "");
  EXPECT_NE(checkPartition({INT64_MAX, 1}, options), "");
  options.maxCount = 1;
  EXPECT_EQ(checkPartition({1, 2, 3}, options),
            "3 items do not fit 2 groups of at most 1");
  options.maxCount = 0;
  options.speeds = {1};
  EXPECT_EQ(checkPartition({1}, options), "1 speeds of 2 groups");
  options.speeds = {1, 0};
  EXPECT_EQ(checkPartition({1}, options),
            "expected speeds of at least 1, not 0");
  options.speeds = {1, 1 << 20};
  EXPECT_EQ(checkPartition({INT64_MAX / 4}, options),
            "the sum of the costs over the least speed does not fit 63 bits");
}

/// What is wrong with the problem, or "".
std::string checkOrderProblem(const OrderProblem &problem) {
  if (problem.microbatches < 0)
    return "a negative number of microbatches";
  for (size_t row = 0; row < problem.durations.size(); ++row) {
    if (int64_t(problem.durations[row].size()) != problem.microbatches)
      return "row " + std::to_string(row) + " has " +
             std::to_string(problem.durations[row].size()) +
             " durations; expected one for each of the " +
             std::to_string(problem.microbatches) + " microbatches";
    for (int64_t duration : problem.durations[row])
      if (duration < 0)
        return "row " + std::to_string(row) + " has a negative duration";
  }
  int32_t rows = int32_t(problem.durations.size());
  for (size_t i = 0; i < problem.tasks.size(); ++i) {
    const auto &task = problem.tasks[i];
    bool valid = task.row >= 0 && task.row < rows && task.place >= 0 &&
                 task.place < problem.microbatches;
    for (const auto &wait : task.waits)
      valid &= wait.task >= 0 && wait.task < int32_t(i) && wait.delay >= 0;
    if (!valid)
      return "task " + std::to_string(i) +
             " names a row, a place or an earlier task that does not exist";
  }
  return "";
}

OrderProblem load(const Json &test) {
  size_t n = test["microbatches"];
  auto rows = [&](const Json &list) {
    std::vector<std::vector<int64_t>> result;
    for (const Json &row : list)
      result.push_back(row.is_number()
                           ? std::vector<int64_t>(n, row.get<int64_t>())
                           : row.get<std::vector<int64_t>>());
    return result;
  };
  return make1F1B(rows(test["forward"]), rows(test["backward"]), test["delay"]);
}

TEST(Order, EvaluatesExactly) {
  for (const Json &test : reference("inter")) {
    SCOPED_TRACE(test["id"].get<std::string>());
    OrderProblem problem = load(test);
    ASSERT_EQ(checkOrderProblem(problem), "");
    std::vector<int32_t> given(problem.microbatches);
    std::iota(given.begin(), given.end(), 0);
    EXPECT_EQ(evaluateOrder(problem, given), test["given"].get<int64_t>());
    for (const char *kind : {"algorithm2", "best"})
      EXPECT_EQ(evaluateOrder(problem, test[kind]["order"]),
                test[kind]["length"].get<int64_t>());
  }
}

TEST(Order, NearBestKnown) {
  for (const Json &test : reference("inter")) {
    SCOPED_TRACE(test["id"].get<std::string>());
    OrderProblem problem = load(test);
    Order order = reorder(problem);
    EXPECT_EQ(evaluateOrder(problem, order.order), order.length);
    std::vector<int32_t> sorted = order.order;
    std::sort(sorted.begin(), sorted.end());
    for (int32_t i = 0; i < problem.microbatches; ++i)
      ASSERT_EQ(sorted[i], i);
    EXPECT_LE(double(order.length),
              1.01 * test["best"]["length"].get<double>());
    EXPECT_GE(order.length, test["lower_bound"].get<int64_t>());
    if (test["best"]["optimal"])
      EXPECT_GE(order.length, test["best"]["length"].get<int64_t>());
  }
}

TEST(Order, Degenerate) {
  EXPECT_TRUE(reorder(make1F1B({}, {}, 0)).order.empty());
  Order one = reorder(make1F1B({{3}}, {{4}}, 5));
  EXPECT_EQ(one.length, 7);
  Order zero =
      reorder(make1F1B({{0, 0, 0}, {0, 0, 0}}, {{0, 0, 0}, {0, 0, 0}}, 0));
  EXPECT_EQ(zero.length, 0);
  EXPECT_EQ(zero.order.size(), 3u);
  OrderProblem bad = make1F1B({{1, 2}}, {{1, 2}}, 0);
  bad.durations[0].pop_back();
  EXPECT_NE(checkOrderProblem(bad), "");
}

} // namespace
