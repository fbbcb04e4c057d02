//===- ExpertsTest.cpp - What experts on several ranks cost ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/SharedExperts.h"
#include "passes/planner/search/PlanSearch.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"
#include "test/passes/planner/Errors.h"
#include "test/passes/planner/PrintProfile.h"

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

constexpr int kLayers = 2, kExperts = 8, kWidth = 768;

Model makeMixture() {
  TransformerShape shape;
  shape.layers = kLayers;
  shape.hidden = 2048;
  shape.heads = 16;
  shape.gated = shape.causal = true;
  shape.experts = kExperts;
  shape.topK = 2;
  shape.expertFfn = kWidth;
  Model model;
  model.modules = {makeTransformer("llm", ItemKind::Sample, shape)};
  return model;
}

/// Seconds of a layer's forward over 4 ranks, of them `ep` for experts.
double forwardOf(const Model &model, int ep, const Profile *profile = nullptr,
                 int etp = 0) {
  static const Cluster cluster = wholeCluster("h100-80g");
  CostOptions options;
  options.tp = 4;
  options.ep = ep;
  options.etp = etp;
  return ModuleCost(cluster, 0, model.modules[0], profile)
      .layer(0, options, TokenSums::of(8192))
      .forward;
}

/// Whole experts are wider products than a slice of each; beyond the TP group
/// rows travel.
TEST(Experts, WholeOnesAreFaster) {
  Model model = makeMixture();
  double cut = forwardOf(model, 1), half = forwardOf(model, 2),
         whole = forwardOf(model, 4);
  EXPECT_LT(whole, half);
  EXPECT_LT(half, cut);
  Model still = model;
  still.modules[0].kinds[0].dispatched = {};
  EXPECT_GT(forwardOf(model, 8), forwardOf(still, 8));
  EXPECT_EQ(forwardOf(model, 4), forwardOf(still, 4));
  // Of whole experts of other replicas rows need no sum behind them.
  EXPECT_GT(forwardOf(still, 8, nullptr, 4), forwardOf(still, 8));
}

/// Ranks beyond the TP group hold fewer experts; with ZeRO the optimizer's
/// state of all is on all ranks once.
TEST(Experts, State) {
  Model model = makeMixture();
  Cluster cluster = wholeCluster("h100-80g");
  const Module &module = model.modules[0];
  ModuleCost cost(cluster, 0, module);
  double experts = kLayers * module.kinds[0].expertParameters;
  EXPECT_EQ(experts, kLayers * 3.0 * kExperts * kWidth * 2048);
  StateBytes inside = cost.stateBytes(0, kLayers, 4, 4, 4),
             across = cost.stateBytes(0, kLayers, 4, 4, 8),
             whole = cost.stateBytes(0, kLayers, 4, 1, 8);
  EXPECT_EQ(inside.parameters, cost.stateBytes(0, kLayers, 4, 4).parameters);
  EXPECT_EQ(inside.parameters - across.parameters,
            module.bytes.weight * (experts / 4 - experts / 8));
  EXPECT_EQ(across.moments, inside.moments);
  // Gradients of experts are summed over replicas of their own: here one.
  StateBytes alone = cost.stateBytes(0, kLayers, 4, 2, 8);
  EXPECT_EQ(alone.sums,
            module.bytes.gradient / 2 *
                (alone.parameters / module.bytes.weight - experts / 8));
  EXPECT_EQ(whole.moments,
            module.bytes.optimizer * whole.parameters / module.bytes.weight);
}

Profile routingOf(const std::string &layers) {
  return llvm::cantFail(parseProfile(
      "{\"version\": 1, \"routing\": {\"llm\": " + layers + "}}", "p.json"));
}

