//===- ClosedFormTest.cpp - Schedules whose times are formulas ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/passes/scheduler/Chain.h"
#include "test/passes/scheduler/Run.h"

using namespace dt::scheduler;

namespace {

const Times kSets[] = {
    {10, 10, 10, 0}, {5, 6, 4, 1}, {29802, 29428, 19530, 577}, {0, 3, 0, 7}};

TEST(ClosedForm, GPipe) {
  for (Times t : kSets)
    for (int p : {1, 2, 4, 8})
      for (int n : {1, 3, 8, 24}) {
        Timeline timeline = run(makeChain(p, n, t), "gpipe");
        Time full = t.forward + t.input + t.weight;
        EXPECT_EQ(timeline.wall, (n + p - 1) * full + 2 * (p - 1) * t.latency);
        EXPECT_EQ(timeline.peak[0], 37 * n);
      }
}

TEST(ClosedForm, OneFOneB) {
  for (int p : {1, 2, 4, 8})
    for (int n : {8, 24, 32}) {
      Times t{10, 12, 8, 0};
      Timeline timeline = run(makeChain(p, n, t), "1f1b");
      EXPECT_EQ(timeline.wall, (n + p - 1) * 30);
      for (int rank = 0; rank < p; ++rank)
        EXPECT_EQ(timeline.peak[rank], 37 * (p - rank));
    }
}

/// With latency a round trip stands between the forward that a backward of
/// the next stage makes room for; measured sets of the zero-bubble authors.
TEST(ClosedForm, OneFOneBWithLatency) {
  EXPECT_EQ(run(makeChain(8, 32, {29802, 29428, 19530, 577}), "1f1b").wall,
            3110876);
  EXPECT_EQ(run(makeChain(32, 256, {10402, 10248, 7698, 460}), "1f1b").wall,
            8391636);
}

/// Equal tasks, two stages a rank: one task for every rank that fills, and
/// activations of 2p + 1 stages.
TEST(ClosedForm, DualPipeV) {
  for (int p : {1, 2, 4, 8})
    for (int n : {16, 24, 64}) {
      Timeline timeline =
          run(makeChain(p, n, {10, 10, 10, 0}, 2, true), "dualpipe-v");
      EXPECT_EQ(timeline.wall, 60 * n + 10 * (p - 1));
      for (Bytes peak : timeline.peak)
        EXPECT_EQ(peak, 37 * (2 * p + 1));
    }
}

TEST(ClosedForm, RunAheadAddsMicrobatches) {
  Problem problem = makeChain(4, 8, {10, 12, 8, 0});
  problem.units[0].runAhead = 1;
  Timeline timeline = run(problem, "1f1b");
  EXPECT_GE(timeline.peak[3], 37 * 2);
  EXPECT_EQ(timeline.wall, (8 + 3) * 30);
}

} // namespace
