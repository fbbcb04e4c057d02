//===- schedule-bench.cpp - Schedules beside published ones ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Prints the table of `tools/bench schedules`: on the zero-bubble authors'
// pipelines, at equal memory, how long their orders take and ours, in both
// definitions of time, each searched for its own; what no order goes below;
// and the search's thread CPU time. Then what little effort finds in little
// memory.
//
//===----------------------------------------------------------------------===//

#include "test/passes/scheduler/Published.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>

using namespace dt::scheduler;

namespace {

double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

struct Tally {
  int shorter = 0, equal = 0, longer = 0, atBound = 0, count = 0;
  double worst = 0, best = 0, most = 0, total = 0;

  void add(Time theirs, Time ours, Time bound, double seconds) {
    ++count;
    ++(ours < theirs ? shorter : ours == theirs ? equal : longer);
    atBound += ours == bound;
    double change = 100 * (double(ours) / double(theirs) - 1);
    worst = std::max(worst, change);
    best = std::min(best, change);
    most = std::max(most, seconds);
    total += seconds;
  }
  void print(const char *name) const {
    std::printf("%s: %d shorter (at most by %.2f %%), %d equal, %d longer (at "
                "most by %.2f %%); %d at the bound; %.1f ms on average, at "
                "most %.1f\n",
                name, shorter, best < 0 ? -best : 0.0, equal, longer, worst,
                atBound, 1e3 * total / count, 1e3 * most);
  }
};

struct Row {
  Recount count;
  double seconds = 0;
};

Row solve(const Pipeline &pipeline, Objective objective, int64_t effort = 0) {
  SolveOptions options;
  options.effort = effort;
  options.objective = objective;
  options.communicate = false;
  Row row;
  Problem problem = pipeline.makeProblem();
  double begin = now();
  auto solution = dt::scheduler::solve(problem, pipeline.getOwn(), options);
  row.seconds = now() - begin;
  if (!solution) {
    row.count.error = llvm::toString(solution.takeError());
    return row;
  }
  row.count = recount(pipeline, *solution);
  if (row.count.peak > pipeline.memory && pipeline.memory &&
      pipeline.isSearched())
    row.count.error = "holds more than the bound";
  return row;
}

void print(const Pipeline &c, Objective objective, const Row &row,
           Tally &tally) {
  bool span = objective == Objective::Span;
  Time theirs = span ? c.span : c.wall,
       ours = span ? row.count.span : row.count.wall,
       bound = c.getBound(objective);
  if (!row.count.error.empty()) {
    std::printf("%s: %s\n", c.getName().c_str(), row.count.error.c_str());
    return;
  }
  tally.add(theirs, ours, bound, row.seconds);
  std::printf("%-11s %-16s %2d %3d  %s %10lld %10lld %+7.2f %%  %10lld %+6.2f "
              "%%  %6.1f %6.1f  %6.1f\n",
              c.set.c_str(), c.schedule.c_str(), c.ranks, c.microbatches,
              span ? "span" : "wall", (long long)theirs, (long long)ours,
              100 * (double(ours) / double(theirs) - 1), (long long)bound,
              100 * (double(ours) / double(bound) - 1),
              double(c.memory) / double(c.activation),
              double(row.count.peak) / double(c.activation), 1e3 * row.seconds);
}

/// Stages there and back in less memory than 1F1B takes: the step over the
/// bound (of work and the way to the last rank) with the planner's effort for
/// one of thousands of plans, and with a search's own.
void printTight() {
  std::printf("\nthere and back, n 64, wall over the bound   little effort     "
              "        ms   own effort             ms\n");
  for (int ranks : {8, 16, 32})
    for (Time shift : {0, 15})
      for (int percent : {40, 50, 67}) {
        Pipeline c;
        c.schedule = "V";
        c.ranks = ranks;
        c.microbatches = 64;
        c.forward = 100;
        c.input = 100 + shift;
        c.weight = 100 - shift;
        c.chunks = 2;
        c.v = true;
        c.activation = 2;
        c.weightActivation = 1;
        c.memory = 2 * ranks * c.activation * percent / 100;
        std::printf("p %2d  F B W %lld %lld %3lld  memory %.2f of 1F1B's ",
                    ranks, (long long)c.forward, (long long)c.input,
                    (long long)c.weight, percent / 100.0);
        for (int64_t effort : {16000, 0}) {
          Row row = solve(c, Objective::Wall, effort);
          if (row.count.error.empty())
            std::printf("  %+10.1f %%  %12.2f",
                        100 * (double(row.count.wall) /
                                   double(c.getBound(Objective::Wall)) -
                               1),
                        1e3 * row.seconds);
          else
            std::printf("  %s", row.count.error.c_str());
        }
        std::printf("\n");
      }
}

} // namespace

int main() {
  if (!std::ifstream(DT_PUBLISHED)) {
    std::fprintf(stderr, "%s: cannot be read\n", DT_PUBLISHED);
    return 1;
  }
  Published published = readPublished(DT_PUBLISHED);
  std::printf(
      "set         schedule          p   n  time     theirs       ours  "
      "  change       bound   above  memory   peak      ms\n");
  Tally wall, span, fixedWall, fixedSpan, small;
  for (const Pipeline &c : published.cases)
    for (Objective objective : {Objective::Wall, Objective::Span}) {
      bool isWall = objective == Objective::Wall;
      print(c, objective, solve(c, objective),
            c.isSearched() ? (isWall ? wall : span)
                           : (isWall ? fixedWall : fixedSpan));
    }
  for (const Pipeline &c : published.small)
    print(c, Objective::Span, solve(c, Objective::Span), small);
  wall.print("searched, wall");
  span.print("searched, span");
  fixedWall.print("fixed orders, wall");
  fixedSpan.print("fixed orders, span");
  small.print("small ones beside the best known, span");
  printTight();
  return 0;
}
