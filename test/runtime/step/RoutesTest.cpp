//===- RoutesTest.cpp - which rows go from rank to rank ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Routes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace dt::rt;

namespace {

/// Items dealt to replicas at random; some may get none.
std::vector<Items> deal(std::mt19937 &random, int64_t items, size_t replicas) {
  std::vector<Items> parts(replicas);
  for (int64_t i = 0; i < items; ++i)
    parts[random() % replicas].push_back(i);
  return parts;
}

std::vector<int64_t> rowsOf(const std::vector<ItemRun> &runs) {
  std::vector<int64_t> rows;
  for (const ItemRun &run : runs)
    for (int64_t i = 0; i < run.count; ++i)
      rows.push_back(run.first + i);
  return rows;
}

/// Each item reaches its consumer's part once, at its place, and leaves from
/// the rank that the rule names; both ends have as many rows.
void checkAll(std::mt19937 &random, size_t from, int64_t fromTp, size_t to,
              int64_t toTp, int64_t items) {
  std::vector<Items> a = deal(random, items, from), b = deal(random, items, to);
  std::map<int64_t, int> seen;
  for (size_t r = 0; r < from; ++r)
    for (int64_t s = 0; s < fromTp; ++s)
      for (size_t q = 0; q < to; ++q)
        for (int64_t t = 0; t < toTp; ++t) {
          Route route = routeOf({&a[r], fromTp, s}, {&b[q], toTp, t});
          std::vector<int64_t> out = rowsOf(route.producer),
                               in = rowsOf(route.consumer);
          ASSERT_EQ(out.size(), size_t(route.items));
          ASSERT_EQ(in.size(), out.size());
          for (size_t i = 0; i < out.size(); ++i) {
            int64_t item = a[r][size_t(out[i])];
            EXPECT_EQ(b[q][size_t(in[i])], item);
            EXPECT_EQ(out[i] * fromTp / int64_t(a[r].size()), s);
            int64_t n = int64_t(b[q].size());
            EXPECT_GE(in[i], t * n / toTp);
            EXPECT_LT(in[i], (t + 1) * n / toTp);
            ++seen[item];
          }
          for (size_t i = 1; i < route.producer.size(); ++i)
            EXPECT_GT(route.producer[i].first, route.producer[i - 1].first +
                                                   route.producer[i - 1].count);
        }
  EXPECT_EQ(int64_t(seen.size()), items);
  for (auto &[item, times] : seen)
    EXPECT_EQ(times, 1);
}

TEST(Routes, EveryItemOnce) {
  std::mt19937 random(3);
  for (int64_t items : {0, 1, 2, 7, 40}) {
    checkAll(random, 3, 1, 2, 1, items);
    checkAll(random, 2, 1, 5, 1, items);
    checkAll(random, 1, 1, 1, 4, items);
    checkAll(random, 3, 2, 2, 4, items);
    checkAll(random, 2, 4, 3, 2, items);
  }
}

/// Rows that any rank may send to any other: three encoders, two owners with
/// two ranks each.
TEST(Routes, Brokers) {
  Items first = {0, 1}, second = {2, 3}, owner = {2, 3, 4, 5};
  Route route = routeOf({&second, 1, 0}, {&owner, 2, 0});
  EXPECT_EQ(route.producer, (std::vector<ItemRun>{{0, 2}}));
  EXPECT_EQ(route.consumer, (std::vector<ItemRun>{{0, 2}}));
  EXPECT_EQ(routeOf({&second, 1, 0}, {&owner, 2, 1}).items, 0);
  EXPECT_EQ(routeOf({&first, 1, 0}, {&owner, 2, 0}).items, 0);
}

TEST(Routes, RowsThatAreNotTogether) {
  Items encoder = {0, 2, 3, 5}, owner = {0, 1, 2, 5};
  Route route = routeOf({&encoder, 1, 0}, {&owner, 1, 0});
  EXPECT_EQ(route.producer, (std::vector<ItemRun>{{0, 2}, {3, 1}}));
  EXPECT_EQ(route.consumer, (std::vector<ItemRun>{{0, 1}, {2, 2}}));
}

TEST(Routes, Chunks) {
  EXPECT_EQ(arrivingAt(5, 2, 0), (ItemRun{0, 2}));
  EXPECT_EQ(arrivingAt(5, 2, 1), (ItemRun{2, 3}));
  EXPECT_EQ(leavingFrom(5, 2, 0), (ItemRun{0, 3}));
  EXPECT_EQ(leavingFrom(5, 2, 1), (ItemRun{3, 2}));
  EXPECT_EQ(leavingFrom(1, 4, 0), (ItemRun{0, 1}));
  EXPECT_EQ(leavingFrom(1, 4, 3).count, 0);
}

TEST(Routes, GradientsOfTheWholeBatchComeFromOneRank) {
  int32_t ranks[] = {4, 2, 7};
  ModuleInfo head{};
  head.ranks = ranks;
  EXPECT_EQ(gradientSource(head, 2), 1);
  EXPECT_EQ(gradientSource(head, 5), 2);
}

} // namespace
