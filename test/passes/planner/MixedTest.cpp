//===- MixedTest.cpp - Units over two kinds of devices --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace dt::planner;

namespace {

Model makeLanguageModel() {
  TransformerShape shape{
      .layers = 24, .hidden = 2048, .ffn = 8192, .heads = 16};
  shape.vocabulary = 32000;
  shape.causal = true;
  Model model;
  model.name = "language model";
  model.modules = {makeTransformer("llm", ItemKind::Sample, shape)};
  model.pace = 0;
  return model;
}

std::vector<Sample> alikeSamples(int count) {
  return std::vector<Sample>(count, Sample{1024, {}});
}

struct OnKinds {
  explicit OnKinds(Cluster cluster, int samples = 512)
      : cluster(std::move(cluster)), model(makeLanguageModel()),
        costs(this->cluster, model), batch(alikeSamples(samples)) {}
  PolicyInput input() const { return {costs, batch, 12}; }
  Plan plan(int tp, int64_t dp, int pp, int64_t microbatches) const {
    Plan plan;
    plan.microbatches = microbatches;
    plan.micro = int64_t(batch.size()) / (microbatches * dp);
    plan.units = {makeUnit(input(), 0, tp, dp, pp, 1, Save::Vjp)};
    plan.ranks = plan.units[0].getRanks();
    return plan;
  }
  double step(const Plan &plan) const {
    auto step = simulateStep(costs, plan, batch);
    EXPECT_TRUE(bool(step)) << llvm::toString(step.takeError());
    return step->predicted.step;
  }
  Cluster cluster;
  Model model;
  Costs costs;
  std::vector<Sample> batch;
};

TEST(Mixed, BlocksFollowTheDevices) {
  OnKinds setting(takeNodes("h100-h20", 1, 2));
  Plan plan = setting.plan(2, 6, 2, 4);
  placeBlocks(setting.input(), plan);
  UnitPlan &unit = plan.units[0];
  ASSERT_EQ(unit.blocks.size(), 2u);
  EXPECT_EQ(unit.blocks[0].replicas, 2);
  EXPECT_EQ(unit.blocks[1].replicas, 4);
  EXPECT_EQ(unit.blocks[0].speed, 1000);
  // By products it would be 148 / 989; the rest is by memory and latency.
  EXPECT_GT(unit.blocks[1].speed, 140);
  EXPECT_LT(unit.blocks[1].speed, 300);
  EXPECT_EQ(unit.getSpeeds().size(), 6u);
  // A pipeline is on one kind, and every rank is somebody's.
  std::vector<int64_t> ranks;
  for (int64_t r = 0; r < 6; ++r)
    for (int position : {0, 1}) {
      int64_t rank = unit.getRank(position, r);
      ranks.insert(ranks.end(), {rank, rank + 1});
      EXPECT_EQ(setting.cluster.getNodeKind(rank), r < 2 ? 0 : 1);
    }
  std::sort(ranks.begin(), ranks.end());
  for (int64_t i = 0; i < 24; ++i)
    EXPECT_EQ(ranks[i], i);
  // What fills no replica of the first kind goes with the second.
  unit.firstRank = 2;
  unit.dp = 5;
  plan.ranks = 22;
  placeBlocks(setting.input(), plan);
  ASSERT_EQ(unit.blocks.size(), 2u);
  EXPECT_EQ(unit.blocks[0].replicas, 1);
  EXPECT_EQ(unit.getRank(0, 1), 6);
  // On one kind, and where items are not shared out by cost, there are none.
  unit.firstRank = 8;
  unit.dp = 4;
  plan.ranks = 24;
  placeBlocks(setting.input(), plan);
  EXPECT_TRUE(unit.blocks.empty());
  unit.firstRank = 0;
  plan.assign = Assign::Given;
  placeBlocks(setting.input(), plan);
  EXPECT_TRUE(unit.blocks.empty());
}

/// Which kind is the slower one is a matter of time, not of products: L40S have
/// more of these than A100s, and slow links inside a node.
TEST(Mixed, TheSlowestKindIsByTime) {
  OnKinds setting(takeNodes("a100-l40s", 1, 2));
  Plan plan = setting.plan(4, 6, 1, 4);
  EXPECT_EQ(slowestNode(setting.costs, plan, 0, 0, 24), 1);
  EXPECT_EQ(slowestNode(setting.costs, plan, 0, 0, 8), 0);
}

/// Where shares are equal all wait for the slowest kind, by estimate too.
TEST(Mixed, EstimatesKnowTheSlowestKind) {
  for (const char *name : {"h100-h20", "a100-l40s"}) {
    OnKinds setting(takeNodes(name, 1, 2));
    Plan plan = setting.plan(4, 6, 1, 4);
    plan.assign = Assign::Given;
    double step = setting.step(plan);
    EXPECT_NEAR(estimate(setting.input(), plan) / step, 1, 0.2) << name;
    EXPECT_LE(lowerBound(setting.input(), plan), step) << name;
    EXPECT_GE(lowerBound(setting.input(), plan), 0.5 * step) << name;
  }
}

/// Samples are shared out by speed, so all replicas are busy to the end.
TEST(Mixed, SharesTakeEquallyLong) {
  OnKinds setting(takeNodes("h100-h20", 1, 2));
  Plan plan = setting.plan(1, 24, 1, 2);
  double slowest = setting.step(plan);
  placeBlocks(setting.input(), plan);
  Parts parts =
      makeParts(setting.model, plan, setting.batch, setting.costs.items);
  double most[2] = {0, 0}, all = 0;
  for (int k : {0, 1})
    for (int r = 0; r < 24; ++r) {
      const TokenSums &part = parts.get(0, k, r);
      most[r >= 8] = std::max(most[r >= 8], part.items);
      all += part.items;
    }
  EXPECT_EQ(all, 512);
  std::vector<int32_t> speeds = plan.units[0].getSpeeds();
  EXPECT_NEAR(most[1] / most[0], speeds[8] / 1000.0, 0.04);
  // As fast as the two kinds together, but for what cannot be divided.
  OnKinds h100(llvm::cantFail(setting.cluster.take(8)));
  Cluster rest = setting.cluster;
  rest.nodes.erase(rest.nodes.begin());
  OnKinds h20(rest);
  double a = h100.step(h100.plan(1, 8, 1, 2)),
         b = h20.step(h20.plan(1, 16, 1, 2)), both = setting.step(plan);
  EXPECT_LT(both, 0.7 * slowest);
  EXPECT_LT(both, 0.85 * std::min(a, b));
  EXPECT_NEAR(both * (1 / a + 1 / b), 1, 0.15);
}

/// Folded, a kind's replicas are one; the whole problem takes as long.
TEST(Mixed, FoldsEachKind) {
  OnKinds setting(takeNodes("a100-l40s", 1, 1), 256);
  Plan plan = setting.plan(1, 8, 2, 4);
  placeBlocks(setting.input(), plan);
  ASSERT_EQ(plan.units[0].blocks.size(), 2u);
  StepOptions options;
  options.fold = true;
  auto folded = simulateStep(setting.costs, plan, setting.batch, options),
       whole = simulateStep(setting.costs, plan, setting.batch);
  ASSERT_TRUE(folded && whole);
  EXPECT_EQ(folded->problem.ranks, 4);
  EXPECT_NEAR(folded->predicted.step / whole->predicted.step, 1, 0.05);
  EXPECT_EQ(std::accumulate(folded->devices.begin(), folded->devices.end(), 0.),
            16);
  EXPECT_EQ(std::accumulate(whole->devices.begin(), whole->devices.end(), 0.),
            16);
}

/// `joint` takes devices of both kinds where that is faster than the best on
/// one of them.
TEST(Mixed, JointTakesBothKinds) {
  for (const char *name : {"h100-h20", "a100-l40s"}) {
    OnKinds setting(takeNodes(name, 1, 2));
    auto plan = makePlan("joint", setting.input());
    ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
    EXPECT_FALSE(plan->units[0].blocks.empty()) << name;
    double best = INFINITY;
    for (int kind : {0, 1}) {
      Cluster one = setting.cluster;
      one.nodes = {one.nodes[kind]};
      OnKinds alone(one);
      auto own = makePlan("joint", alone.input());
      ASSERT_TRUE(bool(own)) << llvm::toString(own.takeError());
      best = std::min(best, own->predicted.step);
    }
    EXPECT_LT(plan->predicted.step, 0.9 * best) << name;
    EXPECT_GE(plan->predicted.step, plan->predicted.bound) << name;
    EXPECT_FALSE(bool(checkPlan(*plan, setting.model, setting.cluster)));
    RecordProperty(name, std::to_string(plan->predicted.step / best));
  }
}

} // namespace
