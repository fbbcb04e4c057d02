//===- PartsTest.cpp - Which samples make a microbatch --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/Parts.h"
#include "passes/planner/policies/Policy.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace dt::planner;

namespace {

constexpr int kDocuments = 32, kReplicas = 2;

/// A backbone of two replicas; an encoder and a generator on ranks of their
/// own, so many of each.
struct Halves {
  explicit Halves(int64_t others)
      : model(makeMultimodal(7)), cluster(wholeCluster("a800-80g")),
        costs(cluster, model) {
    // Every second document is short and has most images.
    for (int i = 0; i < kDocuments; ++i) {
      Sample sample{i % 2 ? 8192 : 512, {}};
      sample.of(ItemKind::Image).assign(i % 2 ? 3 : 21, 4096);
      sample.of(ItemKind::Target).assign(i % 2 ? 3 : 21, 4096);
      batch.push_back(sample);
    }
    PolicyInput input{costs, batch, 12};
    plan.microbatches = kDocuments / kReplicas;
    plan.micro = 1;
    plan.units = {makeUnit(input, 0, 1, others, 1, 1, Save::None),
                  makeUnit(input, 1, 8, kReplicas, 1, 1, Save::Vjp),
                  makeUnit(input, 2, 1, others, 1, 1, Save::None)};
  }
  /// By microbatch: tokens of its parts of the backbone, and images.
  std::vector<std::pair<std::vector<double>, double>> getMicrobatches() {
    Parts parts = makeParts(model, plan, batch, costs.items);
    std::vector<std::pair<std::vector<double>, double>> result;
    for (int k = 0; k < parts.microbatches; ++k) {
      auto &[tokens, images] = result.emplace_back();
      for (int r = 0; r < kReplicas; ++r)
        tokens.push_back(parts.get(1, k, r).tokens);
      for (int64_t r = 0; r < plan.units[0].dp; ++r)
        images += parts.get(0, k, int(r)).items;
    }
    return result;
  }
  /// Of the mean microbatch on one rank.
  double getLoad(int unit) const {
    double load = 0;
    for (const Sample &sample : batch)
      for (const ItemSize &size : sample.getSizes(model.modules[unit].item))
        load += double(costs.items[unit].at(size));
    return load / double(plan.microbatches);
  }

