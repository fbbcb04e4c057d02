//===- FoldTest.cpp - Folded problems and what follows from them ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/passes/planner/Errors.h"
#include "test/passes/planner/Setting.h"

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

std::vector<Sample> drawn(const char *name, int count) {
  return drawBatch(*llvm::cantFail(openData(name)), 1, count);
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

/// Any layout: folded it takes as long as in full where data are uniform, with
/// messages that queue for nobody.
TEST(Fold, EqualsFullOfAnyShape) {
  Setting setting("a800-80g", 64, uniform(24));
  PolicyInput input = setting.input();
  uint32_t state = 5;
  auto below = [&](uint32_t n) {
    state = state * 1664525 + 1013904223;
    return int((state >> 16) % n);
  };
  int compared = 0;
  for (int i = 0; i < 60; ++i) {
    Plan plan;
    // Parts of equally many samples and items.
    int dp = 1 << below(3), pp = 1 + below(4);
    plan.microbatches = 24 / dp / (1 + below(3));
    if (24 % (plan.microbatches * dp))
      continue;
    plan.micro = 24 / (plan.microbatches * dp);
    plan.schedule = below(2) ? "1f1b" : "zb-h1";
    int tp = 1 << below(4);
    if (int64_t(tp) * dp * pp > 48)
      continue;
    plan.units = {makeUnit(input, 0, 1, dp, 1, 1, Save::None),
                  makeUnit(input, 1, tp, dp, pp, 1, Save::Vjp),
                  makeUnit(input, 2, 1, dp, 1, 1, Save::None)};
    ASSERT_TRUE(placeUnits(input, plan));
    StepOptions options;
    options.requireMemory = options.links = false;
    options.fold = true;
    auto folded = simulateStep(setting.costs, plan, setting.batch, options);
    ASSERT_TRUE(bool(folded)) << llvm::toString(folded.takeError());
    // A hair's breadth in one sample is no uniform data any more.
    std::vector<Sample> other = setting.batch;
    other[below(24)].tokens -= 1;
    options.fold = false;
    auto full = simulateStep(setting.costs, plan, other, options);
    ASSERT_TRUE(bool(full)) << llvm::toString(full.takeError());
    EXPECT_NEAR(full->predicted.step / folded->predicted.step, 1, 2e-3)
        << "TP " << tp << " DP " << dp << " PP " << pp << " " << plan.schedule;
    ++compared;
  }
  EXPECT_GT(compared, 15);
}

/// Units on the ranks of one of another's stages are folded with it.
TEST(Fold, Guests) {
  Setting setting("a800-80g", 32, uniform(32));
  PolicyInput input = setting.input();
  Plan plan;
  plan.ranks = 32;
  plan.microbatches = 4;
  plan.micro = 2;
  plan.schedule = "nested";
  plan.assign = Assign::Given;
  plan.reorder = Reorder::None;
  // An encoder of smaller groups on the first of two positions.
  plan.units = {makeUnit(input, 0, 1, 8, 1, 1, Save::None),
                makeUnit(input, 1, 2, 4, 4, 1, Save::Vjp),
                makeUnit(input, 2, 2, 4, 1, 1, Save::None)};
  plan.units[2].firstRank = 24;
  EXPECT_TRUE(plan.isGuest(0) && plan.isGuest(2) && !plan.isGuest(1));
  StepOptions options;
  options.requireMemory = options.links = false;
  auto folded = simulateStep(setting.costs, plan, setting.batch, options);
  ASSERT_TRUE(bool(folded)) << llvm::toString(folded.takeError());
  EXPECT_TRUE(folded->folded);
  EXPECT_EQ(folded->problem.ranks, 8);
  std::vector<Sample> other = setting.batch;
  other[5].tokens -= 1;
  auto full = simulateStep(setting.costs, plan, other, options);
  ASSERT_TRUE(bool(full)) << llvm::toString(full.takeError());
  EXPECT_EQ(full->problem.ranks, 32);
  EXPECT_NEAR(full->predicted.step / folded->predicted.step, 1, 2e-3);
  for (size_t u = 0; u < 3; ++u)
    EXPECT_NEAR(full->predicted.memory[u] / folded->predicted.memory[u], 1,
                1e-2);
}

/// A task has the work and the bytes of all its microbatches.
TEST(Fold, TasksOfSeveralMicrobatches) {
  Setting setting("a800-80g", 48, drawn("packed", 64));
  PolicyInput input = setting.input();
  Plan plan = disjoint(input);
  plan.reorder = Reorder::None;
  StepOptions options;
  options.requireMemory = false;
  auto single = simulateStep(setting.costs, plan, setting.batch, options);
  ASSERT_TRUE(bool(single)) << llvm::toString(single.takeError());
  plan.units[0].span = 3;
  auto joined = simulateStep(setting.costs, plan, setting.batch, options);
  ASSERT_TRUE(bool(joined)) << llvm::toString(joined.takeError());
  const dt::scheduler::Stage &one = single->problem.stages[0],
                             &three = joined->problem.stages[0];
  int n = 8, replicas = int(one.replicas.size());
  for (int r = 0; r < replicas; ++r)
    for (int k = 0; k < n; k += 3) {
      int64_t time = 0, bytes = 0, longest = 0;
      for (int i = k; i < std::min(n, k + 3); ++i) {
        int64_t own = one.forward.at(i, r, n, replicas);
        time += own;
        longest = std::max(longest, own);
        bytes += one.activation.at(i, r, n, replicas);
      }
      // Larger kernels are no slower.
      EXPECT_LE(three.forward.at(k, r, n, replicas), time + 3);
      EXPECT_GE(three.forward.at(k, r, n, replicas), longest);
      EXPECT_NEAR(double(three.activation.at(k, r, n, replicas)), double(bytes),
                  3);
    }
  int forwards = 0;
  for (const dt::scheduler::Task &task : joined->solution.ranks[0])
    forwards += task.kind == dt::scheduler::Kind::Forward;
  EXPECT_EQ(forwards, 3);
  // The backbone's tasks cannot wait for more than one of the encoder's.
  plan.units[0].span = 1;
  plan.units[1].span = 2;
  EXPECT_CONTAINS(
      errorOf(simulateStep(setting.costs, plan, setting.batch, options)),
      "no multiple");
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
    PlannedStep::Memory always = step->held[rank];
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

/// A message costs what lies between its ranks: NVLink inside a node, a NIC
/// between two.
TEST(Place, MessagesCostWhereRanksLie) {
  Setting setting("a800-80g", 16, uniform(8));
  PolicyInput input = setting.input();
  StepOptions options;
  options.requireMemory = false;
  auto latencies = [&](const Plan &plan, size_t edge) {
    auto step = simulateStep(setting.costs, plan, setting.batch, options);
    EXPECT_TRUE(bool(step)) << llvm::toString(step.takeError());
    return step->problem.edges[edge];
  };
  // Four stages of one device on one node, then over the border of two nodes.
  Plan plan;
  plan.ranks = 16;
  plan.microbatches = 8;
  plan.units = {makeUnit(input, 0, 1, 1, 1, 1, Save::None),
                makeUnit(input, 1, 1, 1, 4, 1, Save::Vjp),
                makeUnit(input, 2, 1, 1, 1, 1, Save::None)};
  plan.units[1].firstRank = 1;
  plan.units[2].firstRank = 5;
  auto inside = latencies(plan, 0), broker = latencies(plan, 3);
  plan.units[0].firstRank = 15;
  plan.units[1].firstRank = 7;
  plan.units[2].firstRank = 11;
  auto across = latencies(plan, 0), other = latencies(plan, 1),
       far = latencies(plan, 3);
  EXPECT_LT(3 * inside.latency, across.latency);
  EXPECT_EQ(other.latency, inside.latency);
  EXPECT_LT(3 * broker.routes[0].latency, far.routes[0].latency);
  // Of two replicas one may cross where the other does not.
  plan.units[1] = makeUnit(input, 1, 1, 3, 2, 1, Save::Vjp);
  plan.units[1].firstRank = 3;
  plan.units[2].firstRank = 14;
  auto mixed = latencies(plan, 0);
  ASSERT_EQ(mixed.routes.size(), 3u);
  EXPECT_EQ(mixed.routes[0].latency, mixed.routes[1].latency);
  EXPECT_LT(mixed.routes[0].latency, mixed.routes[2].latency);
}

/// Where a group begins late in a node it is on two.
TEST(Place, GroupsOverTheBorder) {
  Cluster cluster = takeDevices("a800-80g", 16);
  EXPECT_EQ(cluster.getNode(7), 0);
  EXPECT_EQ(cluster.getNode(8), 1);
  EXPECT_EQ(cluster.getSite(11).place, 3);
  EXPECT_EQ(cluster.getGroup(0, 4, 1, 4).nodes, 1);
  EXPECT_EQ(cluster.getGroup(0, 4, 1, 6).nodes, 2);
  EXPECT_GT(cluster.allReduce(cluster.getGroup(0, 4, 1, 6), 1e9),
            2 * cluster.allReduce(cluster.getGroup(0, 4, 1, 4), 1e9));
}

/// No plan beats all devices at the work that suits them; on one kind that is
/// the work over the devices, and idle weak devices change little.
TEST(Place, CeilingOnTwoKinds) {
  Cluster all = takeNodes("a800-l40s", 4, 4);
  Model model = makeMultimodal(7);
  std::vector<Sample> batch = drawn("packed", 32);
  auto boundOf = [&](const Cluster &cluster) {
    return Costs(cluster, model).workBound(batch);
  };
  Cluster first = llvm::cantFail(all.take(32)), second = all;
  second.nodes.erase(second.nodes.begin());
  double together = boundOf(all), a = boundOf(first), b = boundOf(second);
  EXPECT_LT(together, std::min(a, b));
  // Rates add up at most, but for who is better at what.
  EXPECT_GT(together, 0.8 / (1 / a + 1 / b));
  EXPECT_LT(together, 1.0001 / (1 / a + 1 / b));
}

/// Whatever comes first in the file: policies that know one kind of device have
/// the best of what they find on each, and never less than on one kind alone.
TEST(Place, PoliciesOnTwoKinds) {
  Cluster all = takeNodes("a800-l40s", 3, 2);
  Model model = makeMultimodal(7);
  std::vector<Sample> batch = drawn("packed", 24);
  Cluster first = llvm::cantFail(all.take(24)), turned = all;
  std::swap(turned.nodes[0], turned.nodes[1]);
  Costs costs(all, model), alone(first, model), other(turned, model);
  for (const char *policy :
       {"megatron", "homogeneous", "disttrain", "colocated"}) {
    auto both = findPlans(policy, {costs, batch, 8}),
         one = findPlans(policy, {alone, batch, 8}),
         back = findPlans(policy, {other, batch, 8});
    ASSERT_TRUE(both && one && back) << policy;
    double step = both->getFastest().predicted.step;
    EXPECT_LE(step, 1.001 * one->getFastest().predicted.step) << policy;
    EXPECT_NEAR(back->getFastest().predicted.step / step, 1, 0.25) << policy;
    EXPECT_FALSE(bool(checkPlan(both->choose(), model, all)));
  }
}

/// On two kinds of devices the units' ranks do not cross the border.
TEST(Place, UnequalDevices) {
  Cluster all = takeNodes("a800-l40s", 4, 2);
  Model model = makeMultimodal(7);
  Costs costs(all, model);
  std::vector<Sample> batch = drawn("packed", 48);
  auto plan = makePlan("joint", {costs, batch, 16});
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  for (const UnitPlan &unit : plan->units) {
    int first = all.getNodeKind(unit.firstRank),
        last = all.getNodeKind(unit.firstRank + unit.getRanks() - 1);
    bool shared = plan->schedule == "phased" || plan->schedule == "nested" ||
                  plan->policy.find("uniform") != std::string::npos ||
                  plan->policy.find("homogeneous") != std::string::npos;
    if (!shared)
      EXPECT_EQ(first, last);
  }
  EXPECT_GE(plan->predicted.step, plan->predicted.bound);
}

} // namespace
