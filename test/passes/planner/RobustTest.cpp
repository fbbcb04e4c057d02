//===- RobustTest.cpp - Plans by a percentile of their steps --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/Robust.h"
#include "passes/planner/describe/Shipped.h"
#include "test/passes/planner/Clusters.h"
#include "test/passes/planner/Errors.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

struct DrawnSetting {
  explicit DrawnSetting(std::vector<Straggler> stragglers,
                        const char *dataName = "packed", int64_t devices = 32)
      : cluster(takeDevices("a800-80g", devices)),
        model(llvm::cantFail(openModel("mllm-9b"))),
        data(llvm::cantFail(openData(dataName))) {
    cluster.nodes[0].stragglers = std::move(stragglers);
    costs.emplace(cluster, model);
    batch = draw(0);
  }
  std::vector<Sample> draw(int number) const {
    return drawBatch(*data, 1 + uint64_t(number), 64);
  }
  PolicyInput input() const { return {*costs, batch, 8}; }
  Robustness at(int percentile) const {
    Robustness robustness;
    robustness.percentile = percentile;
    robustness.batch = [this](int number) { return draw(number); };
    return robustness;
  }
  Cluster cluster;
  Model model;
  std::unique_ptr<Data> data;
  std::optional<Costs> costs;
  std::vector<Sample> batch;
};

TEST(Robust, Percentiles) {
  Spread spread{50, {}};
  for (int i = 1; i <= 20; ++i)
    spread.steps.push_back(i);
  EXPECT_EQ(spread.at(1), 1);
  EXPECT_EQ(spread.at(5), 1);
  EXPECT_EQ(spread.at(6), 2);
  EXPECT_EQ(spread.at(50), 10);
  EXPECT_EQ(spread.at(100), 20);
  Plan plan;
  plan.predicted.spread = spread;
  EXPECT_EQ(describeSpread(plan),
            "of 20 draws of data and slow ranks 10 % take at most 2.0000 s, 50 "
            "% 10.0000 s, 90 % 18.0000 s, 100 % 20.0000 s; chosen by 50 %");
  plan.predicted.spread->steps[19] = INFINITY;
  EXPECT_EQ(describeSpread(plan),
            "of 20 draws of data and slow ranks 10 % take at most 2.0000 s, 50 "
            "% 10.0000 s, 90 % 18.0000 s; 1 do not fit; chosen by 50 %");
  EXPECT_EQ(llvm::toString(checkPercentile(0)),
            "expected a percentile of 1 to 100, not 0");
  EXPECT_EQ(llvm::toString(checkPercentile(101)),
            "expected a percentile of 1 to 100, not 101");
  EXPECT_EQ(llvm::toString(checkPercentile(100)), "");
}

TEST(Robust, SlowRanksAreDrawn) {
  DrawnSetting setting({{1.2, 0.25}, {3, 0.125}}, "packed", 8192);
  std::vector<double> drawn = drawSlowdowns(setting.cluster, 7, 3);
  ASSERT_EQ(drawn.size(), 8192u);
  EXPECT_NEAR(double(llvm::count(drawn, 1.2)), 2048, 150);
  EXPECT_NEAR(double(llvm::count(drawn, 3.0)), 1024, 120);
  EXPECT_EQ(size_t(llvm::count(drawn, 1.0) + llvm::count(drawn, 1.2) +
                   llvm::count(drawn, 3.0)),
            drawn.size());
  EXPECT_EQ(drawn, drawSlowdowns(setting.cluster, 7, 3));
  EXPECT_NE(drawn, drawSlowdowns(setting.cluster, 7, 4));
  EXPECT_NE(drawn, drawSlowdowns(setting.cluster, 8, 3));
  EXPECT_TRUE(drawSlowdowns(DrawnSetting({}).cluster, 7, 3).empty());
}

/// All ranks twice as slow: all tasks take twice as long, sums and optimizer as
/// before.
TEST(Robust, SlowRanksSlowTheStep) {
  DrawnSetting setting({});
  Plan plan = llvm::cantFail(makePlan("homogeneous", setting.input()));
  StepOptions options;
  auto tasks = [&](const std::vector<double> *slowdowns) {
    options.slowdowns = slowdowns;
    return double(llvm::cantFail(simulateStep(*setting.costs, plan,
                                              setting.batch, options))
                      .simulation.tasks);
  };
  std::vector<double> slow(32, 1);
  double before = tasks(&slow);
  EXPECT_NEAR(before, tasks(nullptr), 0.02 * before);
  // One slow rank slows all that wait for it, at most as much as if all were.
  slow[0] = 2;
  double one = tasks(&slow);
  EXPECT_GT(one, 1.2 * before);
  slow.assign(32, 2);
  double all = tasks(&slow);
  EXPECT_LE(one, all);
  EXPECT_GT(all, 1.8 * before);
  EXPECT_LE(all, 2 * before * (1 + 1e-6)); // tasks are whole nanoseconds
}

TEST(Robust, LeastPercentileIsChosen) {
  DrawnSetting setting({{2, 0.02}}, "documents");
  Plan usual = llvm::cantFail(makePlan("joint", setting.input()));
  EXPECT_FALSE(usual.predicted.spread);
  for (int percentile : {50, 100}) {
    Robustness robustness = setting.at(percentile);
    Plan plan =
        llvm::cantFail(makeRobustPlan("joint", setting.input(), robustness));
    ASSERT_TRUE(plan.predicted.spread);
    const Spread &spread = *plan.predicted.spread;
    EXPECT_EQ(spread.steps.size(), size_t(Robustness::kDraws));
    EXPECT_TRUE(std::is_sorted(spread.steps.begin(), spread.steps.end()));
    // The step is that of the batch at hand, as any plan's.
    EXPECT_GE(plan.predicted.step, usual.predicted.step * 0.99);
    EXPECT_LE(plan.predicted.step, usual.predicted.step * 1.11);
    // The usual plan is not better by what was asked for, if it fits so often.
    auto weighed = chooseRobust(setting.input(), Candidates(usual), robustness);
    if (weighed)
      EXPECT_LE(spread.at(percentile),
                (1 + kNegligible) * weighed->predicted.spread->at(percentile));
    else
      llvm::consumeError(weighed.takeError());
    Plan again =
        llvm::cantFail(makeRobustPlan("joint", setting.input(), robustness));
    EXPECT_EQ(spread.steps, again.predicted.spread->steps);
    EXPECT_EQ(printPlan(plan, setting.model), printPlan(again, setting.model));
  }
}

/// What does not fit takes for ever.
TEST(Robust, MemoryOfDraws) {
  DrawnSetting setting({});
  Plan plan = llvm::cantFail(makePlan("homogeneous", setting.input()));
  Robustness robustness = setting.at(50);
  robustness.batch = [&](int number) {
    std::vector<Sample> batch = setting.batch;
    if (number >= 5)
      for (Sample &sample : batch)
        sample.tokens *= 1000;
    return batch;
  };
  EXPECT_EQ(
      errorOf(chooseRobust(setting.input(), Candidates(plan), robustness)),
      "none of 1 plans fits the memory in 50 % of 20 draws of data");
  robustness.percentile = 25;
  EXPECT_EQ(
      errorOf(chooseRobust(setting.input(), Candidates(plan), robustness)), "");
}

} // namespace
