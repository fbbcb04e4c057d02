//===- BalanceTest.cpp - how work is evened out over replicas and time ----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Shares follow how fast replicas are and what items cost; reordering keeps the
// samples of a step and evens the work.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Chain.h"

#include "runtime/data/PartGroups.h"

using namespace dt;
using namespace dt::rt;
using namespace dt::test;

namespace {

TEST(Assignment, SharesFollowSpeeds) {
  Chain program(8, 8, 3, 2, 1);
  static constexpr int32_t kVision[] = {1, 3, 2}, kModel[] = {3, 1};
  program.modules[0].info.speeds = kVision;
  program.modules[1].info.speeds = kModel;
  program.finish();
  StepItems items = stepItems(8, {kindOf("image", {3, 0, 3, 1, 0, 2, 3, 0}),
                                  kindOf("target", {1, 0, 0, 0, 0, 0, 0, 0})});
  for (Reorder mode : kModes) {
    Assignment a = Assigner(program.info, mode).assign(items);
    // Contiguous, as many as the replica is fast.
    EXPECT_EQ(a.part(0, 0, 0).symbols[0], range(0, 2));
    EXPECT_EQ(a.part(0, 0, 1).symbols[0], range(2, 8));
    EXPECT_EQ(a.part(0, 0, 2).symbols[0], range(8, 12));
    EXPECT_EQ(a.part(1, 0, 0).symbols[0], range(0, 6));
    EXPECT_EQ(a.part(1, 0, 1).symbols[0], range(6, 8));
    EXPECT_EQ(a.part(2, 0, 0).symbols[0], range(0, 1));
    // All are done at the same time.
    EXPECT_EQ(a.balance[0].after, 1);
    EXPECT_EQ(a.balance[1].after, 1);
  }
  // By cost where items differ in it: a sample with images costs more.
  program.modules[1].symbols[1].cost = 10;
  program.finish();
  Assignment a = Assigner(program.info, Reorder::Intra).assign(items);
  double cost[2];
  for (int r : {0, 1})
    cost[r] = double(a.part(1, 0, r).symbols[0].size()) +
              10.0 * double(a.part(1, 0, r).symbols[1].size());
  EXPECT_NEAR(cost[0] / cost[1], 3, 0.3);
  EXPECT_EQ(joined(a, 1), range(0, 8));
}

/// Replicas of equal number share samples only if they are equally fast.
TEST(Assignment, UnequalSpeedsCutForThemselves) {
  TestProgram program(6, 6);
  program.add("a", "sample", 2, 1000);
  program.add("b", "sample", 2, 1000);
  program.edge(0, 1);
  EXPECT_EQ(partGroups(program.finish()).size(), 1u);
  static constexpr int32_t kSpeeds[] = {2, 1};
  program.modules[1].info.speeds = kSpeeds;
  program.finish();
  EXPECT_EQ(partGroups(program.info).size(), 2u);
  Assignment a = Assigner(program.info, Reorder::None).assign(stepItems(6, {}));
  EXPECT_EQ(a.part(0, 0, 0).symbols[0], range(0, 3));
  EXPECT_EQ(a.part(1, 0, 0).symbols[0], range(0, 4));
}

/// Samples cost what they and their images do; images are all alike.
TEST(Assignment, IntraEvensTheWorkWithinBounds) {
  Chain program(8, 8, 2, 4, 1, 16);
  program.modules[1].symbols[0].max = 3;
  program.modules[1].symbols[0].cost = 1;
  program.modules[1].symbols[1].cost = 10;
  program.finish();
  // The first samples have the images: a contiguous cut puts them together.
  StepItems items = stepItems(8, {kindOf("image", {3, 3, 3, 3, 0, 0, 0, 0}),
                                  kindOf("target", {0, 0, 0, 0, 0, 0, 0, 0})});
  Assignment given = Assigner(program.info, Reorder::None).assign(items),
             even = Assigner(program.info, Reorder::Intra).assign(items);
  EXPECT_DOUBLE_EQ(given.balance[1].after, given.balance[1].before);
  EXPECT_GT(given.balance[1].after, 1.9);
  EXPECT_DOUBLE_EQ(even.balance[1].before, given.balance[1].before);
  EXPECT_LT(even.balance[1].after, 1.01);
  EXPECT_EQ(even.microbatches, given.microbatches);
  for (int r = 0; r < 4; ++r) {
    EXPECT_LE(even.part(1, 0, r).symbols[0].size(), 3u);
    EXPECT_EQ(even.part(1, 0, r).symbols[1].size(), 3u);
  }
  EXPECT_EQ(joined(even, 1), range(0, 8));
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(even.part(0, 0, r).symbols, given.part(0, 0, r).symbols);
}

TEST(Assignment, InterShortensTheSchedule) {
  Chain program(12, 2, 1, 1, 1);
  program.modules[0].symbols[0].cost = 1000;
  program.modules[1].symbols[0].cost = 1500;
  program.modules[2].symbols[0].cost = 10;
  program.finish();
  // Samples with many images come in pairs.
  StepItems items =
      stepItems(12, {kindOf("image", {5, 5, 0, 0, 5, 5, 0, 0, 5, 5, 0, 0}),
                     kindOf("target", Counts(12, 1))});
  Assignment a = Assigner(program.info, Reorder::Inter).assign(items);
  EXPECT_GT(a.lengthBefore, 0);
  EXPECT_LT(a.lengthAfter, 0.9 * a.lengthBefore);
  EXPECT_EQ(joined(a, 0), range(0, 30));
  // Where ten images in a microbatch are too many, others come together.
  program.modules[0].symbols[0].max = 5;
  program.finish();
  EXPECT_ERROR(Assigner(program.info, Reorder::Intra).assign(items),
               "is 10 in microbatch 0");
  a = Assigner(program.info, Reorder::Inter).assign(items);
  for (const auto &replicas : a.modules[0])
    EXPECT_EQ(replicas[0].symbols[0].size(), 5u);
}

TEST(Assignment, SchedulesThatWaitInACircleAreLeftAlone) {
  Chain program(4, 1, 1, 1, 1);
  std::swap(program.rows[0].front(), program.rows[0].back());
  program.finish();
  StepItems items = stepItems(
      4, {kindOf("image", {1, 3, 1, 1}), kindOf("target", {0, 0, 0, 0})});
  Assignment a = Assigner(program.info, Reorder::Inter).assign(items);
  EXPECT_EQ(a.lengthAfter, 0);
  EXPECT_EQ(joined(a, 0), range(0, 6));
}

} // namespace
