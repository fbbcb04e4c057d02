//===- LinkPlanTest.cpp - which ranks speak together ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What can be counted by hand.
//
//===----------------------------------------------------------------------===//

#include "runtime/step/LinkPlan.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

using namespace dt::rt;
using small::SmallPlan;
using small::SmallProgram;

namespace {

PlannedGroups groupsOf(const SmallProgram &program, int rank) {
  Placement placement(program.info, rank, int(program.info.ranks.size));
  Ownership ownership(program.info, placement);
  return plannedGroups(planLinks(program.info), program.info, placement,
                       ownership);
}

} // namespace

TEST(LinkPlan, OneRankSpeaksToNobody) {
  SmallProgram program(6);
  LinkPlan plan = planLinks(program.info);
  EXPECT_EQ(plan.needs.directions(), 0);
  EXPECT_EQ(plan.needs.streams, 0);
  EXPECT_TRUE(groupsOf(program, 0).empty());
}

/// A tower, then two replicas of a head of two ranks each: of the three axes
/// that two ranks and their replicas could have there is the head's.
TEST(LinkPlan, AxesThatOccur) {
  SmallProgram program(6, SmallPlan{1, 2, 2});
  LinkPlan plan = planLinks(program.info);
  std::set<std::pair<int, int>> forward, back;
  for (int head = 1; head < 5; ++head)
    forward.insert({0, head}), back.insert({head, 0});
  EXPECT_EQ(plan.needs.messages[0], forward);
  EXPECT_EQ(plan.needs.messages[1], back);
  EXPECT_TRUE(plan.modules[0].axes.empty());
  EXPECT_EQ(plan.modules[1].axes, (Axes{{2, 1}}));
  EXPECT_FALSE(plan.modules[0].gathers);
  EXPECT_TRUE(plan.modules[1].gathers);
  EXPECT_FALSE(plan.modules[0].reduces);
  EXPECT_TRUE(plan.modules[1].reduces);
  // The head's ranks: the compute stream, one beside it, one of gradients.
  EXPECT_EQ(plan.needs.streams, 3);
  std::vector<int> all{0, 1, 2, 3, 4};
  EXPECT_EQ(groupsOf(program, 0), (PlannedGroups{{"scalars", all}}));
  EXPECT_EQ(groupsOf(program, 3),
            (PlannedGroups{
                {"scalars", all}, {"", {3, 4}}, {"gradients head", {1, 3}}}));
}

TEST(LinkPlan, WhatNoCollectiveSaysIsNotMade) {
  SmallProgram program(6, SmallPlan{1, 1, 2});
  program.info.collectives = {};
  for (ParameterInfo &parameter : program.parameters)
    parameter.partial = {};
  EXPECT_TRUE(planLinks(program.info).modules[1].axes.empty());
}

/// A quarter of the device stays for what computes.
TEST(LinkPlan, RoomForKernels) {
  auto of = [](int streams, bool messages, int multiprocessors) {
    LinkNeeds needs{{}, streams};
    if (messages)
      needs.messages[0] = {{0, 1}}, needs.messages[1] = {{1, 0}};
    LinkShares shares = sharesFor(needs, multiprocessors);
    EXPECT_LE(4 * shares.sum(needs), 3 * multiprocessors);
    return shares.collectives;
  };
  EXPECT_EQ(of(3, false, 132), 32); // 96 of 99
  EXPECT_EQ(of(3, true, 132), 16);  // 48 + 8
  EXPECT_EQ(of(6, true, 132), 8);
  EXPECT_EQ(of(3, true, 16), 1);
  LinkNeeds many{{{{0, 1}}, {{1, 0}}}, 5};
  EXPECT_EQ(sharesFor(many, 16).collectives, 0);
}
