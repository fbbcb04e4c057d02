//===- Spans.cpp - Tasks that serve several microbatches ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Spans.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace dt::scheduler {

bool hasSpans(const Problem &problem) {
  return llvm::any_of(problem.units,
                      [](const Unit &unit) { return unit.span > 1; });
}

namespace {

/// Microbatches of the stage's task that serves this one.
int countServed(const Problem &problem, int stage, int microbatch) {
  return std::min(problem.getSpan(stage),
                  problem.microbatches - problem.getFirst(stage, microbatch));
}

/// Shares of what tasks take, rounded up so that none is nothing.
void share(const Problem &problem, int stage, Table &table) {
  int n = problem.microbatches;
  if (table.values.size() == 1) {
    int span = problem.getSpan(stage);
    table.values[0] = (table.values[0] + span - 1) / span;
    return;
  }
  int replicas = int(problem.stages[stage].replicas.size());
  std::vector<int64_t> shares(size_t(n) * replicas);
  for (int k = 0; k < n; ++k)
    for (int r = 0; r < replicas; ++r) {
      int served = countServed(problem, stage, k);
      shares[size_t(k) * replicas + r] =
          (table.at(problem.getFirst(stage, k), r, n, replicas) + served - 1) /
          served;
    }
  table.values = std::move(shares);
}

/// A message to one microbatch of a task is one to each.
void spread(const Problem &problem, Edge &edge) {
  std::vector<Route> routes;
  for (const Route &route : edge.routes) {
    int served = route.microbatch < 0
                     ? 1
                     : countServed(problem, edge.to, route.microbatch);
    for (int i = 0; i < served; ++i) {
      routes.push_back(route);
      if (route.microbatch >= 0)
        routes.back().microbatch =
            problem.getFirst(edge.to, route.microbatch) + i;
    }
  }
  edge.routes = std::move(routes);
}

/// One rank's list.
class Joiner {
public:
  Joiner(const Problem &problem, const std::vector<Task> &single)
      : problem(problem), single(single) {
    for (const Task &task : single)
      if (task.kind == Kind::Input)
        of(task).split = true;
  }

  std::vector<Task> run() {
    for (const Task &task : single) {
      if (problem.getSpan(task.stage) == 1)
        joined.push_back(task);
      else
        join(task);
    }
    return std::move(joined);
  }

private:
  struct Seen {
    int forwards = 0, gradients = 0, weights = 0;
    bool split = false; ///< in one of the microbatches at least
  };

  Seen &of(const Task &task) {
    return seen[{task.stage, task.replica,
                 problem.getFirst(task.stage, task.microbatch)}];
  }
  void add(const Task &task, Kind kind) {
    joined.push_back({kind, task.stage,
                      problem.getFirst(task.stage, task.microbatch),
                      task.replica});
  }
  void join(const Task &task) {
    Seen &all = of(task);
    int count = countServed(problem, task.stage, task.microbatch);
    if (task.kind == Kind::Forward) {
      if (all.forwards++ == 0)
        add(task, Kind::Forward);
      return;
    }
    if (task.kind != Kind::Weight && ++all.gradients == count)
      add(task, all.split ? Kind::Input : Kind::Backward);
    if (task.kind != Kind::Input && ++all.weights == count && all.split)
      add(task, Kind::Weight);
  }

  const Problem &problem;
  const std::vector<Task> &single;
  std::map<std::tuple<int, int, int>, Seen> seen;
  std::vector<Task> joined;
};

} // namespace

Problem withoutSpans(const Problem &problem) {
  Problem single = problem;
  for (size_t s = 0; s < single.stages.size(); ++s)
    if (problem.getSpan(int(s)) > 1)
      for (auto [name, table] : kTables)
        share(problem, int(s), single.stages[s].*table);
  for (size_t s = 0; s < single.stages.size(); ++s)
    if (problem.getSpan(int(s)) > 1 && single.stages[s].late)
      share(problem, int(s), *single.stages[s].late);
  for (Stage &stage : single.stages)
    stage.slots *= problem.units[stage.unit].span;
  for (Edge &edge : single.edges) {
    edge.receiveDepth *= problem.getSpan(edge.to);
    spread(problem, edge);
  }
  for (Unit &unit : single.units)
    unit.span = 1;
  return single;
}

void joinTasks(const Problem &problem, Solution &solution) {
  for (std::vector<Task> &tasks : solution.ranks)
    tasks = Joiner(problem, tasks).run();
}

} // namespace dt::scheduler
