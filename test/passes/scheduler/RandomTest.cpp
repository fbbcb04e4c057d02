//===- RandomTest.cpp - No deadlock on random graphs of units -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/passes/scheduler/Rendezvous.h"

#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/core/Merge.h"
#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/core/Spans.h"
#include "passes/scheduler/messages/Communicate.h"
#include "passes/scheduler/search/Bound.h"
#include "passes/scheduler/search/Lines.h"

#include "gtest/gtest.h"

#include "llvm/ADT/STLExtras.h"

#include <random>

using namespace dt::scheduler;

namespace {

/// Encoders, a backbone and generators with their own DP and PP sizes, brokers
/// between them, sometimes on shared ranks, sometimes with towers' batch-sync.
class RandomProblem {
public:
  explicit RandomProblem(unsigned seed) : random(seed) {}
  Problem make();

private:
  int draw(int low, int high) {
    return low + int(random() % unsigned(high - low + 1));
  }
  Table drawTimes(int replicas) {
    Table table(draw(0, 30));
    if (draw(0, 2) == 0) {
      table.values.resize(size_t(problem.microbatches) * replicas);
      for (int64_t &value : table.values)
        value = draw(0, 30);
    }
    return table;
  }
  /// Stages of a new unit, first to last.
  std::vector<int> addUnit(const std::string &name, int pp, int dp, int tp,
                           int vpp, int base);
  void connect(int from, int to, bool gradient);

