//===- StepTest.cpp - The simulator against closed forms ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/Step.h"

#include "passes/scheduler/core/Schedule.h"

#include <random>

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

/// p stages, n microbatches, times f, b, w, delay.
dt::scheduler::Problem chain(int p, int n, int64_t f, int64_t b, int64_t w,
                             int64_t delay) {
  dt::scheduler::Problem problem;
  problem.units = {{"llm", 0}};
  problem.ranks = p;
  problem.microbatches = n;
  for (int s = 0; s < p; ++s) {
    dt::scheduler::Stage stage;
    stage.name = "llm." + std::to_string(s);
    stage.replicas = {{s}};
    stage.forward = f;
    stage.input = b;
    stage.weight = w;
    problem.stages.push_back(stage);
    if (s > 0) {
      dt::scheduler::Edge edge;
      edge.from = s - 1;
      edge.to = s;
      edge.latency = delay;
      problem.edges.push_back(edge);
    }
  }
  return problem;
}

int64_t stepOf(const dt::scheduler::Problem &problem, const char *name,
               const EngineOptions &options = {}) {
  auto solution = llvm::cantFail(dt::scheduler::solve(problem, name));
  dt::scheduler::TaskGraph graph(problem);
  return llvm::cantFail(simulate(graph, solution, options)).step;
}

TEST(Engine, ClosedForms) {
  for (int p : {1, 2, 4, 7})
    for (int n : {1, 4, 12}) {
      auto problem = chain(p, n, 3, 4, 2, 0);
      if (n >= p)
        EXPECT_EQ(stepOf(problem, "1f1b"), (n + p - 1) * 9);
      EXPECT_EQ(stepOf(problem, "gpipe"), (n + p - 1) * 9);
    }
}

TEST(Engine, EqualsLongestPath) {
  auto problem = chain(4, 9, 30, 41, 23, 5);
  for (int k = 0; k < 9; ++k)
    problem.stages[0].forward.values.resize(9, 30);
  for (int k = 0; k < 9; ++k)
    problem.stages[0].forward.values[k] = 10 + 7 * (k % 4);
  for (const char *name : {"1f1b", "gpipe"}) {
    auto solution = llvm::cantFail(dt::scheduler::solve(problem, name));
    dt::scheduler::TaskGraph graph(problem);
    auto timeline = llvm::cantFail(dt::scheduler::evaluate(graph, solution));
    auto simulation = llvm::cantFail(simulate(graph, solution));
    EXPECT_EQ(simulation.start, timeline.start);
    EXPECT_EQ(simulation.end, timeline.end);
    EXPECT_EQ(simulation.step, timeline.wall);
    EXPECT_EQ(simulation.busy, timeline.busy);
  }
}

TEST(Engine, RanksShareCores) {
  // Two ranks without dependences on one core take twice as long.
  dt::scheduler::Problem problem = chain(1, 4, 10, 10, 10, 0);
  problem.stages[0].replicas = {{0}, {1}};
  problem.ranks = 2;
  EngineOptions options;
  options.cores = {{{0, 1}, 1}};
  EXPECT_EQ(stepOf(problem, "1f1b", options), 240);
  options.cores = {{{0, 1}, 2}};
  EXPECT_EQ(stepOf(problem, "1f1b", options), 120);
  // A rank that stands for two needs both cores; optimizers share them too.
  options.width = {2, 2};
  EXPECT_EQ(stepOf(problem, "1f1b", options), 240);
  options.optimizer = {5, 10};
  EXPECT_EQ(stepOf(problem, "1f1b", options), 240 + 15);
  options.width = {};
  EXPECT_EQ(stepOf(problem, "1f1b", options), 120 + 10);
}

TEST(Engine, MessagesQueueForNics) {
  // Two senders on one NIC, one receiver: the second message waits.
  dt::scheduler::Problem problem = chain(2, 1, 10, 10, 0, 6);
  problem.stages[0].replicas = {{0}, {1}};
  problem.stages[1].replicas = {{2}};
  problem.ranks = 3;
  EngineOptions options;
  EXPECT_EQ(stepOf(problem, "gpipe", options), 10 + 6 + 20 + 6 + 10);
  options.nic = {0, 0, 1};
  options.links = 2;
  options.overhead = {1};
  // 10, two messages of 5 and 1, 20, two gradients of 5 and 1, 10.
  EXPECT_EQ(stepOf(problem, "gpipe", options), 10 + 11 + 20 + 11 + 10);
}

