//===- RoutesTest.cpp - which rows go from rank to rank ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Routes.h"
#include "runtime/base/Error.h"
#include "test/runtime/data/TestProgram.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
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

std::vector<int64_t> rowsOf(const std::vector<RowRun> &runs) {
  std::vector<int64_t> rows;
  for (const RowRun &run : runs)
    for (int64_t i = 0; i < run.count; ++i)
      rows.push_back(run.first + i);
  return rows;
}

/// Of each row of a block its item, and where this item's rows begin.
std::vector<std::pair<int64_t, int64_t>> blockOf(const ItemRows &items) {
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (size_t i = 0; i < items.count(); ++i)
    rows.insert(rows.end(), size_t(items.of(i)),
                {(*items.items)[i], int64_t(rows.size())});
  return rows;
}

/// Each row reaches its consumer's part once, at its place, and leaves from the
/// rank that the rule names; both ends have as many rows. `sizes`: of items,
/// null: one row each.
void checkAll(std::mt19937 &random, size_t from, int64_t fromTp, size_t to,
              int64_t toTp, int64_t items,
              const std::vector<int64_t> *sizes = nullptr) {
  std::vector<Items> a = deal(random, items, from), b = deal(random, items, to);
  std::map<std::pair<int64_t, int64_t>, int> seen; // item and its row
  for (size_t r = 0; r < from; ++r)
    for (int64_t s = 0; s < fromTp; ++s)
      for (size_t q = 0; q < to; ++q)
        for (int64_t t = 0; t < toTp; ++t) {
          ItemRows own{&a[r], sizes}, other{&b[q], sizes};
          Route route = routeOf({own, fromTp, s}, {other, toTp, t});
          auto mine = blockOf(own), theirs = blockOf(other);
          std::vector<int64_t> out = rowsOf(route.producer),
                               in = rowsOf(route.consumer);
          ASSERT_EQ(out.size(), size_t(route.rows));
          ASSERT_EQ(in.size(), out.size());
          for (size_t i = 0; i < out.size(); ++i) {
            auto [item, begin] = mine[size_t(out[i])];
            auto [there, first] = theirs[size_t(in[i])];
            EXPECT_EQ(there, item);
            EXPECT_EQ(in[i] - first, out[i] - begin);
            EXPECT_EQ(begin * fromTp / int64_t(mine.size()), s);
            int64_t n = int64_t(theirs.size());
            EXPECT_GE(first, t * n / toTp);
            EXPECT_LT(first, (t + 1) * n / toTp);
            ++seen[{item, out[i] - begin}];
          }
          for (size_t i = 1; i < route.producer.size(); ++i)
            EXPECT_GT(route.producer[i].first, route.producer[i - 1].first +
                                                   route.producer[i - 1].count);
        }
  int64_t all =
      sizes ? std::accumulate(sizes->begin(), sizes->end(), int64_t(0)) : items;
  EXPECT_EQ(int64_t(seen.size()), all);
  for (auto &[row, times] : seen)
    EXPECT_EQ(times, 1);
}

TEST(Routes, EveryItemOnce) {
  std::mt19937 random(3);
  for (int64_t items : {0, 1, 2, 7, 40}) {
    std::vector<int64_t> sizes;
    for (int64_t i = 0; i < items; ++i)
      sizes.push_back(int64_t(random() % 6)); // some without rows
    for (const std::vector<int64_t> *rows :
         {(decltype(&sizes))nullptr, &sizes}) {
      checkAll(random, 3, 1, 2, 1, items, rows);
      checkAll(random, 2, 1, 5, 1, items, rows);
      checkAll(random, 1, 1, 1, 4, items, rows);
      checkAll(random, 3, 2, 2, 4, items, rows);
      checkAll(random, 2, 4, 3, 2, items, rows);
    }
  }
}

/// Rows that any rank may send to any other: three encoders, two owners with
/// two ranks each.
TEST(Routes, Brokers) {
  Items first = {0, 1}, second = {2, 3}, owner = {2, 3, 4, 5};
  Route route = routeOf({{&second}, 1, 0}, {{&owner}, 2, 0});
  EXPECT_EQ(route.producer, (std::vector<RowRun>{{0, 2}}));
  EXPECT_EQ(route.consumer, (std::vector<RowRun>{{0, 2}}));
  EXPECT_EQ(routeOf({{&second}, 1, 0}, {{&owner}, 2, 1}).rows, 0);
  EXPECT_EQ(routeOf({{&first}, 1, 0}, {{&owner}, 2, 0}).rows, 0);
}

TEST(Routes, RowsThatAreNotTogether) {
  Items encoder = {0, 2, 3, 5}, owner = {0, 1, 2, 5};
  Route route = routeOf({{&encoder}, 1, 0}, {{&owner}, 1, 0});
  EXPECT_EQ(route.producer, (std::vector<RowRun>{{0, 2}, {3, 1}}));
  EXPECT_EQ(route.consumer, (std::vector<RowRun>{{0, 1}, {2, 2}}));
}

