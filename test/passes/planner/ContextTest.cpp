//===- ContextTest.cpp - Context parallelism  -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Shipped.h"
#include "test/passes/planner/Setting.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace dt::planner;

namespace {

TEST(Context, TokensCanBeExecuted) {
  Setting setting("a800-80g", 32, uniform(16));
  PolicyInput input = setting.input();
  std::vector<Plan> plans;
  for (const Plan &plan : disjointPlans(input))
    llvm::append_range(plans, cutTokens(input, plan));
  ASSERT_FALSE(plans.empty());
  for (const Plan &plan : plans)
    EXPECT_GT(plan.units[1].cp, 1);
  Plan best = *llvm::min_element(plans, [&](const Plan &a, const Plan &b) {
    return estimate(input, a) < estimate(input, b);
  });
  auto step = simulateFitting(setting.costs, best, setting.batch);
  ASSERT_TRUE(bool(step)) << llvm::toString(step.takeError());
  auto joint = makePlan("joint", input);
  ASSERT_TRUE(bool(joint));
  // What is faster is joint's, too.
  EXPECT_LE(joint->predicted.step, step->predicted.step * (1 + kNegligible));
  // Twice the ranks for a sample: half the work, and more to say.
  CostOptions one, two;
  two.cp = 2;
  const ModuleCost &cost = setting.costs.get(0, 1);
  Times a = cost.module(one, TokenSums::of(4096)),
        b = cost.module(two, TokenSums::of(4096));
  EXPECT_LT(b.total(), a.total());
  EXPECT_GT(b.total(), a.total() / 2);
  EXPECT_GT(b.reduce, a.reduce);
}

/// Documents of unequal length leave replicas idle; ranks that share them do
/// not wait.
TEST(Context, WinsOnDocuments) {
  auto documents = openData("documents");
  ASSERT_TRUE(bool(documents)) << llvm::toString(documents.takeError());
  Model model = llvm::cantFail(openModel("mllm-9b"));
  Cluster cluster = takeDevices("a800-80g", 96);
  Costs costs(cluster, model);
  std::vector<Sample> batch = drawBatch(**documents, 1, 96);
  PolicyInput input{costs, batch};
  auto joint = makePlan("joint", input);
  ASSERT_TRUE(bool(joint)) << llvm::toString(joint.takeError());
  EXPECT_GT(joint->units[model.pace].cp, 1);
  // The most promising layouts that cut no tokens, in all schedules.
  std::vector<Plan> plans;
  for (const Plan &plan : disjointPlans(input)) {
    plans.push_back(plan);
    llvm::append_range(plans, splitBackwards(input, plan));
  }
  llvm::stable_sort(plans, [&](const Plan &a, const Plan &b) {
    return estimate(input, a) < estimate(input, b);
  });
  plans.resize(std::min<size_t>(plans.size(), 24));
  double best = std::numeric_limits<double>::infinity();
  for (Plan &plan : plans)
    if (auto step = expectedToOptional(simulateFitting(costs, plan, batch)))
      best = std::min(best, step->predicted.step);
  EXPECT_TRUE(std::isfinite(best));
  EXPECT_LT(joint->predicted.step, 0.88 * best);
}

/// A block of keys comes while the one before is attended to.
TEST(Context, KeysGoRound) {
  Setting setting("h100-80g", 32, uniform(16));
  Module &llm = setting.model.modules[1];
  llm.keys = {4, 1, true}; // heads that 8 ranks do not divide
  CostOptions gather, ring;
  gather.cp = ring.cp = 8;
  ring.ring = true;
  TokenSums longer = TokenSums::of(131072), shorter = TokenSums::of(1024);
  ModuleCost cost(setting.cluster, 0, llm);
  Times all = cost.module(gather, longer), blocks = cost.module(ring, longer);
  EXPECT_LT(blocks.total(), all.total());
  EXPECT_LT(blocks.reduce, all.reduce / 2);
  EXPECT_GT(cost.module(ring, shorter).total(),
            cost.module(gather, shorter).total());
  int layer = llm.layers[1];
  double keys = llm.kinds[layer].exchanged.at(longer);
  EXPECT_NEAR(cost.workspace(layer, gather, longer) -
                  cost.workspace(layer, ring, longer),
              2 * keys * 6 / 8, 1e-6 * keys);
  // Where nothing runs beside a message, the ring only adds merges.
  Cluster slow = setting.cluster;
  for (NodeKind &node : slow.nodes)
    node.cores = 8;
  ModuleCost onCores(slow, 0, llm);
  EXPECT_GT(onCores.module(ring, longer).reduce,
            onCores.module(gather, longer).reduce);
  // Heads of all tokens need no room for other ranks' keys, and few messages.
  Times whole = cost.module(gather, longer);
  llm.keys = {32, 1, true};
  EXPECT_LT(cost.module(gather, longer).total(), whole.total());
  EXPECT_LT(cost.workspace(layer, gather, longer),
            cost.workspace(layer, ring, longer));
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
  TokenSums part = TokenSums::of(4096);
  EXPECT_GT(cost.module(four, part).reduce, cost.module(one, part).reduce);
  EXPECT_LT(cost.state(0, 34, 1, 8, 4), cost.state(0, 34, 1, 8));
}

/// What fits only if a sample's tokens, or a layer's experts, are divided.
TEST(Context, FitsWhereNothingElseDoes) {
  Setting longer("a800-80g", 32, std::vector<Sample>(2, Sample{262144, {}}));
  longer.model.modules[1].maxTP = 1;
  auto joint = makePlan("joint", longer.input());
  ASSERT_TRUE(bool(joint)) << llvm::toString(joint.takeError());
  EXPECT_GT(joint->units[1].cp, 1);
  EXPECT_FALSE(joint->units[1].ring); // nothing says that it may
  longer.model.modules[1].keys = {1, 1, true};
  auto round = makePlan("joint", longer.input());
  ASSERT_TRUE(bool(round)) << llvm::toString(round.takeError());
  EXPECT_TRUE(round->units[1].ring);
  EXPECT_LT(round->predicted.step, joint->predicted.step);

  Setting experts("a800-80g", 64, uniform(64));
  Module &llm = experts.model.modules[1];
  llm.maxTP = 2;
  for (LayerKind &kind : llm.kinds)
    if (kind.name == "layer") {
      kind.expertParameters = 63 * kind.parameters;
      kind.parameters *= 64;
      kind.dispatched = {0, 2 * 4096, 0};
    }
  Costs costs(experts.cluster, experts.model);
  PolicyInput input{costs, experts.batch, 12};
  joint = makePlan("joint", input);
  if (joint)
    EXPECT_GT(joint->units[1].ep, 1);
  else
    llvm::consumeError(joint.takeError());
}

} // namespace
