//===- CandidatesTest.cpp - The simplest of the fastest -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Shipped.h"
#include "passes/planner/policies/Policy.h"
#include "test/Contains.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

Plan makePlanOf(double step, int stages, int64_t ranks = 2,
                const char *schedule = "1f1b") {
  Plan plan;
  plan.ranks = ranks;
  plan.schedule = schedule;
  plan.units.resize(1);
  plan.units[0].vpp = stages;
  plan.predicted.step = step;
  return plan;
}

int64_t stagesOf(const Plan &plan) {
  return getComplexity(plan).figures[Complexity::Stages];
}

Candidates makeCandidates(std::initializer_list<Plan> plans) {
  Candidates candidates;
  for (const Plan &plan : plans)
    candidates.add(plan);
  return candidates;
}

TEST(Candidates, ExactlyHalfAPercentIsNegligible) {
  double limit = 2 * (1 + kNegligible);
  auto both = makeCandidates({makePlanOf(2, 18), makePlanOf(limit, 2)});
  EXPECT_EQ(stagesOf(both.getSimplest()), 2);
  EXPECT_EQ(stagesOf(both.getFastest()), 18);
  double more = std::nextafter(limit, 3);
  both = makeCandidates({makePlanOf(2, 18), makePlanOf(more, 2)});
  EXPECT_EQ(stagesOf(both.getSimplest()), 18);
}

/// Of what others show none is faster.
TEST(Candidates, SimplicityCostsNothingThatIsShown) {
  auto row = makeCandidates(
      {makePlanOf(2, 18), makePlanOf(2.004, 4), makePlanOf(2.01, 2)});
  EXPECT_EQ(stagesOf(row.choose()), 2);
  row.limit = 2.005;
  EXPECT_EQ(stagesOf(row.choose()), 4);
}

TEST(Candidates, IdleDevicesAreSaid) {
  auto row = makeCandidates(
      {makePlanOf(2, 2, 56), makePlanOf(2.5, 2, 60), makePlanOf(2.1, 2, 64)});
  EXPECT_EQ(describeIdle(row.choose(), 64),
            "8 of 64 devices are idle: the fastest plan found that uses more, "
            "64, is 5.00 % slower");
  row = makeCandidates({makePlanOf(2, 2, 56), makePlanOf(1.995, 2, 64)});
  EXPECT_EQ(describeIdle(row.choose(), 64),
            "8 of 64 devices are idle: the fastest plan found that uses more, "
            "64, is only 0.25 % faster");
  Plan only = makeCandidates({makePlanOf(2, 2, 56)}).choose();
  EXPECT_EQ(describeIdle(only, 64), "8 of 64 devices are idle: no plan was "
                                    "found that uses more of them and fits");
  EXPECT_EQ(describeIdle(only, 56), "");
}

/// Running ahead holds more: within 0.5 % it is not chosen.
TEST(Candidates, RunningAheadMustGain) {
  Plan ahead = makePlanOf(1, 1);
  ahead.units[0].runAhead = 1;
  Plan plan = makeCandidates({ahead, makePlanOf(1.004, 1)}).choose();
  EXPECT_FALSE(plan.units[0].runAhead);
  EXPECT_EQ(plan.faster->has, "1 unit with run_ahead");
  plan = makeCandidates({ahead, makePlanOf(1.006, 1)}).choose();
  EXPECT_EQ(plan.units[0].runAhead, 1);
}

/// Each of a row is within 0.5 % of the one before, but not of the first.
TEST(Candidates, WhatItCostsDoesNotAddUp) {
  auto row = makeCandidates({makePlanOf(1.008, 1), makePlanOf(1.004, 2),
                             makePlanOf(1, 3), makePlanOf(1.012, 1)});
  EXPECT_EQ(stagesOf(row.choose()), 2);
  // A new fastest plan moves the limit for all that are there.
  row.add(makePlanOf(0.997, 4));
  EXPECT_EQ(stagesOf(row.choose()), 3);
}