  Model model;
  Cluster cluster;
  Costs costs;
  std::vector<Sample> batch;
  Plan plan;
};

/// Where the others keep up, replicas do not wait for one another: two long
/// documents make a microbatch, or two short ones.
TEST(Parts, EqualWorkStandsSideBySide) {
  for (auto &[tokens, images] : Halves(64).getMicrobatches())
    EXPECT_EQ(tokens[0], tokens[1]);
}

/// Where another unit takes longer for the mean microbatch than the backbone
/// for the longest, its work is made even: a long one and a short one.
TEST(Parts, TheSlowestUnitIsEven) {
  for (auto &[tokens, images] : Halves(1).getMicrobatches()) {
    EXPECT_EQ(images, 24);
    EXPECT_EQ(tokens[0] + tokens[1], 8192 + 512);
  }
}

/// Units on ranks of their own work at once: two that keep up do not make one
/// that does not.
TEST(Parts, UnitsThatKeepUpAreNotAddedUp) {
  Halves one(1);
  double encoder = one.getLoad(0), generator = one.getLoad(2),
         longest = double(one.costs.items[1].at(8192)) / 8;
  int64_t ranks =
      int64_t(std::ceil(1.02 * std::max(encoder, generator) / longest));
  ASSERT_GT((encoder + generator) / double(ranks), longest);
  for (auto &[tokens, images] : Halves(ranks).getMicrobatches())
    EXPECT_EQ(tokens[0], tokens[1]);
}

/// As they come, every second part would have twice what the others have.
TEST(Parts, ProgramsPackTokensIntoTheirBounds) {
  Halves halves(8);
  halves.plan.reorder = Reorder::None;
  halves.plan.assign = Assign::Given;
  auto most = [&] {
    double tokens = 0;
    for (auto &[parts, images] : halves.getMicrobatches())
      tokens = std::max(tokens, *std::max_element(parts.begin(), parts.end()));
    return tokens;
  };
  halves.plan.microbatches = kDocuments / kReplicas / 4;
  halves.plan.micro = 4;
  EXPECT_EQ(most(), 4 * 8192);
  halves.model.modules[halves.model.pace].bounds = {
      {ItemKind::Sample, false, 4.1 * (8192 + 512) / 2}};
  EXPECT_EQ(most(), 2 * (8192 + 512));
}

/// A long document is more work than as many tokens of short ones.
TEST(Parts, EqualWorkKeepsToTheBoundsOfTokens) {
  Halves balanced(8);
  balanced.batch.assign(201, Sample{512, {}});
  balanced.batch[3].tokens = 128 * 512;
  balanced.plan.microbatches = 1;
  balanced.plan.micro = 101;
  auto fullest = [&] {
    double tokens = 0;
    for (auto &[parts, images] : balanced.getMicrobatches())
      tokens = std::max(tokens, *std::max_element(parts.begin(), parts.end()));
    return tokens;
  };
  double bound = 164.5 * 512; // 36 short ones beside the long one
  EXPECT_GT(fullest(), bound);
  balanced.model.modules[balanced.model.pace].bounds = {
      {ItemKind::Sample, false, bound}};
  EXPECT_LE(fullest(), bound);
}

/// Tokens of the parts of a unit, by microbatch and replica.
std::vector<double> tokensOf(const Parts &parts, int unit) {
  std::vector<double> tokens;
  for (const TokenSums &part : parts.modules[unit].moments)
    tokens.push_back(part.tokens);
  return tokens;
}

/// An encoder is done at once with pictures whose costs are even; where these
/// are more rows than it may have, rows are.
TEST(Parts, AllModulesKeepToTheirBounds) {
  Halves halves(2);
  halves.batch.assign(2, Sample{512, {}});
  halves.batch[0].of(ItemKind::Image) = {4096};
  halves.batch[1].of(ItemKind::Image).assign(48, 256);
  halves.plan.microbatches = halves.plan.micro = 1;
  auto fullest = [&](Parts parts) {
    std::vector<double> tokens = tokensOf(parts, 0);
    return *std::max_element(tokens.begin(), tokens.end());
  };
  auto cut = [&] {
    return makeParts(halves.model, halves.plan, halves.batch,
                     halves.costs.items);
  };
  EXPECT_GT(fullest(cut()), 8192);
  halves.model.modules[0].bounds = {
      {ItemKind::Image, false, 8192, "image.patches"}};
  Parts parts = cut();
  EXPECT_EQ(parts.tooLarge, "");
  EXPECT_EQ(fullest(parts), 8192);
  // No way to put them.
  halves.model.modules[0].bounds[0].most -= 1;
  EXPECT_EQ(cut().tooLarge, "unit 'encoder': a part would have 8192 "
                            "image.patches, more than its bound of 8191");
  for (UnitPlan &unit : halves.plan.units) {
    unit.firstRank = halves.plan.ranks;
    halves.plan.ranks += unit.getRanks();
  }
  auto step = simulateStep(halves.costs, halves.plan, halves.batch);
  ASSERT_FALSE(bool(step));
  EXPECT_EQ(llvm::toString(step.takeError()), cut().tooLarge);
}

/// Of a module by samples what these hold counts, too.
TEST(Parts, SamplesKeepToTheBoundsOfTheirItems) {
  Halves halves(2);
  halves.batch.clear();
  for (int i = 0; i < 4; ++i) {
    halves.batch.push_back(Sample{512, {}});
    halves.batch.back().of(ItemKind::Image) = {i < 2 ? 1024 : 0};
  }
  halves.plan.microbatches = 2;
  halves.plan.micro = 1;
  halves.plan.reorder = Reorder::None;
  halves.plan.assign = Assign::Given;
  auto cut = [&] {
    return makeParts(halves.model, halves.plan, halves.batch,
                     halves.costs.items);
  };
  Module &backbone = halves.model.modules[1];
  backbone.bounds = {{ItemKind::Image, false, 1024, "image.patches"}};
  EXPECT_EQ(cut().tooLarge, "");
  backbone.bounds[0].most = 1023;
  EXPECT_EQ(cut().tooLarge, "unit 'llm': a part would have 1024 "
                            "image.patches, more than its bound of 1023");
}

/// Slices of a replica's share are runs of its items.
TEST(Parts, SlicesKeepToTheirBounds) {
  Halves halves(1);
  halves.batch.assign(2, Sample{512, {}});
  halves.batch[0].of(ItemKind::Image).assign({64, 1, 1, 64});
  halves.plan.microbatches = 1;
  halves.plan.micro = 1;
  halves.plan.units[0].sub = 2;
  halves.model.modules[0].bounds = {
      {ItemKind::Image, false, 65, "image.patches"}};
  auto cut = [&] {
    return makeParts(halves.model, halves.plan, halves.batch,
                     halves.costs.items);
  };
  EXPECT_EQ(cut().tooLarge, "");
  halves.batch[0].of(ItemKind::Image).assign({64, 64, 1, 1});
  EXPECT_EQ(cut().tooLarge, "unit 'encoder': a part would have 128 "
                            "image.patches, more than its bound of 65");
}

/// What grows with the other measure costs by that, in times and in bounds.
TEST(Parts, TheOtherMeasureIsOfItsOwn) {
  Halves halves(2);
  Module &encoder = halves.model.modules[0];
  encoder.mostTokens = encoder.mostOther = 4096;
  for (LayerKind &kind : encoder.kinds)
    for (auto ops : {&kind.forward, &kind.input, &kind.weight})
      for (Op &op : *ops)
        for (Linear *figure : {&op.rows, &op.flops, &op.bytes})
          *figure = {0, 0, 0, figure->token, 0, figure->square};
  Model plain = makeMultimodal(7);
  Costs costs(halves.cluster, halves.model), before(halves.cluster, plain);
  EXPECT_NEAR(double(costs.items[0].at(ItemSize(1, 2048))),
              double(before.items[0].at(ItemSize(2048))),
              1e-3 * double(before.items[0].at(ItemSize(2048))));
  EXPECT_EQ(costs.items[0].at(ItemSize(4096, 2048)),
            costs.items[0].at(ItemSize(1, 2048)));
  EXPECT_EQ(costs.get(0, 0).module({}, TokenSums::of(1, 512)).total(),
            before.get(0, 0).module({}, TokenSums::of(512)).total());
  // Large pictures are those of the other measure.
  halves.batch.assign(2, Sample{512, {}});
  halves.batch[0].of(ItemKind::Image) = {{4096, 1}, {4096, 1}};
  halves.batch[1].of(ItemKind::Image) = {{1, 4096}, {1, 4096}};
  halves.plan.microbatches = halves.plan.micro = 1;
  encoder.bounds = {{ItemKind::Image, true, 4097, "image.merged"}};
  Parts parts = makeParts(halves.model, halves.plan, halves.batch, costs.items);
  EXPECT_EQ(parts.tooLarge, "");
  EXPECT_EQ(parts.get(0, 0, 0).others, 4097);
  EXPECT_EQ(parts.get(0, 0, 1).others, 4097);
}

} // namespace