/// All wait for the rank with most rows, in every layer.
TEST(Experts, Imbalance) {
  Model model = makeMixture();
  const Module &module = model.modules[0];
  Profile even =
              routingOf("[[3, 3, 3, 3, 3, 3, 3, 3], [1, 1, 1, 1, 1, 1, 1, 1]]"),
          skewed =
              routingOf("[[6, 2, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]]");
  EXPECT_FALSE(bool(skewed.check(model)));
  EXPECT_EQ(even.getSlowest(module, 0, 4), 1);
  EXPECT_EQ(skewed.getSlowest(module, 0, 1), 1);
  EXPECT_EQ(skewed.getSlowest(module, 0, 2), (2 + 1) / 2.0);
  EXPECT_EQ(skewed.getSlowest(module, 0, 4), (4 + 1) / 2.0);
  EXPECT_EQ(skewed.getSlowest(module, 0, 8), (6 + 1) / 2.0);
  // Known of the most only: the others have as many as one another.
  Profile most = routingOf("[4.5, 1]");
  EXPECT_FALSE(bool(most.check(model)));
  EXPECT_EQ(most.getSlowest(module, 0, 8), (4.5 + 1) / 2);
  EXPECT_EQ(most.getSlowest(module, 0, 4), ((4.5 + 0.5) / 2 + 1) / 2);
  EXPECT_EQ(forwardOf(model, 4, &even), forwardOf(model, 4));
  EXPECT_EQ(forwardOf(model, 1, &skewed), forwardOf(model, 1));
  EXPECT_GT(forwardOf(model, 4, &skewed), forwardOf(model, 4));
  EXPECT_GT(forwardOf(model, 8, &skewed), forwardOf(model, 8));
  std::string text = printProfile(skewed);
  EXPECT_EQ(printProfile(llvm::cantFail(parseProfile(text, "p.json"))), text);
}

/// Rows that programs have no room for are dropped: no rank has more.
TEST(Experts, Capacity) {
  Model model = makeMixture();
  Profile skewed =
      routingOf("[[6, 2, 0, 0, 0, 0, 0, 0], [6, 2, 0, 0, 0, 0, 0, 0]]");
  model.modules[0].kinds[0].capacity = 6; // of the fullest rank
  Model narrow = model;
  narrow.modules[0].kinds[0].capacity = 1.25;
  Profile few = routingOf("[1.25, 1.25]");
  EXPECT_EQ(skewed.getSlowest(model.modules[0], 0, 8), 6);
  EXPECT_EQ(forwardOf(model, 8, &skewed), forwardOf(makeMixture(), 8, &skewed));
  EXPECT_EQ(forwardOf(narrow, 8, &skewed), forwardOf(narrow, 8, &few));
  EXPECT_LT(forwardOf(narrow, 8, &skewed), forwardOf(model, 8, &skewed));
}

/// Products of a layer as it is described have room for all rows of a capacity.
TEST(Experts, DescribedRoom) {
  Model model = makeMixture();
  Module &module = model.modules[0];
  module.kinds[0].capacity = 1.25;
  RankLayer layer;
  for (Op op : module.kinds[0].forward)
    if (op.expert) {
      op.count /= 4;
      op.rows = op.rows * 1.25;
      layer.forward.push_back(op);
    }
  module.partitioned[{4, CostOptions().save, false, 4}] = {layer};
  Profile even = routingOf("[1, 1]"), some = routingOf("[1.1, 1.1]"),
          all = routingOf("[8, 8]");
  // Nothing is known of rows: as many as there is room for.
  EXPECT_EQ(forwardOf(model, 4), forwardOf(model, 4, &all));
  EXPECT_LT(forwardOf(model, 4, &some), forwardOf(model, 4));
  EXPECT_LT(forwardOf(model, 4, &even), forwardOf(model, 4, &some));
}