TEST(Candidates, Ties) {
  // Equally simple: the faster one, whatever comes first.
  auto ties = makeCandidates({makePlanOf(1.004, 2), makePlanOf(1.002, 2),
                              makePlanOf(1.003, 2), makePlanOf(1, 5)});
  EXPECT_EQ(ties.choose().predicted.step, 1.002);
  // Equally fast: the simpler one, and nothing is slower.
  ties = makeCandidates({makePlanOf(1, 5), makePlanOf(1, 2)});
  EXPECT_EQ(stagesOf(ties.choose()), 2);
  EXPECT_FALSE(ties.choose().faster);
  // Equal in both: the earlier one.
  Plan first = makePlanOf(1, 2), second = first;
  first.policy = "first";
  second.policy = "second";
  EXPECT_EQ(makeCandidates({first, second}).choose().policy, "first");
  EXPECT_EQ(makeCandidates({second, first}).choose().policy, "second");
}

/// Stages, then ranks, then the schedule, then groups and pieces.
TEST(Candidates, Order) {
  Plan plain = makePlanOf(1, 2, 8);
  EXPECT_TRUE(getComplexity(makePlanOf(1, 1, 9, "zb-v")) <
              getComplexity(plain));
  EXPECT_TRUE(getComplexity(makePlanOf(1, 2, 7, "zb-v")) <
              getComplexity(plain));
  for (const char *schedule : {"nested", "interleaved", "zb", "zb-h1"}) {
    Plan other = makePlanOf(1, 2, 8, schedule);
    other.units[0].tp = 1;
    plain.units[0].tp = 8;
    EXPECT_TRUE(getComplexity(plain) < getComplexity(other)) << schedule;
    plain.units[0].tp = 1;
  }
  EXPECT_EQ(getComplexity(makePlanOf(1, 2, 8, "phased")).figures,
            getComplexity(plain).figures);
  Plan tensor = plain, sequence, pieces = plain;
  tensor.units[0].tp = 2;
  sequence = tensor;
  tensor.sequenceParallel = false;
  pieces.units[0].sub = 4;
  EXPECT_TRUE(getComplexity(plain) < getComplexity(pieces));
  EXPECT_TRUE(getComplexity(pieces) < getComplexity(tensor));
  EXPECT_TRUE(getComplexity(tensor) < getComplexity(sequence));
}

TEST(Candidates, SayWhatIsFaster) {
  Plan plan =
      makeCandidates({makePlanOf(1, 18), makePlanOf(1.004, 1)}).choose();
  EXPECT_EQ(describeFaster(plan),
            "0.40 % slower than the fastest plan found, which has 18 stages; "
            "this has 1 stage");
  plan = makeCandidates({makePlanOf(1, 2, 8, "zb-v"), makePlanOf(1.002, 2, 8)})
             .choose();
  EXPECT_EQ(describeFaster(plan),
            "0.20 % slower than the fastest plan found, which has schedule "
            "zb-v; this has schedule 1f1b");
  plan = makeCandidates({makePlanOf(1, 3), makePlanOf(1.00001, 2)}).choose();
  EXPECT_BEGINS(describeFaster(plan), "less than 0.01 % slower than the");
  EXPECT_EQ(describeFaster(makePlanOf(1, 1)), "");
}

struct Small {
  Small() {
    TransformerShape shape{.layers = 8, .hidden = 512, .ffn = 2048, .heads = 8};
    shape.vocabulary = 1000;
    model.name = "small";
    model.modules = {makeTransformer("llm", ItemKind::Sample, shape)};
    cluster = takeDevices("l40s-48g", 2);
    // Nothing is worth sending.
    cluster.nodes[0].inside = cluster.nodes[0].reduce = {1, 1e6};
  }
  Plan plan() {
    Costs costs(cluster, model);
    return llvm::cantFail(makePlan("joint", {costs, batch, 6}));
  }
  Model model;
  Cluster cluster;
  std::vector<Sample> batch = std::vector<Sample>(16, Sample{512, {}});
};