TEST(Routes, Chunks) {
  Items five = {0, 1, 2, 3, 4}, one = {7};
  EXPECT_EQ(arrivingAt({&five}, 2, 0).rows, (RowRun{0, 2}));
  EXPECT_EQ(arrivingAt({&five}, 2, 1).rows, (RowRun{2, 3}));
  EXPECT_EQ(leavingFrom({&five}, 2, 0).rows, (RowRun{0, 3}));
  EXPECT_EQ(leavingFrom({&five}, 2, 1).rows, (RowRun{3, 2}));
  EXPECT_EQ(leavingFrom({&one}, 4, 0).rows, (RowRun{0, 1}));
  EXPECT_EQ(leavingFrom({&one}, 4, 3).count, 0);
}

/// Chunks of items that have rows of their own are all of the block, in order.
TEST(Routes, ChunksOfUnequalItems) {
  Items items = {3, 0, 1, 2};
  std::vector<int64_t> sizes = {5, 0, 1, 4};
  ItemRows rows{&items, &sizes}; // 4, 5, 0 and 1 rows
  for (auto chunk : {leavingFrom, arrivingAt})
    for (int64_t tp : {1, 2, 3, 7, 12}) {
      int64_t next = 0;
      for (int64_t t = 0; t < tp; ++t) {
        RowRun run = chunk(rows, tp, t).rows;
        EXPECT_EQ(run.first, next);
        next += run.count;
      }
      EXPECT_EQ(next, rows.total());
    }
  EXPECT_EQ(leavingFrom(rows, 2, 0).rows, (RowRun{0, 9}));
  EXPECT_EQ(arrivingAt(rows, 2, 1).rows, (RowRun{9, 1}));
}

TEST(Routes, GradientsOfTheWholeBatchComeFromOneRank) {
  int32_t ranks[] = {4, 2, 7};
  ModuleInfo head{};
  head.ranks = ranks;
  EXPECT_EQ(gradientSource(head, 2), 1);
  EXPECT_EQ(gradientSource(head, 5), 2);
}

/// Two replicas of two ranks, then one of two: of a whole value any rank may
/// send to any, of one that is cut each to the one at its place.
TEST(Routes, RanksAcrossACutEdge) {
  dt::test::TestProgram tables(4, 4);
  tables.add("a", "sample", 2, 4, /*first=*/0, /*tp=*/2);
  tables.add("b", "sample", 1, 4, /*first=*/4, /*tp=*/2);
  tables.edge(0, 1);
  for (int32_t rank = 0; rank < 6; ++rank)
    tables.row(rank, TaskKind::Forward, rank / 4, 0);
  for (bool cut : {false, true}) {
    tables.edges[0].cut = cut;
    const ProgramInfo &program = tables.finish();
    for (int rank = 0; rank < 6; ++rank) {
      Placement placement(program, rank, 6);
      bool producer = rank < 4;
      EXPECT_EQ(sharersOf(program.edges[0], placement, producer ? 0 : 1),
                cut ? 1 : 2);
      for (bool gradient : {false, true})
        for (uint16_t peer = 0; peer < (producer ? 1 : 2); ++peer) {
          TaskRow row{};
          row.peer = peer, row.gradient = gradient;
          int first = producer ? 4 : 2 * peer;
          std::vector<int> all = {first, first + 1}, own = all;
          own[size_t(1 - rank % 2)] = -1;
          EXPECT_EQ(ranksAcross(program, placement, row, producer != gradient),
                    cut ? own : all);
        }
    }
  }
}

/// What a rank has of packed rows goes in one piece, whatever items they are
/// of, between ends that are cut alike.
TEST(Routes, BlocksOfPackedRows) {
  dt::test::TestProgram tables(4, 4);
  Extent half[] = {{0, -1, 1}, {4, 0, 0, /*per=*/2}, {0, -1, 8}};
  BufferInfo block{};
  block.tensor = {"rows", DType::F32, 3, half};
  for (const char *name : {"a", "b"}) {
    auto &stage = tables.add(name, "sample", 2, 64, name[0] == 'a' ? 0 : 4, 2);
    stage.symbols[0].measure = "tokens", stage.symbols[0].multiple = 2;
    stage.info.outputs = {&block, 1};
    stage.inputs.push_back({block});
  }
  tables.edge(0, 1);
  auto shapeOfEdge = [&](bool cut) {
    tables.edges[0].cut = cut;
    const ProgramInfo &program = tables.finish();
    return edgeShape(program, program.edges[0]);
  };
  EXPECT_EQ(shapeOfEdge(false).consumerSymbol, 0);
  EXPECT_EQ(shapeOfEdge(true).producerSymbol, -1);
  EXPECT_EQ(shapeOfEdge(true).consumerSymbol, -1);

  auto fails = [&] {
    try {
      shapeOfEdge(true);
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const char *said =
      "edge from 'a.rows' to 'b.rows': the two ends are cut differently";
  EXPECT_EQ(fails(), "");
  auto &stage = tables.modules[1];
  stage.symbols[0].multiple = 4;
  EXPECT_EQ(fails(), said);
  stage.symbols[0].multiple = 2, stage.info.sub = 2;
  EXPECT_EQ(fails(), said);
  stage.info.sub = 1, stage.info.tp = 4;
  EXPECT_EQ(fails(), said);
  Extent whole[] = {{0, -1, 1}, {4, 0, 0}, {0, -1, 8}};
  stage.info.tp = 2, stage.inputs[0].buffer.tensor.shape = whole;
  EXPECT_EQ(fails(), said);
}

} // namespace
