//===- MessagesTest.cpp - Blocks that messages and collectives need -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// That programs allocate as much: test/e2e/orders.py.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

constexpr int kImages = 4; ///< of a sample

TransformerShape shapeOf(int layers) {
  TransformerShape shape{
      .layers = layers, .hidden = 1024, .ffn = 4096, .heads = 16};
  return shape;
}

/// A language model, and an encoder before it where there is one.
struct Planned {
  explicit Planned(llvm::StringRef name, int64_t samples = 8) {
    cluster = wholeCluster(name);
    model.name = "planned";
    model.modules = {makeTransformer("llm", ItemKind::Sample, shapeOf(2))};
    Sample sample{512, {}};
    sample.of(ItemKind::Image).assign(kImages, 64);
    batch.assign(size_t(samples), sample);
  }
  void addEncoder(double bytes) {
    model.modules.push_back(
        makeTransformer("vision", ItemKind::Image, shapeOf(1)));
    model.edges.push_back({1, 0, perItem(bytes)});
    spreadGradients(model);
  }
  /// A unit of the next module on the next ranks.
  UnitPlan &add(int tp, int64_t dp, int pp = 1, int cp = 1) {
    Costs costs(cluster, model);
    PolicyInput input{costs, batch};
    UnitPlan unit =
        makeUnit(input, int(plan.units.size()), tp, dp, pp, 1, Save::Vjp);
    unit.cp = cp;
    unit.firstRank = plan.ranks;
    plan.ranks += unit.getRanks();
    return plan.units.emplace_back(unit);
  }
  PlannedStep simulate(int64_t microbatches) {
    plan.microbatches = microbatches;
    plan.micro = int64_t(batch.size()) / microbatches / plan.units[0].dp;
    return llvm::cantFail(simulateStep(Costs(cluster, model), plan, batch));
  }
  std::vector<double> getMessages(int64_t microbatches) {
    std::vector<double> bytes;
    for (const PlannedStep::Memory &memory : simulate(microbatches).memory)
      bytes.push_back(memory.messages);
    return bytes;
  }

  Model model;
  Cluster cluster;
  std::vector<Sample> batch;
  Plan plan;
};

/// Gradients that come from other replicas have blocks of the host's memory,
/// bucket by bucket, all at once.
TEST(Messages, SumsAreAsLargeAsGradients) {
  for (int zero : {0, 1}) {
    Planned host("cpu-2");
    host.add(1, 2).zero = zero;
    double gradients = host.model.modules[0].getParameters() *
                       host.model.modules[0].bytes.gradient;
    // A small rest is combined by all.
    EXPECT_NEAR(host.getMessages(4)[0], gradients, zero ? 64 : 1 << 15);
  }
  Planned alone("cpu-2"), device("h100-80g");
  alone.add(1, 1);
  device.add(1, 2);
  EXPECT_EQ(alone.getMessages(4)[0], 0);
  EXPECT_EQ(device.getMessages(4)[0], 0);
  // A program for the CPU, planned for devices.
  device.cluster.onHost = true;
  EXPECT_GT(device.getMessages(4)[0], 0);
}

/// Of each sample a rank has some tokens, which are packed; of one sample they
/// lie together.
TEST(Messages, SequencesOfSeveralSamplesArePacked) {
  Planned planned("h100-80g");
  planned.add(2, 1);
  planned.plan.sequenceParallel = true;
  TokenSums two = TokenSums::of(512) * 2;
  double whole = 0;
  for (const LayerKind &kind : planned.model.modules[0].kinds)
    whole = std::max(whole, kind.reduced.at(two));
  ASSERT_GT(whole, 0);
  EXPECT_NEAR(planned.getMessages(4)[0], whole, 64);
  EXPECT_EQ(planned.getMessages(8)[0], 0);
}

/// Each end packs each image once, however many replicas the other end has: the
/// encoder what it has in flight, sent and back; the language model two
/// microbatches ahead, and a gradient.
TEST(Messages, UnequalReplicasPackOnce) {
  constexpr double kImage = 1 << 20;
  Planned planned("h100-80g");
  planned.addEncoder(kImage);
  planned.add(1, 2);
  planned.add(1, 1);
  std::vector<double> bytes = planned.getMessages(4);
  EXPECT_EQ(bytes[1], (2 + 2) * 2 * kImages * kImage);
  EXPECT_EQ(bytes[0], (2 + 1) * kImages * kImage);
}

/// An encoder's task of all microbatches, on the rank that reads it: what comes
/// before its receive is posted waits.
TEST(Messages, SpansWaitForThemselves) {
  constexpr double kImage = 1 << 20;
  Planned planned("h100-80g");
  planned.addEncoder(kImage);
  planned.add(1, 1);
  planned.add(1, 1).span = 4;
  planned.plan.units[1].firstRank = 0;
  planned.plan.ranks = 1;
  EXPECT_EQ(planned.getMessages(4)[0], (4 - 2) * 2 * kImages * kImage);
}

/// Also where replicas are equal, but divide what they count differently.
TEST(Messages, EqualReplicasOfOtherItemsPack) {
  constexpr double kImage = 1 << 20;
  Planned planned("h100-80g");
  planned.addEncoder(kImage);
  planned.add(1, 2);
  planned.add(1, 2);
  EXPECT_EQ(planned.getMessages(4)[1], (2 + 2) * kImages * kImage);
  planned.model.modules[1].item = ItemKind::Sample;
  EXPECT_EQ(planned.getMessages(4), std::vector<double>(2, 0));
}

/// A stage receives what a rank of the stage before has, of packed rows, too.
TEST(Messages, TokensStayCutBetweenStages) {
  for (bool packed : {false, true}) {
    auto getReceived = [&](int tp, int cp) {
      Planned planned("h100-80g");
      if (packed)
        planned.model.modules[0].bounds = {
            {ItemKind::Sample, /*isOther=*/false, 512}};
      planned.plan.sequenceParallel = true;
      planned.add(tp, 1, /*pp=*/2, cp);
      return planned.simulate(8).held.back().buffers;
    };
    double whole = getReceived(1, 1);
    EXPECT_GT(whole, 0);
    EXPECT_DOUBLE_EQ(getReceived(1, 2), whole / 2);
    EXPECT_DOUBLE_EQ(getReceived(2, 2), whole / 4);
  }
}

} // namespace