/// More ranks than a TP group gather tokens where layers are described so: no
/// row travels, and collectives are those of the description.
TEST(Experts, DescribedBeyondTheGroup) {
  Model model = makeMixture();
  Module &module = model.modules[0];
  RankLayer layer;
  layer.forward = {module.kinds[0].forward.front()};
  module.partitioned[{4, CostOptions().save, false, 8}] = {layer};
  Model still = model;
  still.modules[0].kinds[0].dispatched = {};
  EXPECT_EQ(forwardOf(model, 8), forwardOf(still, 8));
  EXPECT_GT(forwardOf(model, 8, nullptr, 4), forwardOf(still, 8, nullptr, 4));
  Exchange gather{dt::rt::CollectiveKind::AllGather, {0, 4096, 0}};
  module.partitioned.begin()->second[0].forwardExchanges = {gather};
  double group = forwardOf(model, 8);
  gather.over = 2;
  gather.stride = 4;
  module.partitioned.begin()->second[0].forwardExchanges = {gather};
  EXPECT_GT(group, forwardOf(still, 8));
  EXPECT_NE(forwardOf(model, 8), group);
  // Of replicas as many as make whole groups.
  EXPECT_EQ(module.listExpertRanks(4, 1, 2), std::vector<int>{8});
  EXPECT_EQ(module.listExpertRanks(4, 2, 1), std::vector<int>{8});
  EXPECT_EQ(module.listExpertRanks(4, 1, 3), std::vector<int>());
}

/// Joined replicas stay whole groups, whatever else changes.
TEST(Experts, Neighbours) {
  Model model = makeMixture();
  Module &module = model.modules[0];
  for (int ep : {1, 8})
    module.partitioned[{4, CostOptions().save, false, ep}].resize(
        module.kinds.size());
  Cluster cluster = takeDevices("h100-80g", 32);
  Costs costs(cluster, model);
  std::vector<Sample> batch(64);
  for (Sample &sample : batch)
    sample.tokens = 4096;
  PolicyInput input{costs, batch};
  Plan plan;
  plan.units = {makeUnit(input, 0, 4, 6, 1, 1, Save::Vjp)};
  plan.units[0].ep = 8;
  plan.ranks = plan.units[0].getRanks();
  plan.microbatches = 4;
  int shared = 0, own = 0;
  for (const Plan &other : neighboursOf(input, plan, /*uniform=*/false)) {
    const UnitPlan &unit = other.units[0];
    EXPECT_TRUE(dt::dist::canShareExperts(unit.ep, unit.tp, unit.cp, unit.dp))
        << unit.ep << " " << unit.tp << " " << unit.cp << " " << unit.dp;
    shared += unit.ep > 1 && unit.dp != 6;
    own += unit.ep == 1;
  }
  EXPECT_GT(shared, 0);
  EXPECT_GT(own, 0);
}

std::string routingError(const std::string &layers) {
  return llvm::toString(routingOf(layers).check(makeMixture()));
}

TEST(Experts, RoutingErrors) {
  EXPECT_EQ(routingError("[[1, 1, 1, 1, 1, 1, 1, 1]]"),
            "routing of module 'llm': expected 2 layers, as many as have "
            "experts, not 1");
  EXPECT_EQ(routingError("[[1, 1, 1, 1, 1, 1, 1, 1], [1, 1]]"),
            "routing of module 'llm', layer 1 of those with experts: expected "
            "rows of 8 experts, not of 2");
  auto parse = [](const char *text) {
    return errorOf(parseProfile(text, "p.json"));
  };
  EXPECT_EQ(parse(R"({"version": 1, "routing": {"llm": [[1, 0], [0, 0]]}})"),
            "p.json: routing.llm[1]: expected rows of at least one expert");
  EXPECT_BEGINS(parse(R"({"version": 1, "routing": {"llm": [[1, -1]]}})"),
                "p.json: routing.llm[0][1]: ");
  EXPECT_BEGINS(parse(R"({"version": 1, "routing": {"llm": [0.5]}})"),
                "p.json: routing.llm[0]: ");
  EXPECT_NE(parse(R"({"version": 1, "routing": {}})"), "");
  Profile other = routingOf("[[1]]");
  std::swap(other.routing["lm"], other.routing["llm"]);
  other.routing.erase("llm");
  EXPECT_EQ(llvm::toString(other.check(makeMixture())),
            "the profile names module 'lm', which the model does not have; did "
            "you mean 'llm'?");
}

} // namespace
