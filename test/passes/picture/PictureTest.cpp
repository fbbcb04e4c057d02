//===- PictureTest.cpp - Figures, texts and rows of pictures --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/picture/Devices.h"
#include "passes/picture/Lanes.h"
#include "passes/picture/Markup.h"
#include "passes/picture/Units.h"
#include "passes/scheduler/core/Schedule.h"

#include <gtest/gtest.h>

using namespace dt;
using namespace dt::picture;

namespace {

TEST(Units, HaveThreeDigits) {
  EXPECT_EQ(printTime(0), "0 s");
  EXPECT_EQ(printTime(4.191e-3), "4.19 ms");
  EXPECT_EQ(printTime(33.918), "33.9 s");
  EXPECT_EQ(printTime(1e-9), "1.00 ns");
  EXPECT_EQ(printTime(704e-6), "704 \u00b5s");
  EXPECT_EQ(printBytes(0), "0 B");
  EXPECT_EQ(printBytes(1536), "1.50 KiB");
  EXPECT_EQ(printBytes(76.0 * (1 << 30)), "76.0 GiB");
  EXPECT_EQ(printCount(7), "7");
  EXPECT_EQ(printCount(6116288), "6.12 M");
  EXPECT_EQ(printShare(0.0512), "5.1 %");
  EXPECT_EQ(printRanges({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
}

/// What rounds to the next unit is in the next unit.
TEST(Units, RoundUpwards) {
  EXPECT_EQ(printTime(0.99996), "1.00 s");
  EXPECT_EQ(printTime(99.96e-3), "100 ms");
  EXPECT_EQ(printBytes(1023.9), "1.00 KiB");
}

TEST(Units, TicksAreRoundAndFew) {
  for (double end : {0.37, 1.0, 7.0, 703.7, 1e6}) {
    Ticks ticks = getTicks(end, 10);
    EXPECT_LE(end / ticks.step, 10.1) << end;
    EXPECT_GE(end / ticks.step, 3.5) << end;
  }
  EXPECT_EQ(getTicks(7, 10).print(1), "1");
  EXPECT_EQ(getTicks(0.37, 10).print(0.05), "0.05");
  EXPECT_EQ(getTicks(0, 10).step, 1);
}

TEST(Markup, EscapesAnyBytes) {
  EXPECT_EQ(escape("a<b>&\"c"), "a&lt;b&gt;&amp;&quot;c");
  EXPECT_EQ(escape(llvm::StringRef("x\0\x1b y", 5)), "x   y");
  EXPECT_EQ(escape("\xff"), "\xef\xbf\xbd");         // no UTF-8
  EXPECT_EQ(escape("\xef\xbf\xbf"), "\xef\xbf\xbd"); // no character
}

TEST(Markup, TextsFit) {
  std::string name(200, 'x');
  std::string fitted = fitText(name, 100, 12);
  EXPECT_LE(getTextWidth(fitted, 12), 100);
  EXPECT_GT(getTextWidth(fitted, 12), 80);
  EXPECT_EQ(fitText("short", 100, 12), "short");
  // Characters stay whole.
  std::string wide;
  for (int i = 0; i < 50; ++i)
    wide += "\u00e9";
  EXPECT_EQ(fitText(wide, 60, 12).size() % 2, 1u) << "an ellipsis has 3 bytes";
}

/// Two replicas that do the same and one that is slower.
TEST(Lanes, AreOneForRanksThatDoTheSame) {
  scheduler::Problem problem;
  problem.units = {{"m", 0}};
  scheduler::Stage stage;
  stage.name = "m.0";
  stage.replicas = {{0}, {1}, {2}};
  stage.forward = std::vector<int64_t>{10, 10, 12};
  stage.input = 5;
  stage.weight = 5;
  problem.stages = {stage};
  problem.ranks = 3;
  problem.microbatches = 1;
  scheduler::TaskGraph graph(problem);
  auto solution = scheduler::solve(graph, "1f1b");
  ASSERT_TRUE(bool(solution)) << llvm::toString(solution.takeError());
  auto timeline = scheduler::evaluate(graph, *solution);
  ASSERT_TRUE(bool(timeline)) << llvm::toString(timeline.takeError());
  TimelineChart chart = makeChart(graph, *solution, *timeline, "t");
  ASSERT_EQ(chart.lanes.size(), 2u);
  EXPECT_EQ(chart.lanes[0].ranks, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(chart.lanes[1].ranks, (std::vector<int64_t>{2}));
  EXPECT_EQ(chart.lanes[1].runs, "m.0 (replica 2 of 3)");
  EXPECT_EQ(chart.lanes[0].runs, "m.0");
  EXPECT_EQ(chart.units, (std::vector<std::string>{"m.0"}));
  // A rank of the problem that stands for several.
  chart = makeChart(graph, *solution, *timeline, "t", {{0, 1}, {2, 3}, {4}},
                    /*folded=*/true);
  EXPECT_EQ(chart.lanes[0].ranks, (std::vector<int64_t>{0, 1, 2, 3}));
}

/// Every rank is drawn once, whatever the scale.
TEST(Devices, DrawEveryRank) {
  for (int64_t ranks : {1, 8, 96, 1296, 10000}) {
    DeviceBlock block;
    block.name = "llm";
    block.replicas = ranks;
    for (int64_t rank = 0; rank < ranks; ++rank)
      block.ranks.push_back(rank);
    std::string text;
    llvm::raw_string_ostream os(text);
    drawDevices(os, {block});
    size_t count = 0;
    for (size_t at = 0; (at = text.find("<title>rank ", at)) != text.npos; ++at)
      ++count;
    EXPECT_EQ(count, size_t(ranks));
  }
}

} // namespace
