//===- SearchTest.cpp - Bounds, and what searches leave out ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/PlanSearch.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

/// A model of one to three modules, devices of one node with little memory, a
/// batch of equal or unequal samples.
struct Drawn {
  explicit Drawn(unsigned seed)
      : random(seed), cluster(takeDevices("h100-80g", draw({2, 3, 4, 6, 8}))),
        model(makeModel()), costs(cluster, model) {
    cluster.devices[0].memory =
        cluster.devices[0].reserve + 1e9 * draw({1, 2, 3, 6, 40});
    uniform = draw({0, 1});
    for (int i = 0, count = draw({4, 8, 13, 24}); i < count; ++i) {
      Sample sample = {uniform ? 1024 : draw({128, 700, 1024, 4096}), {}};
      sample.of(ItemKind::Image).assign(uniform ? 2 : draw({0, 1, 5}), 256);
      sample.of(ItemKind::Target).assign(uniform ? 1 : draw({0, 2}), 1024);
      batch.push_back(sample);
    }
  }
  int draw(std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  }
  Model makeModel() {
    TransformerShape shape;
    shape.layers = draw({4, 6, 9});
    shape.hidden = draw({1024, 2048});
    shape.ffn = 4 * shape.hidden;
    shape.heads = 16;
    shape.vocabulary = draw({1000, 64000});
    Model result;
    result.name = "drawn";
    result.modules = {makeTransformer("llm", ItemKind::Sample, shape)};
    shape.layers = 4;
    shape.vocabulary = 0;
    int others = draw({0, 1, 2});
    if (others > 0) {
      shape.patch = 588;
      result.modules.push_back(
          makeTransformer("vision", ItemKind::Image, shape));
      result.modules.back().trainable = draw({0, 1});
      result.edges.push_back({1, 0, {0, 2.0 * shape.hidden, 0}});
    }
    if (others > 1) {
      shape.patch = 0;
      result.modules.push_back(
          makeTransformer("generator", ItemKind::Target, shape));
      result.edges.push_back({0, 2, {0, 2.0 * shape.hidden, 0}});
    }
    spreadGradients(result);
    return result;
  }
  PolicyInput input() const { return {costs, batch, 6}; }
  /// Of every family that searches have.
  std::vector<Plan> list() {
    std::vector<Plan> plans = uniformPlans(input());
    llvm::append_range(plans, disjointPlans(input()));
    for (llvm::StringRef schedule : sharingSchedules())
      llvm::append_range(plans, colocatedPlans(input(), schedule));
    std::shuffle(plans.begin(), plans.end(), random);
    plans.resize(std::min<size_t>(plans.size(), 12));
    for (size_t i = 0, count = plans.size(); i < count; ++i)
      llvm::append_range(plans, withSchedules(input(), plans[i]));
    for (Plan &plan : plans) {
      if (draw({0, 1})) {
        plan.assign = Assign::Items;
        plan.reorder = Reorder::Both;
      }
      for (UnitPlan &unit : plan.units)
        unit.span = draw({1, 1, 1, 2});
    }
    return plans;
  }

  std::mt19937 random;
  Cluster cluster;
  Model model;
  Costs costs;
  std::vector<Sample> batch;
  bool uniform = true;
};

TEST(Search, NoSimulationIsBelowItsBound) {
  int simulated = 0, near = 0, excluded = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Drawn drawn(seed);
    for (const Plan &plan : drawn.list()) {
      double bound = lowerBound(drawn.input(), plan);
      for (bool fold : {true, false}) {
        // Which of unequal replicas is the slowest a folded one only guesses.
        if (fold && !drawn.uniform)
          continue;
        StepOptions options;
        options.fold = fold;
        options.timeOnly = true;
        auto step = simulateStep(drawn.costs, plan, drawn.batch, options);
        if (!step) {
          llvm::consumeError(step.takeError());
          excluded += std::isinf(bound);
          continue;
        }
        // Tasks are whole nanoseconds.
        ASSERT_LE(bound, step->predicted.step * (1 + 1e-6) + 1e-6)
            << "seed " << seed << ": " << printPlan(plan, drawn.model);
        ++simulated;
        near += bound > 0.9 * step->predicted.step;
      }
    }
  }
  // It says something, too.
  EXPECT_GT(near, simulated / 5);
  EXPECT_GT(excluded, 0);
  if (getenv("DT_PRINT"))
    printf("%d simulated, %d within 10 %%, %d excluded\n", simulated, near,
           excluded);
}

