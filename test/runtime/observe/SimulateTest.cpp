//===- SimulateTest.cpp - simulated steps have known lengths ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/Simulate.h"
#include "runtime/base/Error.h"

#include <gtest/gtest.h>

using namespace dt::rt;

namespace {

/// A chain of p stages, one rank each, 1F1B over n microbatches.
struct Chain {
  Chain(int p, int n) {
    ranks.resize(p);
    places.resize(p);
    modules.resize(p);
    for (int s = 0; s < p; ++s) {
      places[s] = s;
      modules[s].tp = modules[s].dp = 1;
      modules[s].ranks = {&places[s], 1};
      if (s + 1 < p)
        edges.push_back({s, 0, s + 1, 0, true, {}, {}});
      int ahead = std::min(n, p - s - 1);
      for (int k = 0; k < ahead; ++k)
        forward(s, k, p);
      for (int k = 0; k < n; ++k) {
        if (k + ahead < n)
          forward(s, k + ahead, p);
        backward(s, k, p);
      }
    }
    for (auto &rows : ranks)
      infos.push_back({{rows.data(), rows.size()}});
    program.ranks = {infos.data(), infos.size()};
    program.modules = {modules.data(), modules.size()};
    program.edges = {edges.data(), edges.size()};
    program.globalBatch = n;
    program.microBatch = 1;
  }

  void add(int rank, TaskKind kind, int index, int k, bool gradient = false) {
    TaskRow row{kind, uint16_t(index), uint32_t(k), 0};
    row.gradient = gradient;
    ranks[rank].push_back(row);
  }
  void forward(int s, int k, int p) {
    if (s > 0)
      add(s, TaskKind::Receive, s - 1, k);
    add(s, TaskKind::Forward, s, k);
    if (s + 1 < p)
      add(s, TaskKind::Send, s, k);
  }
  void backward(int s, int k, int p) {
    if (s + 1 < p)
      add(s, TaskKind::Receive, s, k, true);
    add(s, TaskKind::Backward, s, k);
    if (s > 0)
      add(s, TaskKind::Send, s - 1, k, true);
  }

  std::vector<RowTimes> times(double f, double b) const {
    std::vector<RowTimes> result;
    for (const auto &rows : ranks) {
      result.emplace_back();
      for (const TaskRow &row : rows)
        result.back().seconds.push_back(row.kind == TaskKind::Forward    ? f
                                        : row.kind == TaskKind::Backward ? b
                                                                         : 0);
    }
    return result;
  }
  SimulatedStep simulate(const std::vector<RowTimes> &times, int cores) const {
    return simulateRows(
        program, times, [](const TaskRow &, int) { return true; }, cores);
  }

  std::vector<std::vector<TaskRow>> ranks;
  std::vector<int32_t> places;
  std::vector<ModuleInfo> modules;
  std::vector<EdgeInfo> edges;
  std::vector<RankInfo> infos;
  ProgramInfo program{};
};

TEST(Simulate, OneForwardOneBackward) {
  for (int p : {1, 2, 4})
    for (int n : {1, 3, 8}) {
      Chain chain(p, n);
      SimulatedStep step = chain.simulate(chain.times(1, 2), 0);
      EXPECT_NEAR(step.seconds, (n + p - 1) * 3, 1e-9) << p << " " << n;
      EXPECT_NEAR(step.bubble(), double(p - 1) / (n + p - 1), 1e-9);
    }
}

TEST(Simulate, OneCoreDoesAllTheWork) {
  Chain chain(4, 6);
  EXPECT_NEAR(chain.simulate(chain.times(1, 2), 1).seconds, 4 * 6 * 3, 1e-9);
}

TEST(Simulate, TheTailIsAfterABarrier) {
  Chain chain(2, 2);
  std::vector<RowTimes> times = chain.times(1, 2);
  times[0].tail = 5;
  times[1].tail = 1;
  EXPECT_NEAR(chain.simulate(times, 0).seconds, 9 + 5, 1e-9);
  EXPECT_NEAR(chain.simulate(times, 1).seconds, 12 + 6, 1e-9);
}

TEST(Simulate, CollectivesOfAGroupTakeWhatTheLastRankTakes) {
  Chain chain(1, 3);
  std::vector<int32_t> both = {0, 1};
  chain.modules[0].tp = 2;
  chain.modules[0].ranks = {both.data(), both.size()};
  std::vector<RankInfo> infos = {chain.infos[0], chain.infos[0]};
  chain.program.ranks = {infos.data(), infos.size()};
  std::vector<RowTimes> times = chain.times(1, 2);
  times.push_back(times[0]);
  times[0].collectives.assign(times[0].seconds.size(), 0.25);
  times[1].collectives.assign(times[1].seconds.size(), 4);
  SimulatedStep step = chain.simulate(times, 0);
  EXPECT_NEAR(step.seconds, 3 * (3 + 2 * 0.25), 1e-9);
  EXPECT_NEAR(step.collectives[1], 3 * 2 * 0.25, 1e-9);
}

TEST(Simulate, MessagesThatDoNotExistAreNotWaitedFor) {
  Chain chain(2, 1);
  std::vector<RowTimes> times = chain.times(1, 2);
  SimulatedStep step = simulateRows(
      chain.program, times, [](const TaskRow &, int) { return false; }, 0);
  EXPECT_NEAR(step.seconds, 3, 1e-9);
}

/// The second stage begins when the first piece has come.
TEST(Simulate, PiecesAreTasksOfTheirOwn) {
  Chain chain(2, 1);
  for (int s = 0; s < 2; ++s) {
    chain.modules[s].sub = 2;
    std::vector<TaskRow> rows;
    for (TaskRow row : chain.ranks[s])
      for (int16_t p = 0; p < 2; ++p) {
        row.piece = p, row.peer = p; // piece to piece
        rows.push_back(row);
      }
    chain.ranks[s] = rows;
    chain.infos[s] = {{chain.ranks[s].data(), chain.ranks[s].size()}};
  }
  // Sends behind each piece, not behind both.
  std::swap(chain.ranks[0][1], chain.ranks[0][2]);
  std::vector<RowTimes> times = chain.times(1, 2);
  EXPECT_NEAR(chain.simulate(times, 0).seconds, 1 + 2 + 4 + 4, 1e-9);
}

TEST(Simulate, RowsThatWaitForOneAnotherAreAnError) {
  Chain chain(2, 2);
  // The second stage does its backward before its forward's message is asked
  // for by the first: the first waits for a gradient before it has sent.
  std::swap(chain.ranks[0][0], chain.ranks[0][3]);
  std::swap(chain.ranks[0][1], chain.ranks[0][5]);
  EXPECT_THROW(chain.simulate(chain.times(1, 2), 0), Error);
}

} // namespace