/// One stage on one device is the fastest and the simplest; where it does not
/// fit it is not chosen for that.
TEST(Candidates, TheSimplestMustFit) {
  Small small;
  Plan one = small.plan();
  EXPECT_EQ(one.ranks, 1);
  EXPECT_EQ(stagesOf(one), 1);
  // Weights, gradients and optimizer alone are more than a device has then.
  DeviceKind &device = small.cluster.devices[0];
  const Module &llm = small.model.modules[0];
  double state = llm.getParameters() *
                 (llm.bytes.weight + llm.bytes.gradient + llm.bytes.optimizer);
  device.reserve = 0;
  device.memory = 0.95 * state;
  Plan two = small.plan();
  EXPECT_EQ(two.ranks, 2);
  for (double bytes : two.predicted.memory)
    EXPECT_LE(bytes, device.memory);
  EXPECT_GT(two.predicted.step, one.predicted.step);
}

/// Whoever searches settles on what is within 0.5 % of the fastest it found,
/// and finds nothing simpler there.
TEST(Candidates, EveryPolicySettlesOnTheSimplest) {
  Cluster cluster = takeDevices("a800-80g", 24);
  Model model = makeMultimodal(7);
  Costs costs(cluster, model);
  PolicyInput input{costs,
                    drawBatch(*llvm::cantFail(openData("packed")), 1, 24), 6};
  for (const Policy &policy : getPolicies()) {
    SCOPED_TRACE(policy.name);
    auto found = findPlans(policy.name, input);
    ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
    Plan plan = llvm::cantFail(makePlan(policy.name, input));
    double least = found->getFastest().predicted.step;
    EXPECT_LE(plan.predicted.step, least * (1 + kNegligible));
    EXPECT_EQ(plan.faster.has_value(), plan.predicted.step > least);
    for (const Plan &other : found->getPlans()) {
      for (double bytes : other.predicted.memory)
        EXPECT_LE(bytes, cluster.getMemory(0));
      EXPECT_GE(other.predicted.step, least);
      if (other.predicted.step <= least * (1 + kNegligible))
        EXPECT_FALSE(getComplexity(other) < getComplexity(plan));
    }
    auto json = nlohmann::json::parse(printPlan(plan, model));
    EXPECT_EQ(json["predicted"].contains("fastest"), plan.faster.has_value());
    if (plan.faster)
      EXPECT_EQ(json["predicted"]["fastest"]["step"], least);
  }
}

/// Whatever a schedule's file says that planners try is tried beside a plan.
TEST(Candidates, AllPlannedSchedules) {
  Model model = makeMultimodal(7);
  Cluster cluster = takeDevices("a800-80g", 96);
  Costs costs(cluster, model);
  std::vector<Sample> batch =
      drawBatch(*llvm::cantFail(openData("packed")), 1, 96);
  PolicyInput input{costs, batch};
  for (const char *start : {"1f1b", "phased"}) {
    Plan plan;
    plan.schedule = start;
    plan.microbatches = 24;
    plan.units = {makeUnit(input, 0, 1, 4, 1, 1, Save::Vjp),
                  makeUnit(input, 1, 1, 4, 4, 1, Save::Vjp),
                  makeUnit(input, 2, 1, 4, 1, 1, Save::Vjp)};
    std::set<std::string> tried = {start}, wanted;
    for (const Plan &other : withSchedules(input, plan))
      tried.insert(other.schedule);
    for (const auto &entry : dt::scheduler::Registry::get().getEntries())
      if (entry.traits.planned &&
          entry.traits.sharesRanks == plan.sharesRanks())
        wanted.insert(entry.name);
    EXPECT_EQ(tried, wanted);
    EXPECT_EQ(wanted.count("dualpipe-v"), !plan.sharesRanks());
  }
}

} // namespace
