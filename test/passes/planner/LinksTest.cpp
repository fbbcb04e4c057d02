//===- LinksTest.cpp - What NICs and uplinks are shared by ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"
#include "passes/planner/step/Reduce.h"
#include "passes/scheduler/core/Schedule.h"
#include "test/passes/planner/Architectures.h"

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

TEST(Links, WhatIsLeft) {
  Taken link;
  link.add(10, 20);
  link.add(20, 25);
  link.add(40, 50);
  EXPECT_EQ(link.fill(0, 5), 5);
  EXPECT_EQ(link.fill(0, 10), 30);   // 5 to 10, 25 to 30
  EXPECT_EQ(link.fill(0, 15), 55);   // 30 to 40, 50 to 55
  EXPECT_EQ(link.fill(100, 1), 101); // nothing is in its way
  EXPECT_EQ(link.fill(60, 50), 111);
  EXPECT_EQ(link.fill(0, 5), 60);
}

/// Two replicas of a stage on ranks 0 and 1, which send to the next on rank 2.
struct TwoSenders {
  TwoSenders() {
    problem.units = {{"llm", 0}};
    problem.ranks = 3;
    problem.microbatches = 1;
    for (int s = 0; s < 2; ++s) {
      dt::scheduler::Stage stage;
      stage.name = "llm." + std::to_string(s);
      stage.replicas = {{s == 0 ? 0 : 2}};
      stage.forward = 10;
      stage.input = 10;
      stage.weight = 0;
      problem.stages.push_back(stage);
    }
    problem.stages[0].replicas = {{0}, {1}};
    dt::scheduler::Edge edge;
    edge.from = 0;
    edge.to = 1;
    edge.latency = 6;
    problem.edges = {edge};
    options.nic = {0, 1, 2};
    options.links = 3;
    options.overhead = {1};
  }
  Simulation run() const {
    auto solution = llvm::cantFail(dt::scheduler::solve(problem, "gpipe"));
    dt::scheduler::TaskGraph graph(problem);
    return llvm::cantFail(simulate(graph, solution, options));
  }
  void sum(int rank, int stage, Time duration,
           std::vector<std::pair<int, Time>> takes) {
    GradientReduction reduction;
    reduction.ranks = {rank};
    reduction.stages = {stage};
    reduction.duration = duration;
    reduction.takes = std::move(takes);
    options.reductions.push_back(std::move(reduction));
  }
  dt::scheduler::Problem problem;
  EngineOptions options;
};

TEST(Links, SumsShareNics) {
  TwoSenders two;
  two.sum(0, 0, 20, {{0, 20}});
  two.sum(1, 0, 20, {{1, 20}});
  Time apart = two.run().step;
  // On one NIC each has half of it, and where they need half of it all.
  two.options.reductions[1].takes = {{0, 20}};
  Simulation together = two.run();
  EXPECT_EQ(together.reductions[0].first + 20, together.reductions[0].second);
  EXPECT_EQ(together.reductions[1].second, together.reductions[0].second + 20);
  EXPECT_GT(together.step, apart);
  for (GradientReduction &reduction : two.options.reductions)
    reduction.takes[0].second = 5;
  EXPECT_EQ(two.run().step, apart);
}

TEST(Links, SumsGetWhatMessagesLeave) {
  // Its backward ends at 10 + 11 + 20, then two gradients leave NIC 2.
  TwoSenders two;
  two.sum(2, 1, 12, {{2, 12}});
  auto sum = two.run().reductions[0];
  EXPECT_EQ(sum, std::make_pair(Time(41), Time(41 + 5 + 5 + 12)));
  two.options.reductions[0].takes = {{1, 12}};
  EXPECT_EQ(two.run().reductions[0].second, 41 + 5 + 12);
}

TEST(Links, Uplinks) {
  // NICs 0 and 1 are on a switch, NIC 2 on another.
  TwoSenders two;
  EXPECT_EQ(two.run().step, 10 + 11 + 20 + 11 + 10);
  EngineOptions::Level level;
  level.uplink = {3, 3, 4};
  level.share = {1, 1, 1};
  two.options.links = 5;
  two.options.levels = {level};
  EXPECT_EQ(two.run().step, 10 + 11 + 20 + 11 + 10);
  // With half a NIC's bandwidth a message takes twice 5, and 1.
  two.options.levels[0].share = {2, 2, 1};
  EXPECT_EQ(two.run().step, 10 + 21 + 20 + 21 + 10);
  // On four NICs at once it is four times the traffic, on four rails as before.
  two.options.levels[0].share = {1, 1, 1};
  two.options.lanes = {4};
  EXPECT_EQ(two.run().step, 10 + 41 + 20 + 41 + 10);
  two.options.levels[0].rails = 4;
  EXPECT_EQ(two.run().step, 10 + 11 + 20 + 11 + 10);
  // A message on one switch meets no uplink.
  two.options.levels[0].rails = 1;
  two.options.levels[0].uplink = {3, 3, 3};
  EXPECT_EQ(two.run().step, 10 + 11 + 20 + 11 + 10);
}

