//===- TightTest.cpp - There-and-back pipelines in little memory ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a search with little effort finds, as the planner's for each of its
// plans, where memory holds clearly less than 1F1B does; and that pushing
// tasks to and fro (Justify.h) keeps to what it promises.
//
//===----------------------------------------------------------------------===//

#include "test/passes/scheduler/Chain.h"
#include "test/passes/scheduler/Run.h"

#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Bound.h"
#include "passes/scheduler/search/Greedy.h"
#include "passes/scheduler/search/Justify.h"

#include <random>

using namespace dt::scheduler;

namespace {

/// Bytes of one microbatch on all stages of a rank of a V.
constexpr Bytes kTwoChunks = 2 * 37;

Problem makeTight(int p, int n, Times times, double share) {
  Problem problem = makeChain(p, n, times, 2, true);
  problem.memory.assign(p, Bytes(share * double(p * kTwoChunks)));
  return problem;
}

struct Case {
  int p;
  double share, above; ///< of 1F1B's memory; the step over the bound
};

/// Chunks alike: the periods are the least that memory allows, and what is over
/// the bound is the way there and back.
TEST(Tight, LittleEffortIsEnough) {
  SolveOptions options;
  options.communicate = false;
  options.effort = 16000;
  for (Case c :
       {Case{8, 0.4, 0.36}, Case{8, 0.5, 0.05}, Case{8, 0.67, 0.03},
        Case{16, 0.4, 0.12}, Case{16, 0.5, 0.09}, Case{16, 0.67, 0.05},
        Case{32, 0.4, 0.21}, Case{32, 0.5, 0.16}, Case{32, 0.67, 0.09}}) {
    Problem problem = makeTight(c.p, 64, {100, 100, 100, 0}, c.share);
    Time bound =
        getLowerBound(TaskGraph(problem), problem.memory, Objective::Wall);
    EXPECT_LE(double(run(problem, "zb-v", options).wall),
              (1 + c.above) * double(bound))
        << c.p << " ranks, " << c.share;
  }
}

/// A task that serves two microbatches begins with the first and ends with the
/// last: it holds more than single ones, for which orders are searched.
TEST(Tight, TasksThatServeSeveralKeepToMemory) {
  for (int tasks : {2, 3, 4, 5, 6})
    for (const char *schedule : {"zb", "zb-v"}) {
      bool v = llvm::StringRef(schedule) == "zb-v";
      Problem problem = makeChain(4, 24, {100, 100, 100, 0}, v ? 2 : 1, v);
      problem.units[0].span = 2;
      problem.memory.assign(4, Bytes(tasks) * (v ? kTwoChunks : 37));
      SolveOptions options;
      options.communicate = false;
      llvm::Expected<Solution> solution = solve(problem, schedule, options);
      ASSERT_TRUE(bool(solution)) << llvm::toString(solution.takeError());
      llvm::Error over = checkMemory(TaskGraph(problem), *solution);
      EXPECT_FALSE(bool(over)) << schedule << ", " << tasks << ": "
                               << llvm::toString(std::move(over));
    }
}

/// The same in the bubbles of another module, on its ranks.
TEST(Tight, NestedTasksThatServeSeveralKeepToMemory) {
  for (int tasks = 5; tasks < 12; ++tasks) {
    Problem problem = makeChain(4, 24, {100, 100, 100, 0}, 1);
    problem.units.push_back({"encoder", std::nullopt, 4});
    problem.units[0].span = 2;
    Stage encoder = problem.stages[0];
    encoder.name = "encoder";
    encoder.unit = 1;
    encoder.activation = 4 * 37;
    encoder.forward = encoder.input = encoder.weight = 40;
    problem.edges.push_back({4, 0, 0, true, {}, 0});
    problem.stages.push_back(encoder);
    for (Stage &stage : problem.stages)
      stage.late = 0;
    problem.memory.assign(4, Bytes(tasks) * 37);
    SolveOptions options;
    options.communicate = false;
    llvm::Expected<Solution> solution = solve(problem, "nested", options);
    if (!solution) { // it does not hold one of each
      llvm::consumeError(solution.takeError());
      continue;
    }
    llvm::Error over = checkMemory(TaskGraph(problem), *solution);
    EXPECT_FALSE(bool(over))
        << tasks << ": " << llvm::toString(std::move(over));
  }
}

/// Stages that differ, other modules before and behind: an order within memory
/// that is not far from what a search with much effort finds.
TEST(Tight, UnevenStagesBetweenOtherModules) {
  std::mt19937 random(1);
  auto draw = [&](int low, int high) {
    return low + int(random() % unsigned(high - low + 1));
  };
  for (int i = 0; i < 12; ++i) {
    int p = draw(4, 10), n = draw(p, 3 * p), around = draw(0, 2);
    Problem problem;
    problem.units = {{"encoder", 0}, {"llm", 0}, {"generator", 0}};
    problem.microbatches = n;
    auto add = [&](int unit, int rank, Time scale) {
      Stage stage;
      stage.name = "s" + std::to_string(problem.stages.size());
      stage.unit = unit;
      stage.replicas = {{rank}};
      stage.forward = scale * draw(90, 110) / 100;
      stage.input = scale * draw(90, 130) / 100;
      stage.weight = scale * draw(60, 110) / 100;
      stage.activation = 37;
      stage.weightActivation = 16;
      int s = int(problem.stages.size());
      problem.stages.push_back(stage);
      if (s)
        problem.edges.push_back({s - 1, s, draw(0, 10), true, {}, 0});
      problem.ranks = std::max(problem.ranks, rank + 1);
    };
    for (int s = 0; s < around; ++s)
      add(0, s, 150);
    for (int s = 0; s < 2 * p; ++s)
      add(1, around + (s < p ? s : 2 * p - 1 - s), 100);
    for (int s = 0; s < around; ++s)
      add(2, around + p + s, 150);
    problem.memory.assign(problem.ranks,
                          Bytes(p * kTwoChunks * draw(40, 70) / 100));
    TaskGraph graph(problem);
    SolveOptions options;
    options.communicate = false;
    Time much = run(problem, "zb-v", options).wall;
    options.effort = 2 * graph.getNumNodes();
    auto solution = solve(problem, "zb-v", options);
    ASSERT_TRUE(bool(solution)) << llvm::toString(solution.takeError());
    EXPECT_EQ(llvm::toString(checkMemory(graph, *solution)), "") << i;
    auto timeline = evaluate(graph, *solution);
    ASSERT_TRUE(bool(timeline)) << llvm::toString(timeline.takeError());
    EXPECT_LE(timeline->wall, much + much / 5) << i;
  }
}

/// One stage a rank behind an encoder whose memory binds and whose backward is
/// whole: list schedules alone are 5 % over the bound.
TEST(Tight, EncoderHoldsFew) {
  Problem problem;
  problem.units = {{"encoder", 0}, {"llm", 0}, {"generator", 0}};
  problem.microbatches = 26;
  auto add = [&](int unit, Time forward, Time input, Time weight, int held) {
    Stage stage;
    stage.name = "s" + std::to_string(problem.ranks);
    stage.unit = unit;
    stage.replicas = {{problem.ranks++}};
    std::mt19937 random(1); // microbatches differ alike everywhere
    stage.forward.values.clear();
    stage.input.values.clear();
    stage.weight.values.clear();
    for (int k = 0; k < problem.microbatches; ++k) {
      Time percent = 90 + Time(random() % 21);
      stage.forward.values.push_back(forward * percent);
      stage.input.values.push_back(input * percent);
      stage.weight.values.push_back(weight * percent);
    }
    stage.hasWeight = weight > 0;
    stage.activation = 100;
    stage.weightActivation = weight ? 50 : 0;
    problem.memory.push_back(100 * held);
    problem.stages.push_back(stage);
    if (unsigned to = unsigned(problem.stages.size()) - 1)
      problem.edges.push_back({int(to) - 1, int(to), 1, true, {}, 0});
  };
  add(0, 88, 195, 0, 9);
  add(1, 79, 102, 62, 10);
  for (int i = 0; i < 5; ++i)
    add(1, 98, 127, 76, 10);
  add(1, 99, 117, 84, 10);
  add(2, 66, 132, 0, 10);
  SolveOptions options;
  options.communicate = false;
  options.effort = 16000;
  Time bound =
      getLowerBound(TaskGraph(problem), problem.memory, Objective::Wall);
  EXPECT_LE(double(run(problem, "zb", options).wall), 1.045 * double(bound));
}

/// Gradients of inputs leave more than forwards keep, and each that waits has a
/// slot of its own (a backbone of 70 billion parameters at TP 2): in the memory
/// of an order that is known the search finds one that is as good.
TEST(Tight, SlotsOfWaitingGradientsCount) {
  for (int p : {4, 9, 12})
    for (const char *known : {"zb-h1", "zb-h2"}) {
      Problem problem = makeChain(p, 4 * p, {340, 410, 290, 1});
      for (Stage &stage : problem.stages) {
        stage.activation = 707;
        stage.weightActivation = 894;
        stage.late = 881;
      }
      SolveOptions options;
      options.communicate = false;
      TaskGraph graph(problem);
      auto order = solve(problem, known, options);
      ASSERT_TRUE(bool(order)) << llvm::toString(order.takeError());
      problem.memory = getMostHeld(graph, *order);
      EXPECT_LE(run(problem, "zb", options).wall, evaluate(graph, *order)->wall)
          << p << " ranks, " << known;
      auto found = solve(problem, "zb", options);
      ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
      EXPECT_EQ(llvm::toString(checkMemory(TaskGraph(problem), *found)), "");
    }
}

/// Pushed to and fro an order never gets longer, says how long it is, and stays
/// within memory; nudged it is an order still.
TEST(Tight, PushingKeepsOrders) {
  std::mt19937 random(1);
  auto draw = [&](int low, int high) {
    return low + int(random() % unsigned(high - low + 1));
  };
  int shorter = 0, nudged = 0;
  for (int i = 0; i < 100; ++i) {
    int p = draw(2, 8), n = draw(2, 20);
    Times times = {draw(0, 20), draw(0, 20), draw(0, 20), draw(0, 5)};
    double share = draw(6, 20) / 10.;
    Problem problem = makeTight(p, n, times, share);
    if (i % 2) { // bytes in slots of one stage
      problem = makeChain(p, n, times);
      Bytes late = draw(0, 16);
      for (Stage &stage : problem.stages)
        stage.late = late;
      problem.memory.assign(p, Bytes(share * p * 37) + 16);
    }
    TaskGraph graph(problem);
    auto lanes = Lanes::get(graph, problem.memory);
    auto order = runGreedy(graph, problem.memory, GreedyRules());
    ASSERT_TRUE(lanes && order);
    std::vector<std::vector<TaskGraph::Node>> lists;
    for (const std::vector<Task> &tasks : order->ranks) {
      lists.emplace_back();
      for (const Task &task : tasks)
        lists.back().push_back(graph.getNode(task));
    }
    Time wall = evaluate(graph, *order)->wall;
    Justify justify(*lanes);
    ASSERT_TRUE(justify.take(lists));
    Nudge nudge;
    for (int round = 0; round < 4; ++round) {
      bool late = draw(0, 1);
      if (!justify.run(round == 3 && late ? &nudge : nullptr,
                       round == 3 && !late ? &nudge : nullptr)) {
        EXPECT_EQ(round, 3);
        break;
      }
      LaneResult result = justify.getResult();
      Solution solution = result.getSolution(*lanes);
      EXPECT_EQ(llvm::toString(checkMemory(graph, solution)), "") << i;
      auto timeline = evaluate(graph, solution);
      ASSERT_TRUE(bool(timeline)) << llvm::toString(timeline.takeError());
      EXPECT_LE(timeline->wall, result.wall);
      nudged += round == 3;
      if (round == 3)
        break;
      EXPECT_LE(result.wall, wall) << i;
      shorter += result.wall < wall;
      wall = result.wall;
      nudge.slot = TaskGraph::Slot(draw(0, 2));
      nudge.round = draw(0, 1);
      nudge.lastLane = draw(0, problem.ranks - 1);
      nudge.lastMicrobatch = draw(0, problem.microbatches - 1);
      nudge.by = draw(-40, 40);
    }
  }
  EXPECT_GT(shorter, 30);
  EXPECT_GT(nudged, 30);
}

} // namespace
