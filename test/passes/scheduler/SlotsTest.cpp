//===- SlotsTest.cpp - room of an order of tasks --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/core/Footprint.h"

#include <gtest/gtest.h>

using namespace dt::scheduler;

namespace {

/// One stage: a microbatch keeps 100 bytes, of which 40 until its last task,
/// and its input gradient makes 7.
struct OneStage {
  OneStage() {
    problem.ranks = 1;
    problem.microbatches = 3;
    problem.units = {{"u"}};
    Stage &stage = problem.stages.emplace_back();
    stage.name = "u";
    stage.replicas = {{0}};
    stage.activation = 100;
    stage.weightActivation = 47;
    stage.late = 7;
  }
  /// "F0 I0 W0".
  Bytes room(llvm::StringRef text) const {
    std::vector<Task> tasks;
    llvm::SmallVector<llvm::StringRef> words;
    text.split(words, ' ');
    for (llvm::StringRef word : words)
      tasks.push_back({word[0] == 'F'   ? Kind::Forward
                       : word[0] == 'I' ? Kind::Input
                       : word[0] == 'W' ? Kind::Weight
                                        : Kind::Backward,
                       0, word[1] - '0'});
    TaskGraph graph(problem);
    Footprint meter(graph);
    Bytes room = getFootprints(graph, meter, 0, tasks).front();
    EXPECT_EQ(getMostHeld(graph, {{tasks}, {}}).front(), room);
    return room;
  }
  Problem problem;
};

TEST(Slots, RoomIsOfEachKindForItself) {
  OneStage one;
  // 60 early, 40 whole, 7 late.
  EXPECT_EQ(one.room("F0 I0 W0 F1 I1 W1 F2 I2 W2"), 60 + 40 + 7);
  // Early slots are free after I, the others wait for W.
  EXPECT_EQ(one.room("F0 I0 F1 I1 F2 I2 W0 W1 W2"), 60 + 3 * 40 + 3 * 7);
  EXPECT_EQ(one.room("F0 F1 I0 F2 I1 W0 I2 W1 W2"), 2 * 60 + 3 * 40 + 2 * 7);
  // In one piece nothing waits.
  EXPECT_EQ(one.room("F0 F1 B0 F2 B1 B2"), 2 * 100 + 7);
}

TEST(Slots, WithoutWeightsOrBackward) {
  OneStage one;
  one.problem.stages[0].hasWeight = false;
  EXPECT_EQ(one.room("F0 F1 I0 F2 I1 I2"), 200);
  one.problem.stages[0].hasBackward = false;
  EXPECT_EQ(one.room("F0 F1 F2"), 0);
}

} // namespace
