//===- LadderTest.cpp - What each idea brings over DistTrain's plan -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/passes/planner/Ladder.h"
#include "passes/planner/describe/Shipped.h"
#include "test/passes/planner/Clusters.h"

#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

/// What a rung has at least and at most of the speed of DistTrain's plan: a
/// change that makes plans worse, or the baseline weaker, is seen.
struct Bounds {
  double least, most;
};

void checkLadder(const char *data, int64_t samples,
                 std::vector<Bounds> expected) {
  Model model = llvm::cantFail(openModel("mllm-9b"));
  Cluster cluster = takeDevices("a800-80g", 48);
  Costs costs(cluster, model);
  std::vector<Sample> batch =
      drawBatch(*llvm::cantFail(openData(data)), 1, samples);
  auto rungs = climbLadder({costs, batch, 12});
  ASSERT_TRUE(bool(rungs)) << llvm::toString(rungs.takeError());
  ASSERT_EQ(rungs->size(), expected.size());
  double base = rungs->front().plan.predicted.step, before = base;
  for (size_t i = 0; i < rungs->size(); ++i) {
    const Prediction &predicted = (*rungs)[i].plan.predicted;
    double ratio = base / predicted.step;
    if (std::getenv("DT_PRINT"))
      std::printf("%-10s %-18s %8.3f s x%.3f\n", data, (*rungs)[i].idea,
                  predicted.step, ratio);
    EXPECT_LE(predicted.step, before) << (*rungs)[i].idea;
    EXPECT_GE(predicted.step, predicted.bound) << (*rungs)[i].idea;
    EXPECT_GE(ratio, expected[i].least) << (*rungs)[i].idea;
    EXPECT_LE(ratio, expected[i].most) << (*rungs)[i].idea;
    before = predicted.step;
  }
}

TEST(Ladder, Packed) {
  checkLadder(
      "packed", 96,
      {{1, 1}, {1, 1.1}, {1.03, 1.2}, {1.04, 1.2}, {1.04, 1.3}, {1.25, 1.5}});
}

TEST(Ladder, Documents) {
  checkLadder(
      "documents", 96,
      {{1, 1}, {1, 1.1}, {1.35, 1.65}, {1.6, 2}, {1.6, 2.2}, {2.1, 2.6}});
}

} // namespace