  std::mt19937 random;
  Problem problem;
};

std::vector<int> RandomProblem::addUnit(const std::string &name, int pp, int dp,
                                        int tp, int vpp, int base) {
  int unit = int(problem.units.size());
  problem.units.push_back({name, {}});
  if (draw(0, 3) == 0)
    problem.units.back().runAhead = draw(1, 2);
  std::vector<int> stages;
  bool back = vpp == 2 && draw(0, 1);
  for (int s = 0; s < pp * vpp; ++s) {
    Stage stage;
    stage.name = name + std::to_string(s);
    stage.unit = unit;
    for (int r = 0; r < dp; ++r) {
      stage.replicas.emplace_back();
      for (int t = 0; t < tp; ++t)
        stage.replicas.back().push_back(
            base + (positionOf(s, pp, back) * dp + r) * tp + t);
    }
    stage.forward = drawTimes(dp);
    stage.input = drawTimes(dp);
    stage.weight = drawTimes(dp);
    stage.activation = draw(1, 5);
    stage.hasWeight = draw(0, 5) != 0;
    problem.stages.push_back(stage);
    stages.push_back(int(problem.stages.size()) - 1);
    if (s)
      connect(stages[s - 1], stages[s], true);
  }
  problem.ranks = std::max(problem.ranks, base + pp * dp * tp);
  return stages;
}

void RandomProblem::connect(int from, int to, bool gradient) {
  Edge edge;
  edge.from = from;
  edge.to = to;
  edge.latency = draw(0, 5);
  edge.gradient = gradient;
  edge.receiveDepth = draw(0, 2) ? 0 : draw(1, 3);
  int a = int(problem.stages[from].replicas.size()),
      b = int(problem.stages[to].replicas.size());
  // A broker whose messages depend on the microbatch's rows; some send nothing.
  if (a != b || draw(0, 2) == 0)
    for (int k = 0; k < problem.microbatches; ++k)
      for (int i = 0; i < a; ++i)
        for (int j = 0; j < b; ++j)
          if (draw(0, 2))
            edge.routes.push_back({k, i, j, draw(0, 5)});
  if (a != b && edge.routes.empty())
    edge.routes.push_back({0, 0, 0, 1});
  problem.edges.push_back(edge);
}

Problem RandomProblem::make() {
  problem.microbatches = draw(1, 10);
  bool colocated = draw(0, 2) == 0;
  auto add = [&](const std::string &name, int vpp) {
    return addUnit(name, draw(1, 3), draw(1, 4), draw(0, 3) ? 1 : 2, vpp,
                   colocated ? 0 : problem.ranks);
  };
  std::vector<std::vector<int>> encoders, sinks;
  for (int i = 0, count = draw(0, 3); i < count; ++i)
    encoders.push_back(add("enc" + std::to_string(i) + ".", 1));
  if (encoders.size() >= 2 && draw(0, 3) == 0) {
    // Towers and a batch-sync instead of a backbone.
    if (draw(0, 1))
      problem.syncGroup = draw(1, problem.microbatches);
    Stage sync;
    sync.name = "sync";
    sync.unit = int(problem.units.size());
    problem.units.push_back({"head", {}});
    sync.batchSync = true;
    sync.hasBackward = sync.hasWeight = false;
    std::set<int> ranks;
    for (const std::vector<int> &encoder : encoders)
      for (const std::vector<int> &replica :
           problem.stages[encoder.back()].replicas)
        ranks.insert(replica.begin(), replica.end());
    sync.replicas = {{ranks.begin(), ranks.end()}};
    sync.forward = draw(1, 20);
    problem.stages.push_back(sync);
    for (const std::vector<int> &encoder : encoders)
      problem.edges.push_back({encoder.back(),
                               int(problem.stages.size()) - 1,
                               draw(0, 5),
                               true,
                               {},
                               0});
    return problem;
  }
  std::vector<int> backbone = add("llm.", draw(0, 2) ? 1 : 2);
  for (const std::vector<int> &encoder : encoders) {
    bool frozen = draw(0, 3) == 0;
    for (int stage : encoder)
      if (frozen) {
        problem.stages[stage].hasBackward = problem.stages[stage].hasWeight =
            false;
        problem.units[problem.stages[stage].unit].runAhead.reset();
      }
    for (Edge &edge : problem.edges)
      if (!problem.stages[edge.from].hasBackward)
        edge.gradient = false;
    connect(encoder.back(), backbone.front(), !frozen);
  }
  for (int i = 0, count = draw(0, 2); i < count; ++i) {
    std::vector<int> generator = add("gen" + std::to_string(i) + ".", 1);
    connect(backbone.back(), generator.front(), true);
    if (draw(0, 1)) // conditioning that skips stages
      connect(backbone.front(), generator.back(), true);
  }
  return problem;
}

/// Whether a schedule blames what these problems cannot be blamed for: orders
/// exist, and memory has no bound.
bool isUnfounded(llvm::StringRef message) {
  return message.contains("wait for one another") ||
         message.contains("fit into the bytes");
}

TEST(Random, EveryScheduleFinishesWithoutBuffers) {
  const Registry &registry = Registry::get();
  int runs = 0, declined = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    Problem problem = RandomProblem(seed).make();
    ASSERT_FALSE(bool(problem.check())) << seed;
    TaskGraph graph(problem);
    const Registry::Entry &entry =
        registry.getEntries()[seed % registry.getEntries().size()];
    SolveOptions options;
    options.effort = 5000; // orders, not good ones
    auto solution = solve(problem, entry.name, options);
    if (!solution) {
      // Some schedules need a shape: virtual stages, a batch-sync.
      std::string message = llvm::toString(solution.takeError());
      EXPECT_FALSE(isUnfounded(message))
          << seed << " " << entry.name << ": " << message;
      ++declined;
      continue;
    }
    ++runs;
    EXPECT_EQ(runRendezvous(problem, solution->programs), "")
        << seed << " " << entry.name;
    EXPECT_EQ(llvm::toString(verify(graph, solution->programs)), "")
        << seed << " " << entry.name;
  }
  EXPECT_GE(runs, 1000) << declined << " declined";
}

TEST(Random, SearchesFindAnOrder) {
  int runs = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    Problem problem = RandomProblem(seed).make();
    for (const char *name : {"zb-1p", "zb-v"}) {
      SolveOptions options;
      options.effort = 1000;
      auto solution = solve(problem, name, options);
      runs += bool(solution);
      if (!solution) {
        std::string message = llvm::toString(solution.takeError());
        EXPECT_FALSE(isUnfounded(message))
            << seed << " " << name << ": " << message;
      }
    }
  }
  EXPECT_GE(runs, 1600);
}

