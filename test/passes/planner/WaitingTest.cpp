//===- WaitingTest.cpp - Outputs that wait, and how far units run ahead ---===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/PlanSearch.h"
#include "test/Contains.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

constexpr int kMicrobatches = 16;
constexpr double kOutput = 1e9; ///< bytes of an image's embedding

/// A small frozen encoder of one image a sample before a language model that
/// takes longer, on a device each or both on one.
struct Frozen {
  explicit Frozen(bool shared) {
    TransformerShape shape{
        .layers = 4, .hidden = 1024, .ffn = 4096, .heads = 16};
    shape.vocabulary = 1000;
    model.name = "frozen";
    model.modules = {makeTransformer("llm", ItemKind::Sample, shape)};
    shape.layers = 1;
    shape.vocabulary = 0;
    shape.patch = 588;
    model.modules.push_back(makeTransformer("vision", ItemKind::Image, shape));
    model.modules[1].trainable = false;
    model.edges.push_back({1, 0, {kOutput, 0, 0}});
    spreadGradients(model);
    plan.ranks = shared ? 1 : 2;
    plan.microbatches = kMicrobatches;
    plan.micro = 1;
    if (shared)
      plan.schedule = "phased";
    Costs costs(cluster, model);
    PolicyInput input{costs, batch};
    for (int m : {0, 1}) {
      plan.units.push_back(makeUnit(input, m, 1, 1, 1, 1, Save::Vjp));
      plan.units.back().firstRank = shared ? 0 : m;
    }
  }
  llvm::Expected<PlannedStep> simulate(std::optional<int> ahead) {
    plan.units[1].runAhead = ahead;
    return simulateStep(Costs(cluster, model), plan, batch);
  }
  /// Outputs that wait beyond what any plan has room for.
  double countWaiting(std::optional<int> ahead = std::nullopt) {
    return llvm::cantFail(simulate(ahead)).memory[1].waiting / kOutput;
  }
  double getBytes(std::optional<int> ahead = std::nullopt) {
    return llvm::cantFail(simulate(ahead)).memory[1].total();
  }

  Model model;
  Cluster cluster = takeDevices("h100-80g", 2);
  std::vector<Sample> batch{kMicrobatches, sampleOf()};
  Plan plan;

private:
  static Sample sampleOf() {
    Sample sample{2048, {}};
    sample.of(ItemKind::Image) = {256};
    return sample;
  }
};

/// The receiver has buffers for two messages, the sender holds the others.
TEST(Waiting, FrozenForwardsFillTheSender) {
  Frozen apart(/*shared=*/false);
  EXPECT_GT(apart.countWaiting(), 6);
  // Of what is made and not used the receiver has two, one counts anyway.
  EXPECT_DOUBLE_EQ(apart.countWaiting(5), 3);
  EXPECT_DOUBLE_EQ(apart.countWaiting(3), 1);
  EXPECT_DOUBLE_EQ(apart.countWaiting(0), 0);
}

/// On shared ranks they are copied at once. One is in use when all are there,
/// two have buffers anyway.
TEST(Waiting, PhasesFillTheReceiver) {
  Frozen shared(/*shared=*/true);
  EXPECT_DOUBLE_EQ(shared.countWaiting(), kMicrobatches - 3);
  // Also where gradients come back.
  shared.model.modules[1].trainable = true;
  EXPECT_DOUBLE_EQ(shared.countWaiting(), kMicrobatches - 3);
}

TEST(Waiting, FrozenUnitsRunAsFarAheadAsMemoryLets) {
  Frozen apart(/*shared=*/false);
  double step = llvm::cantFail(apart.simulate(std::nullopt)).predicted.step;
  DeviceKind &device = apart.cluster.devices[0];
  double has = apart.getBytes(7) + kOutput / 2;
  ASSERT_LT(has, apart.getBytes());
  device.memory = device.reserve + has;
  auto unbounded = apart.simulate(std::nullopt);
  EXPECT_TRUE(unbounded.errorIsA<DoesNotFit>());
  llvm::consumeError(unbounded.takeError());
  Costs costs(apart.cluster, apart.model);
  Layouts layouts;
  layouts.families = {{"all", {apart.plan}}};
  Plan plan =
      llvm::cantFail(searchLayouts({costs, apart.batch}, layouts)).choose();
  EXPECT_EQ(plan.units[1].runAhead, 7);
  EXPECT_FALSE(plan.units[0].runAhead);
  EXPECT_DOUBLE_EQ(plan.predicted.step, step);
  // It is in the file, and what is no longer needed is not kept.
  EXPECT_CONTAINS(printPlan(plan, apart.model), "\"run_ahead\": 7");
  device.memory *= 4;
  Costs more(apart.cluster, apart.model);
  llvm::cantFail(simulateFitting(more, plan, apart.batch));
  EXPECT_FALSE(plan.units[1].runAhead);
}

} // namespace