/// A search that may simulate as much as it likes finds what simulating
/// everything finds, and says that there is nothing left.
TEST(Search, FindsTheBest) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    Drawn drawn(seed);
    if (!drawn.uniform) // else folded simulations are not exact
      continue;
    SCOPED_TRACE(seed);
    Families all = {{"all", drawn.list()}};
    double best = INFINITY;
    for (const Plan &plan : all["all"])
      if (auto step = simulateStep(drawn.costs, plan, drawn.batch))
        best = std::min(best, step->predicted.step);
      else
        llvm::consumeError(step.takeError());
    auto input = drawn.input();
    PlanSearch search(input, 100000);
    search.tryBest(all, 4);
    search.close(all);
    auto found = search.finish(8);
    if (!found) {
      llvm::consumeError(found.takeError());
      EXPECT_TRUE(std::isinf(best));
      continue;
    }
    Plan fastest = found->getFastest();
    EXPECT_NEAR(fastest.predicted.step, best, 2e-3 * best);
    EXPECT_EQ(found->searched->getGap(fastest.predicted.step), 0);
    EXPECT_LT(found->searched->simulated, found->searched->plans);
    // With a budget of a few there may be something left: what the bound says.
    PlanSearch hurried(input, 3);
    hurried.tryBest(all, 3);
    hurried.close(all);
    if (auto some = hurried.finish(8)) {
      double step = some->getFastest().predicted.step;
      EXPECT_LE(some->searched->simulated, 3);
      EXPECT_GE(best * (1 + some->searched->getGap(step)), step * (1 - 2e-3));
    } else {
      llvm::consumeError(some.takeError());
    }
  }
}

TEST(Search, SaysWhatIsLeft) {
  Plan plan;
  plan.predicted.step = 2.2;
  EXPECT_EQ(describeSearch(plan), "");
  plan.searched = Searched{10, 4, 2};
  EXPECT_EQ(describeSearch(plan), "gap 10.0 %: of 10 plans searched 4 were "
                                  "simulated, no other is faster than "
                                  "2.0000 s");
  plan.searched->bound = 2.3;
  EXPECT_EQ(describeSearch(plan), "gap 0.0 %: of 10 plans searched 4 were "
                                  "simulated, no other is faster");
}

/// Devices hold what half of a pipeline's stages keep: the first do it again
/// and have fewer layers, and that is faster than what any one saved set gives.
TEST(Search, SavesByStage) {
  Cluster cluster = takeDevices("h100-80g", 4);
  TransformerShape shape{
      .layers = 24, .hidden = 2048, .ffn = 8192, .heads = 16};
  Model model;
  model.name = "deep";
  model.modules = {makeTransformer("llm", ItemKind::Sample, shape)};
  std::vector<Sample> batch(32, Sample{4096, {}});
  Costs costs(cluster, model);
  PolicyInput input{costs, batch};
  Plan plan;
  plan.ranks = 4;
  plan.microbatches = 32;
  auto stepOf = [&](const UnitPlan &unit) {
    plan.units = {unit};
    auto step = simulateStep(costs, plan, batch);
    if (step)
      return step->predicted.step;
    llvm::consumeError(step.takeError());
    return double(INFINITY);
  };
  auto uniform = [&](Save save) {
    return stepOf(makeUnit(input, 0, 1, 1, 4, 1, save));
  };
  double all = uniform(Save::All), none = uniform(Save::None);
  ASSERT_LT(all, none);
  plan.units = {makeUnit(input, 0, 1, 1, 4, 1, Save::All)};
  double needs =
      llvm::cantFail(simulateStep(costs, plan, batch)).predicted.memory[0];
  cluster.devices[0].memory = cluster.devices[0].reserve + 0.75 * needs;
  EXPECT_TRUE(std::isinf(uniform(Save::All)));
  double best = std::min(uniform(Save::Vjp), uniform(Save::None));
  plan.units = {makeUnit(input, 0, 1, 1, 4, 1, Save::None)};
  auto fitted = fitStages(input, plan, 0);
  ASSERT_TRUE(fitted);
  ASSERT_EQ(fitted->saves.size(), 4u);
  EXPECT_EQ(fitted->getSave(3), Save::All);
  EXPECT_NE(fitted->getSave(0), Save::All);
  EXPECT_LE(fitted->cuts[1], fitted->cuts[4] - fitted->cuts[3]);
  double own = stepOf(*fitted);
  EXPECT_LT(own, 0.99 * best);
  EXPECT_GT(own, all);
  if (getenv("DT_PRINT"))
    printf("all %f vjp %f none %f by stage %f: %s\n", all, uniform(Save::Vjp),
           none, own, describeSaves(*fitted).c_str());
}

} // namespace