/// Four nodes of two devices with a NIC each; a pipeline of two positions.
struct Nodes {
  explicit Nodes(const std::string &levels, int dp = 4, int pp = 2)
      : cluster(llvm::cantFail(parseCluster(
            R"({"version": 1, "devices": {"d": {"flops": {"bf16": 1e15},
                "memory": 1e12, "bandwidth": 1e13}},
                "nodes": [{"device": "d", "devices": 2, "count": 4, "nics": 2,
                "inside": {"latency": 0, "bandwidth": 1e12},
                "network": {"latency": 0, "bandwidth": 1e9}}]
                )" +
                levels + "}",
            "c.json"))),
        model(makeMultimodal(7)), costs(cluster, model),
        batch(8, Sample{256, {std::vector<ItemSize>(1, 64), {256}}}) {
    PolicyInput input{costs, batch, 12};
    plan.ranks = dp * pp;
    plan.microbatches = 2;
    plan.units = {makeUnit(input, 0, 1, dp, 1, 1, Save::None),
                  makeUnit(input, 1, 1, dp, pp, 1, Save::Vjp),
                  makeUnit(input, 2, 1, dp, 1, 1, Save::None)};
    plan.units[2].firstRank = (pp - 1) * dp;
    plan.schedule = "nested";
    plan.assign = Assign::Given;
    plan.reorder = Reorder::None;
  }
  PlannedStep step(bool links = true, bool fold = false) const {
    StepOptions options;
    options.requireMemory = false;
    options.links = links;
    options.fold = fold;
    return llvm::cantFail(simulateStep(costs, plan, batch, options));
  }
  double seconds() const { return step().predicted.step; }
  Cluster cluster;
  Model model;
  Costs costs;
  std::vector<Sample> batch;
  Plan plan;
};

TEST(Links, Levels) {
  double flat = Nodes("").seconds();
  auto with = [](const char *level, int dp = 4, int pp = 2) {
    return Nodes(std::string(", \"levels\": [") + level + "]", dp, pp)
        .seconds();
  };
  // Positions are two nodes each, so all messages go from pair to pair.
  double full = with(R"({"nodes": 2})"),
         slow = with(R"({"nodes": 2, "oversubscription": 256})");
  EXPECT_NEAR(full, flat, 1e-4 * flat);
  EXPECT_GT(slow, 1.2 * full);
  // Inside one switch for all nothing is shared.
  EXPECT_EQ(with(R"({"nodes": 4, "oversubscription": 256})"), full);
  // Of eight replicas sums go over all nodes, and nothing else does.
  double one = Nodes("", 8, 1).seconds();
  EXPECT_EQ(with(R"({"nodes": 2})", 8, 1), one);
  EXPECT_GT(with(R"({"nodes": 2, "oversubscription": 256})", 8, 1), 1.2 * one);
}

/// What searches rank plans by knows whom sums of gradients wait for.
TEST(Links, FoldedSums) {
  Nodes narrow(R"(, "levels": [{"nodes": 2, "oversubscription": 256}])", 8, 1);
  PlannedStep whole = narrow.step(), folded = narrow.step(true, /*fold=*/true);
  EXPECT_FALSE(whole.folded);
  EXPECT_TRUE(folded.folded);
  EXPECT_EQ(folded.predicted.step, whole.predicted.step);
}

TEST(Links, Rails) {
  // From a replica to its next stage on the NIC of the same number: of its rail
  // all the way. Without rails that is the same switch; else both uplinks.
  auto with = [](const char *level) {
    Nodes nodes(std::string(", \"levels\": [") + level + "]");
    nodes.plan.units[1].firstRank = 0;
    return nodes.step(/*links=*/true);
  };
  const char *rails = R"({"nodes": 4, "oversubscription": 1024, "rails": 2})";
  EXPECT_EQ(with(rails).predicted.step,
            with(R"({"nodes": 4, "oversubscription": 1})").predicted.step);
  // Three replicas: the second stage begins on the other rail.
  auto odd = [](const std::string &levels) {
    return Nodes(levels, 3).seconds();
  };
  EXPECT_GT(odd(", \"levels\": [" + std::string(rails) + "]"), 1.2 * odd(""));
}

/// Two pipeline positions that meet in a node with one NIC: their sums share
/// it.
TEST(Links, PositionsInOneNode) {
  Nodes nodes("", 3, 2);
  nodes.cluster.nodes[0].nics = 1;
  nodes.plan.microbatches = 1;
  PlannedStep with = nodes.step(), without = nodes.step(/*links=*/false);
  EXPECT_GT(with.simulation.step, without.simulation.step);
  // NICs of their own: nothing contends.
  nodes.cluster.nodes[0].nics = 2;
  with = nodes.step();
  without = nodes.step(/*links=*/false);
  EXPECT_EQ(with.simulation.step, without.simulation.step);
}

} // namespace
