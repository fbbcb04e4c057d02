//===- FoldTest.cpp - Folded problems and what follows from them ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/Architectures.h"
#include "passes/plan/policies/Policy.h"

#include <gtest/gtest.h>

using namespace dt::plan;

namespace {

Cluster load(const std::string &name, int64_t devices) {
  return llvm::cantFail(
      llvm::cantFail(
          readCluster(DT_SOURCE "/passes/plan/clusters/" + name + ".json"))
          .take(devices));
}

struct Setting {
  Setting(const char *cluster, int64_t devices, std::vector<Sample> samples)
      : cluster(load(cluster, devices)), model(makeMultimodal(7)),
        costs(this->cluster, model), batch(std::move(samples)) {}
  PolicyInput input() const { return {costs, batch, 12}; }
  Cluster cluster;
  Model model;
  Costs costs;
  std::vector<Sample> batch;
};

std::vector<Sample> uniform(int count) {
  return std::vector<Sample>(
      count, Sample{4096, {std::vector<int32_t>(4, 1024), {4096, 4096}}});
}

std::vector<Sample> drawn(const char *name, int count) {
  return drawBatch(*llvm::cantFail(openData(name)), 1, 0, count);
}

Plan disjoint(const PolicyInput &input) {
  Plan plan;
  plan.microbatches = 8;
  plan.units = {makeUnit(input, 0, 1, 8, 1, 1, Save::None),
                makeUnit(input, 1, 2, 4, 4, 1, Save::Vjp),
                makeUnit(input, 2, 1, 4, 1, 1, Save::None)};
  EXPECT_TRUE(placeUnits(input, plan));
  return plan;
}

Plan colocated(const PolicyInput &input, const char *schedule) {
  Plan plan;
  plan.ranks = 32;
  plan.microbatches = 8;
  plan.schedule = schedule;
  plan.units = {makeUnit(input, 0, 1, 32, 1, 1, Save::None),
                makeUnit(input, 1, 2, 4, 4, 1, Save::Vjp),
                makeUnit(input, 2, 2, 16, 1, 1, Save::None)};
  return plan;
}

/// Uniform data are folded unasked; then every replica takes as long as one.
TEST(Fold, UniformIsExact) {
  Setting setting("a800-80g", 48, uniform(32));
  PolicyInput input = setting.input();
  Plan plan = disjoint(input);
  StepOptions options;
  options.requireMemory = false;
  auto folded = simulateStep(setting.costs, plan, setting.batch, options);
  ASSERT_TRUE(bool(folded)) << llvm::toString(folded.takeError());
  EXPECT_TRUE(folded->folded);
  EXPECT_EQ(folded->problem.ranks, 6);
  // One sample a little longer: nothing is folded, the step hardly longer.
  std::vector<Sample> other = setting.batch;
  other[5].tokens += 1;
  options.links = false;
  auto full = simulateStep(setting.costs, plan, other, options);
  ASSERT_TRUE(bool(full)) << llvm::toString(full.takeError());
  EXPECT_FALSE(full->folded);
  EXPECT_EQ(full->problem.ranks, 8 + 16 + 4);
  EXPECT_NEAR(full->predicted.step / folded->predicted.step, 1, 2e-3);
  EXPECT_NEAR(full->predicted.wallBubble, folded->predicted.wallBubble, 2e-3);
  for (size_t u = 0; u < 3; ++u)
    EXPECT_NEAR(full->predicted.memory[u] / folded->predicted.memory[u], 1,
                1e-2);
}

/// Orders found on the folded problem run on all replicas without blocking.
TEST(Fold, SearchedSchedulesExpand) {
  Setting setting("a800-80g", 48, drawn("packed", 32));
  PolicyInput input = setting.input();
  StepOptions options;
  options.requireMemory = false;
  for (const char *schedule : {"1f1b", "zb-h1", "zb", "gpipe"}) {
    Plan plan = disjoint(input);
    plan.schedule = schedule;
    auto step = simulateStep(setting.costs, plan, setting.batch, options);
    ASSERT_TRUE(bool(step))
        << schedule << ": " << llvm::toString(step.takeError());
    EXPECT_FALSE(step->folded);
    EXPECT_GT(step->predicted.step, step->predicted.bound);
  }
  for (const char *schedule : {"phased", "nested"}) {
    auto step = simulateStep(setting.costs, colocated(input, schedule),
                             setting.batch, options);
    ASSERT_TRUE(bool(step))
        << schedule << ": " << llvm::toString(step.takeError());
    EXPECT_EQ(step->problem.ranks, 32);
    // All tasks of all units: the shares of the three add up to a rank's time.
    double busy = 0;
    for (double share : step->predicted.busy)
      busy += share;
    EXPECT_LE(busy, 1);
    EXPECT_GT(step->predicted.busy[0], 0);
  }
}

TEST(Fold, LossesAddUp) {
  Setting setting("a800-80g", 48, drawn("documents", 64));
  PolicyInput input = setting.input();
  StepOptions options;
  options.requireMemory = false;
  auto step =
      simulateStep(setting.costs, disjoint(input), setting.batch, options);
  ASSERT_TRUE(bool(step));
  const Prediction &p = step->predicted;
  const Losses &l = p.losses;
  EXPECT_NEAR(p.bound / p.step + l.kernels + l.reduce + l.again + l.waiting +
                  l.tail + l.idle,
              1, 1e-6);
  EXPECT_GT(l.reduce, 0);
  EXPECT_GT(l.waiting, 0);
  // 48 devices, 44 used.
  EXPECT_NEAR(l.idle, 4.0 / 48, 1e-9);
}

TEST(Fold, MemoryOverTime) {
  Setting setting("a800-80g", 48, drawn("packed", 32));
  PolicyInput input = setting.input();
  StepOptions options;
  options.requireMemory = false;
  auto step =
      simulateStep(setting.costs, disjoint(input), setting.batch, options);
  ASSERT_TRUE(bool(step));
  for (int rank : {0, 8, 20}) {
    auto curve = getMemoryOverTime(*step, rank);
    ASSERT_FALSE(curve.empty());
    StepResult::Memory always = step->held[rank];
    always.activations = 0;
    EXPECT_EQ(curve.front().second >= int64_t(always.total()), true);
    EXPECT_NEAR(double(curve.back().second), always.total(), 1e4);
    int64_t most = 0;
    for (size_t i = 0; i < curve.size(); ++i) {
      most = std::max(most, curve[i].second);
      if (i > 0) {
        EXPECT_GT(curve[i].first, curve[i - 1].first);
      }
    }
    EXPECT_NEAR(double(most) / step->held[rank].total(), 1, 1e-3);
  }
}

TEST(Place, GroupsStayInsideNodes) {
  Setting setting("a800-80g", 48, uniform(32));
  PolicyInput input = setting.input();
  Plan plan;
  plan.microbatches = 4;
  plan.units = {makeUnit(input, 0, 1, 5, 1, 1, Save::None),
                makeUnit(input, 1, 8, 2, 2, 1, Save::Vjp),
                makeUnit(input, 2, 2, 3, 1, 1, Save::None)};
  ASSERT_TRUE(placeUnits(input, plan));
  for (const UnitPlan &unit : plan.units)
    EXPECT_EQ(unit.firstRank % unit.tp, 0);
  EXPECT_EQ(plan.units[1].firstRank, 0);
  EXPECT_EQ(plan.ranks, 5 + 32 + 6);
  plan.units[0].dp = 50;
  EXPECT_FALSE(placeUnits(input, plan));
}

/// On two kinds of devices the units' ranks do not cross the border.
TEST(Place, UnequalDevices) {
  Cluster all = llvm::cantFail(
      readCluster(DT_SOURCE "/passes/plan/clusters/a800-l40s.json"));
  all.nodes[0].count = 4;
  all.nodes[1].count = 2;
  Model model = makeMultimodal(7);
  Costs costs(all, model);
  std::vector<Sample> batch = drawn("packed", 48);
  auto plan = makePlan("joint", {costs, batch, 16});
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  for (const UnitPlan &unit : plan->units) {
    int first = all.getNodeKind(unit.firstRank),
        last = all.getNodeKind(unit.firstRank + unit.getRanks() - 1);
    if (!unit.inside && plan->schedule != "phased" &&
        plan->schedule != "nested")
      EXPECT_EQ(first, last);
  }
  EXPECT_GE(plan->predicted.step, plan->predicted.bound);
}

TEST(Context, IsPricedAndNeverExecutable) {
  Setting setting("a800-80g", 32, uniform(16));
  auto plan = makePlan("context", setting.input());
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  EXPECT_GT(plan->units[1].cp, 1);
  EXPECT_EQ(plan->notExecutable, "context parallelism cannot be executed yet");
  auto joint = makePlan("joint", setting.input());
  ASSERT_TRUE(bool(joint));
  EXPECT_EQ(joint->notExecutable, "");
  // Twice the ranks for a sample: half the work, and more to say.
  CostOptions one, two;
  two.cp = 2;
  const ModuleCost &cost = setting.costs.get(0, 1);
  Times a = cost.module(one, Moments::of(4096)),
        b = cost.module(two, Moments::of(4096));
  EXPECT_LT(b.total(), a.total());
  EXPECT_GT(b.total(), a.total() / 2);
  EXPECT_GT(b.reduce, a.reduce);
}

TEST(Context, ExpertsAreDivided) {
  Setting setting("a800-80g", 32, uniform(16));
  for (LayerKind &kind : setting.model.modules[1].kinds)
    if (kind.name == "layer") {
      kind.expertParameters = 0.5 * kind.parameters;
      kind.dispatched = {0, 2 * 4096, 0};
    }
  ModuleCost cost(setting.cluster, 0, setting.model.modules[1]);
  CostOptions one, four;
  four.ep = 4;
  Moments part = Moments::of(4096);
  EXPECT_GT(cost.module(four, part).reduce, cost.module(one, part).reduce);
  EXPECT_LT(cost.state(0, 34, 1, 8, 4), cost.state(0, 34, 1, 8));
}

} // namespace