TEST(Engine, ReductionsOptimizerBarrier) {
  dt::scheduler::Problem problem = chain(1, 2, 10, 10, 10, 0);
  EngineOptions options;
  GradientReduction reduction;
  reduction.ranks = {0};
  reduction.duration = 7;
  options.reductions = {reduction};
  options.optimizer = {3};
  options.barrier = 2;
  EXPECT_EQ(stepOf(problem, "1f1b", options), 60 + 7 + 3 + 2);
}

TEST(Engine, ReductionsBeginInsideTheLastBackward) {
  // It is from 40 to 60, a quarter of the gradients complete every 5.
  dt::scheduler::Problem problem = chain(1, 2, 10, 10, 10, 0);
  EngineOptions options;
  GradientReduction reduction;
  reduction.ranks = {0};
  reduction.stages = {0};
  reduction.buckets = 4;
  reduction.duration = 8;
  options.reductions = {reduction};
  EXPECT_EQ(stepOf(problem, "1f1b", options), 60 + 2);
  options.reductions[0].duration = 24;
  EXPECT_EQ(stepOf(problem, "1f1b", options), 45 + 24);
  // Another one on the same rank waits for the first.
  options.reductions.push_back(reduction);
  EXPECT_EQ(stepOf(problem, "1f1b", options), 45 + 24 + 8);
}

/// Stages of several units, replicas, brokers, uneven times and messages.
dt::scheduler::Problem drawProblem(std::mt19937 &random) {
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  dt::scheduler::Problem problem;
  problem.microbatches = 1 + below(9);
  int units = 1 + below(3);
  for (int u = 0; u < units; ++u) {
    problem.units.push_back({"u" + std::to_string(u), below(2)});
    int pp = 1 + below(3), dp = 1 + below(3);
    for (int p = 0; p < pp; ++p) {
      dt::scheduler::Stage stage;
      stage.name = "u" + std::to_string(u) + "." + std::to_string(p);
      stage.unit = u;
      for (int d = 0; d < dp; ++d)
        stage.replicas.push_back({problem.ranks++});
      for (auto *table : {&stage.forward, &stage.input, &stage.weight}) {
        table->values.clear();
        for (int i = 0; i < dp * problem.microbatches; ++i)
          table->values.push_back(below(50));
      }
      int at = int(problem.stages.size());
      problem.stages.push_back(stage);
      if (at == 0)
        continue;
      dt::scheduler::Edge edge;
      edge.from = at - 1;
      edge.to = at;
      edge.latency = below(20);
      problem.edges.push_back(edge);
    }
  }
  return problem;
}

TEST(Engine, EqualsLongestPathOfAnyShape) {
  std::mt19937 random(11);
  int compared = 0;
  dt::scheduler::SolveOptions options;
  options.communicate = false;
  options.effort = 500;
  for (int i = 0; i < 200; ++i) {
    auto problem = drawProblem(random);
    ASSERT_FALSE(bool(problem.check()));
    for (const char *name : {"1f1b", "gpipe", "zb-h1", "zb", "phased"}) {
      SCOPED_TRACE(std::to_string(i) + " " + name);
      auto solution = dt::scheduler::solve(problem, name, options);
      if (!solution) {
        llvm::consumeError(solution.takeError());
        continue;
      }
      dt::scheduler::TaskGraph graph(problem);
      auto timeline = llvm::cantFail(dt::scheduler::evaluate(graph, *solution));
      auto simulation = llvm::cantFail(simulate(graph, *solution));
      EXPECT_EQ(simulation.start, timeline.start);
      EXPECT_EQ(simulation.end, timeline.end);
      EXPECT_EQ(simulation.step, timeline.wall);
      ++compared;
    }
  }
  EXPECT_GT(compared, 500);
}

/// Interleaved 1F1B over p ranks, v rounds, n a multiple of p: the fill and the
/// drain are those of one round. Zero bubble at equal times: nothing is left
/// but the first forwards.
TEST(Engine, MoreClosedForms) {
  for (int p : {2, 4, 5})
    for (int v : {2, 3}) {
      int n = 3 * p;
      dt::scheduler::Problem problem = chain(p * v, n, 3, 4, 2, 0);
      problem.ranks = p;
      for (int s = 0; s < p * v; ++s)
        problem.stages[s].replicas = {{s % p}};
      EXPECT_EQ(stepOf(problem, "interleaved"), n * v * 9 + (p - 1) * 9)
          << p << " " << v;
    }
  for (int p : {2, 4, 6})
    for (int t : {1, 7}) {
      int n = 4 * p;
      auto problem = chain(p, n, t, t, t, 0);
      EXPECT_EQ(stepOf(problem, "zb-h1"), (3 * n + p - 1) * t) << p;
      EXPECT_EQ(stepOf(problem, "zb-h2"), (3 * n + p - 1) * t) << p;
    }
}

} // namespace