/// What has room for one microbatch at a time has an order.
TEST(Random, SearchesFindTheLeastMemory) {
  for (unsigned seed = 0; seed < 700; ++seed) {
    Problem problem = RandomProblem(seed).make();
    TaskGraph graph(problem);
    auto turns = evaluate(graph, takeTurns(graph, /*split=*/true));
    ASSERT_TRUE(bool(turns)) << llvm::toString(turns.takeError());
    problem.memory = turns->peak;
    SolveOptions options;
    options.effort = 1000;
    auto solution = solve(problem, "zb", options);
    EXPECT_TRUE(bool(solution))
        << seed << ": " << llvm::toString(solution.takeError());
  }
}

/// Encoders whose tasks serve several microbatches, before a backbone whose
/// tasks may, too.
Problem makeSpanned(unsigned seed) {
  Problem problem = RandomProblem(seed).make();
  std::mt19937 random(seed);
  std::set<int> fed; // by messages of other units
  for (const Edge &edge : problem.edges) {
    int from = problem.stages[edge.from].unit,
        to = problem.stages[edge.to].unit;
    if (from != to)
      fed.insert(to);
  }
  for (int u = 0; u < int(problem.units.size()); ++u)
    if (!fed.count(u))
      problem.units[u].span =
          std::min<int>(problem.microbatches, 1 + int(random() % 4));
  return problem;
}

TEST(Random, TasksServeSeveralMicrobatches) {
  const Registry &registry = Registry::get();
  int runs = 0, spans = 0;
  for (unsigned seed = 0; seed < 700; ++seed) {
    Problem problem = makeSpanned(seed);
    if (llvm::any_of(problem.stages, [](auto &s) { return s.batchSync; }))
      continue;
    ASSERT_EQ(llvm::toString(problem.check()), "") << seed;
    const Registry::Entry &entry =
        registry.getEntries()[seed % registry.getEntries().size()];
    SolveOptions options;
    options.effort = 5000;
    auto solution = solve(problem, entry.name, options);
    if (!solution) {
      std::string message = llvm::toString(solution.takeError());
      EXPECT_FALSE(isUnfounded(message))
          << seed << " " << entry.name << ": " << message;
      continue;
    }
    ++runs;
    spans += hasSpans(problem);
    EXPECT_EQ(runRendezvous(problem, solution->programs), "")
        << seed << " " << entry.name;
    EXPECT_EQ(llvm::toString(verify(TaskGraph(problem), solution->programs)),
              "")
        << seed << " " << entry.name;
  }
  EXPECT_GE(runs, 400);
  EXPECT_GE(spans, 250);
}

/// What waits of an encoder that nothing comes back to is bounded.
TEST(Random, FrozenForwardsRunAheadNoFurther) {
  for (const char *name : {"1f1b", "nested", "zb", "accumulate"})
    for (int span : {1, 2, 3})
      for (int ahead : {0, 1, 4}) {
        Problem problem;
        problem.ranks = 2;
        problem.microbatches = 12;
        problem.units = {{"enc", ahead, span}, {"llm", {}}};
        problem.stages.resize(2);
        problem.stages[0] = {"enc", 0, {{0}}, 1, 0, 0, 0, 0, false, false};
        problem.stages[1] = {"llm", 1, {{1}}, 10, 10, 10, 1, 1};
        problem.edges = {{0, 1, 1, false, {}, 0}};
        auto solution = solve(problem, name, {});
        ASSERT_TRUE(bool(solution)) << llvm::toString(solution.takeError());
        TaskGraph graph(problem);
        auto timeline = evaluate(graph, *solution);
        ASSERT_TRUE(bool(timeline));
        bool reached = false;
        for (int k = 0; k < 12; k += span) {
          int begun = 0; // forwards of the backbone that have ended before
          for (int i = 0; i < 12; ++i)
            begun += timeline->end[graph.getNode(1, TaskGraph::kForward, i)] <=
                     timeline->start[graph.getNode(0, TaskGraph::kForward, k)];
          EXPECT_LE(k - begun, ahead) << name << " " << span << " " << k;
          reached |= k - begun > ahead - span;
        }
        EXPECT_TRUE(reached) << name << " " << span << " " << ahead;
      }
}

