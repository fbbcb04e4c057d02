//===- PublishedTest.cpp - Against the zero-bubble authors' figures -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Stage times that Qi et al. measured, and how long the schedules of their
// published sources take on them, in both definitions of time. Activations: F
// adds 37, the input gradient frees 21, the weight gradient 16 (hidden size and
// sequence length of their models); the limit of "ZB-1p" is p times 37.
//
//===----------------------------------------------------------------------===//

#include "test/passes/schedule/Chain.h"

#include "passes/schedule/Communicate.h"

using namespace dt::schedule;

namespace {

struct Case {
  const char *schedule;
  int stages, microbatches;
  Times times;
  int chunks;
  bool v;
  Bytes memory; ///< 0: the schedule takes no limit
  Time span, wall;
};

Problem makeProblem(const Case &c) {
  Problem problem = makeChain(c.stages, c.microbatches, c.times, c.chunks, c.v);
  if (c.memory)
    problem.memory.assign(problem.ranks, c.memory);
  return problem;
}

/// Orders without freedom take exactly as long as theirs.
TEST(Published, FixedOrdersAreEqual) {
  const Case cases[] = {
      {"1f1b", 8, 24, {10, 10, 10, 0}, 1, false, 0, 930, 930},
      {"1f1b",
       8,
       32,
       {29802, 29428, 19530, 577},
       1,
       false,
       0,
       3110876,
       3110876},
      {"1f1b",
       32,
       256,
       {10402, 10248, 7698, 460},
       1,
       false,
       0,
       8391636,
       8391636},
      {"zb-h1", 8, 24, {10, 10, 10, 0}, 1, false, 0, 790, 790},
      {"zb-h1",
       8,
       32,
       {29802, 29428, 19530, 577},
       1,
       false,
       0,
       2814376,
       2814376},
      {"zb-h1",
       32,
       256,
       {10402, 10248, 7698, 460},
       1,
       false,
       0,
       7715640,
       7715640},
      {"zb-h2", 8, 24, {10, 10, 10, 0}, 1, false, 0, 720, 790},
      {"zb-h2",
       8,
       32,
       {29802, 29428, 19530, 577},
       1,
       false,
       0,
       2669588,
       2732973},
      {"zb-h2",
       32,
       256,
       {10402, 10248, 7698, 460},
       1,
       false,
       0,
       7448482,
       7593810},
      // Times a twelfth of a microsecond; with the wrap-around.
      {"interleaved",
       8,
       32,
       {89406, 146874, 0, 6924},
       4,
       false,
       0,
       32327088,
       32327088},
      {"interleaved",
       16,
       48,
       {45388, 77520, 0, 4524},
       3,
       false,
       0,
       19967628,
       19967628},
      {"interleaved",
       32,
       256,
       {62412, 107676, 0, 5520},
       2,
       false,
       0,
       93053304,
       93053304},
  };
  for (const Case &c : cases) {
    Timeline timeline = run(makeProblem(c), c.schedule);
    EXPECT_EQ(timeline.longestSpan, c.span) << c.schedule << " " << c.stages;
    EXPECT_EQ(timeline.wall, c.wall) << c.schedule << " " << c.stages;
  }
}

/// Searched orders: no longer in wall time, which is what a step with gradient
/// clipping takes. `span`: the same in the papers' definition, searched for it.
void expectNoLonger(const Case &c, bool span) {
  Options options;
  options.communicate = false;
  Problem problem = makeProblem(c);
  Graph graph(problem);
  for (Objective objective : {Objective::Wall, Objective::Span}) {
    if (objective == Objective::Span && !span)
      continue;
    options.objective = objective;
    auto solution = solve(problem, c.schedule, options);
    ASSERT_TRUE(bool(solution)) << llvm::toString(solution.takeError());
    EXPECT_EQ(llvm::toString(checkMemory(graph, *solution)), "");
    auto timeline = evaluate(graph, *solution);
    ASSERT_TRUE(bool(timeline)) << llvm::toString(timeline.takeError());
    if (objective == Objective::Wall)
      EXPECT_LE(timeline->wall, c.wall)
          << c.stages << " " << c.microbatches << " " << c.memory;
    else
      EXPECT_LE(timeline->longestSpan, c.span)
          << c.stages << " " << c.microbatches << " " << c.memory;
  }
}

TEST(Published, SearchedOrdersAreNoLonger) {
  const Case both[] = {
      {"zb", 8, 24, {10, 10, 10, 0}, 1, false, 296, 790, 790},
      {"zb", 8, 24, {10, 10, 10, 0}, 1, false, 592, 720, 790},
      {"zb", 8, 24, {10, 10, 10, 0}, 2, true, 592, 1440, 1510},
      {"zb",
       8,
       32,
       {29802, 29428, 19530, 577},
       1,
       false,
       296,
       2814376,
       2814376},
      {"zb",
       8,
       32,
       {29802, 29428, 19530, 577},
       1,
       false,
       370,
       2694014,
       2744031},
      {"zb",
       8,
       32,
       {29802, 29428, 19530, 577},
       1,
       false,
       592,
       2525780,
       2732973},
      {"zb",
       32,
       256,
       {10402, 10248, 7698, 460},
       1,
       false,
       1184,
       7715640,
       7715640},
  };
  for (const Case &c : both)
    expectNoLonger(c, /*span=*/true);
  const Case wall[] = {
      {"zb", 8, 32, {29802, 29428, 19530, 577}, 1, false, 444, 0, 2769902},
      {"zb", 32, 256, {10402, 10248, 7698, 460}, 1, false, 2368, 0, 7593810},
      {"zb", 16, 48, {14407, 14380, 9676, 1610}, 2, true, 1184, 0, 4029303},
  };
  for (const Case &c : wall)
    expectNoLonger(c, /*span=*/false);
}

/// Named limits are the problem's with p or 2p activations.
TEST(Published, RelativeMemory) {
  Options options;
  options.communicate = false;
  Times times{29802, 29428, 19530, 577};
  Problem problem = makeChain(8, 32, times);
  EXPECT_LE(run(problem, "zb-1p", options).wall, 2814376);
  EXPECT_LE(run(problem, "zb-1p", options).peak[0], 8 * 37);
  EXPECT_LE(run(problem, "zb-2p", options).wall, 2732973);
  EXPECT_LE(run(problem, "zb-2p", options).peak[0], 16 * 37);
  Problem v = makeChain(8, 24, {10, 10, 10, 0}, 2, true);
  EXPECT_LE(run(v, "zb-v", options).wall, 1510);
  EXPECT_LE(run(v, "zb-v", options).peak[0], 16 * 37);
}

struct Small {
  int stages, microbatches;
  Times times;
  Bytes memory;
  Time optimum;
};

/// Instances small enough for a proof (activations: F adds 2, both gradients
/// free 1): the shortest possible span.
TEST(Published, SmallInstancesAreOptimal) {
  const Small cases[] = {
      {2, 4, {5, 6, 4, 0}, 4, 67},    {2, 4, {5, 6, 4, 0}, 6, 61},
      {2, 6, {5, 6, 4, 1}, 4, 101},   {2, 6, {5, 6, 4, 1}, 8, 90},
      {3, 4, {1, 1, 1, 0}, 6, 14},    {3, 6, {5, 6, 4, 0}, 6, 104},
      {3, 6, {5, 6, 4, 0}, 9, 97},    {3, 6, {10, 7, 3, 1}, 9, 143},
      {4, 4, {5, 6, 4, 0}, 8, 81},    {4, 6, {5, 6, 4, 0}, 8, 111},
      {4, 6, {5, 6, 4, 1}, 8, 123},   {4, 6, {5, 6, 4, 1}, 12, 109},
      {4, 8, {1, 1, 1, 0}, 16, 24},   {4, 8, {5, 6, 4, 1}, 16, 131},
      {4, 12, {5, 6, 4, 0}, 12, 188}, {5, 10, {5, 6, 4, 1}, 20, 166},
  };
  Options options;
  options.communicate = false;
  options.objective = Objective::Span;
  for (const Small &c : cases) {
    Problem problem = makeChain(c.stages, c.microbatches, c.times);
    for (Stage &stage : problem.stages) {
      stage.activation = 2;
      stage.weightActivation = 1;
    }
    problem.memory.assign(problem.ranks, c.memory);
    EXPECT_EQ(run(problem, "zb", options).longestSpan, c.optimum)
        << c.stages << " " << c.microbatches << " " << c.memory;
  }
}

} // namespace
