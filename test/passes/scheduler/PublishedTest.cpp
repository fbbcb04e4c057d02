//===- PublishedTest.cpp - Against the zero-bubble authors' figures -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Stage times that Qi et al. measured, and how long the orders of their
// published sources take on them, in both definitions of time
// (data/zero_bubble.json). Times and bytes of our orders are counted anew.
//
//===----------------------------------------------------------------------===//

#include "test/passes/scheduler/Published.h"
#include "test/passes/scheduler/Chain.h"
#include "test/passes/scheduler/Run.h"

#include "passes/scheduler/search/Bound.h"

using namespace dt::scheduler;

namespace {

Recount search(const Pipeline &c, Objective objective) {
  SolveOptions options;
  options.communicate = false;
  options.objective = objective;
  Problem problem = c.makeProblem();
  auto solution = solve(problem, c.getOwn(), options);
  if (!solution)
    return {0, 0, 0, llvm::toString(solution.takeError())};
  return recount(c, *solution);
}

/// Orders without freedom take exactly as long as theirs.
TEST(Published, FixedOrdersAreEqual) {
  int count = 0;
  for (const Pipeline &c : readPublished(DT_PUBLISHED).cases) {
    if (c.isSearched())
      continue;
    Recount own = search(c, Objective::Wall);
    ASSERT_EQ(own.error, "") << c.getName();
    EXPECT_EQ(own.span, c.span) << c.getName();
    EXPECT_EQ(own.wall, c.wall) << c.getName();
    ++count;
  }
  EXPECT_EQ(count, 26);
}

/// Searched orders: within their memory no longer, in either definition,
/// searched for it, and never below what is proved.
void expectNoLonger(Objective objective) {
  int count = 0;
  for (const Pipeline &c : readPublished(DT_PUBLISHED).cases) {
    if (!c.isSearched())
      continue;
    Recount own = search(c, objective);
    ASSERT_EQ(own.error, "") << c.getName();
    EXPECT_LE(own.peak, c.memory) << c.getName();
    bool span = objective == Objective::Span;
    Time ours = span ? own.span : own.wall, theirs = span ? c.span : c.wall;
    EXPECT_LE(ours, theirs) << c.getName();
    EXPECT_GE(ours, c.getBound(objective)) << c.getName();
    ++count;
  }
  EXPECT_EQ(count, 134);
}
TEST(Published, SearchedOrdersAreNoLongerInWall) {
  expectNoLonger(Objective::Wall);
}
TEST(Published, SearchedOrdersAreNoLongerInSpan) {
  expectNoLonger(Objective::Span);
}

/// Instances small enough for a proof: the shortest possible span, or the
/// shortest that is known.
TEST(Published, SmallInstancesAreOptimal) {
  for (const Pipeline &c : readPublished(DT_PUBLISHED).small) {
    Recount own = search(c, Objective::Span);
    ASSERT_EQ(own.error, "") << c.getName();
    EXPECT_LE(own.peak, c.memory ? c.memory : own.peak) << c.getName();
    EXPECT_GE(own.span, c.bound) << c.getName();
    EXPECT_LE(own.span, c.span) << c.getName();
  }
}

/// The search's bound is what the formula says, and below proved optima.
TEST(Published, Bounds) {
  Published published = readPublished(DT_PUBLISHED);
  for (const Pipeline &c : published.small) {
    Problem problem = c.makeProblem();
    EXPECT_LE(
        getLowerBound(TaskGraph(problem), problem.memory, Objective::Span),
        c.span)
        << c.getName();
  }
  for (const Pipeline &c : published.cases) {
    Problem problem = c.makeProblem();
    if (c.isSearched() && c.chunks == 1)
      EXPECT_EQ(
          getLowerBound(TaskGraph(problem), problem.memory, Objective::Span),
          c.getBound(Objective::Span))
          << c.getName();
  }
}

/// Named limits are the problem's with p or 2p activations.
TEST(Published, RelativeMemory) {
  SolveOptions options;
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

} // namespace