/// An order that was found once for ranks that do the same is one for all.
TEST(Random, MergedOrdersHoldForAllRanks) {
  const Registry &registry = Registry::get();
  int merged = 0;
  for (unsigned seed = 0; seed < 900; ++seed) {
    Problem problem = RandomProblem(seed).make();
    for (Stage &stage : problem.stages)
      for (Table *table : {&stage.forward, &stage.input, &stage.weight})
        table->values.resize(1);
    for (Edge &edge : problem.edges)
      edge.routes.clear();
    MergedProblem once = mergeAlike(problem);
    ASSERT_EQ(llvm::toString(once.problem.check()), "") << seed;
    const Registry::Entry &entry =
        registry.getEntries()[seed % registry.getEntries().size()];
    SolveOptions options;
    options.effort = 5000;
    options.communicate = false;
    auto found = solve(once.problem, entry.name, options);
    if (!found) {
      llvm::consumeError(found.takeError());
      continue;
    }
    Solution solution = once.expand(problem, *found);
    TaskGraph graph(problem);
    EXPECT_EQ(llvm::toString(communicate(graph, solution)), "")
        << seed << " " << entry.name;
    EXPECT_EQ(runRendezvous(problem, solution.programs), "") << seed;
    EXPECT_EQ(llvm::toString(verify(graph, solution.programs)), "") << seed;
    merged += once.problem.ranks < problem.ranks;
  }
  EXPECT_GE(merged, 300);
}

/// No order that a search finds is below the bound for its memory, in which it
/// stays.
TEST(Random, SearchesStayInBounds) {
  int bounded = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    Problem problem = RandomProblem(seed).make();
    std::mt19937 random(seed);
    for (Stage &stage : problem.stages)
      stage.weightActivation = Bytes(random() % 5);
    for (Stage &stage : problem.stages) // bytes in slots
      if (seed % 3 == 0)
        stage.late = stage.weightActivation.values[0] / 2;
    problem.memory.assign(problem.ranks, Bytes(5 + random() % 25));
    TaskGraph graph(problem);
    SolveOptions options;
    options.effort = 20000;
    options.communicate = false;
    options.objective = seed % 2 ? Objective::Span : Objective::Wall;
    auto solution = solve(problem, "zb", options);
    if (!solution) {
      llvm::consumeError(solution.takeError());
      continue;
    }
    auto timeline = evaluate(graph, *solution);
    ASSERT_TRUE(bool(timeline)) << llvm::toString(timeline.takeError());
    EXPECT_EQ(llvm::toString(checkMemory(graph, *solution)), "") << seed;
    EXPECT_GE(timeline->wall,
              getLowerBound(graph, problem.memory, Objective::Wall))
        << seed;
    EXPECT_GE(timeline->longestSpan,
              getLowerBound(graph, problem.memory, Objective::Span))
        << seed;
    ++bounded;
  }
  EXPECT_GE(bounded, 300);
}

/// What the verifier says and what a run without buffers does are the same:
/// programs with entries swapped at random either both pass or both fail.
TEST(Random, VerifierAndRunAgreeOnDisturbedPrograms) {
  int wrong = 0, right = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Problem problem = RandomProblem(seed).make();
    for (Edge &edge : problem.edges)
      edge.receiveDepth = 0;
    TaskGraph graph(problem);
    auto solution = solve(problem, "1f1b");
    ASSERT_TRUE(bool(solution)) << seed << llvm::toString(solution.takeError());
    std::mt19937 random(seed);
    auto &program = solution->programs[random() % solution->programs.size()];
    if (program.size() < 2)
      continue;
    // Only messages move, so that data dependences stay: next to one another.
    std::vector<size_t> places;
    for (size_t i = 1; i < program.size(); ++i)
      if (program[i - 1].action != Instruction::Run &&
          program[i].action != Instruction::Run)
        places.push_back(i);
    if (places.empty())
      continue;
    size_t place = places[random() % places.size()];
    std::swap(program[place - 1], program[place]);
    bool finishes = runRendezvous(problem, solution->programs).empty();
    std::string error = llvm::toString(verify(graph, solution->programs));
    EXPECT_EQ(finishes, error.empty()) << seed << ": " << error;
    ++(finishes ? right : wrong);
  }
  EXPECT_GT(wrong, 20);
  EXPECT_GT(right, 20);
}

} // namespace
