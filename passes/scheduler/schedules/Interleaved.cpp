//===- Interleaved.cpp - 1F1B over virtual stages -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters", SC 2021. Each of p ranks runs v chunks of the model, stage c * p +
// i on rank i, so that a microbatch passes all ranks v times and the pipeline
// fills v times faster. Microbatches go in groups of p: a group passes chunk 0,
// then chunk 1, …; chunk c of a microbatch on rank 0 waits for chunk c - 1 on
// the last rank (the wrap-around). Wall time of p v equal stages of time (f + b
// + w) / v each, without latency: (n + (p - 1) / v)(f + b + w), if p divides n.
//
// Units with one stage a rank run 1F1B around it, as far ahead as it needs.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/scheduler/search/Lines.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>

namespace dt::scheduler {

namespace {

/// A unit's stages by chunk: chunks[c * ranks + i].
struct Virtual {
  std::vector<int> stages;
  int ranks = 0, chunks = 0;
};

/// The stages of every unit that has several on a rank; error if they do not go
/// round.
llvm::Expected<std::vector<Virtual>> findVirtualStages(const Problem &problem) {
  std::vector<Virtual> units(problem.units.size());
  for (int stage : problem.getTopologicalOrder())
    if (!problem.stages[stage].batchSync)
      units[problem.stages[stage].unit].stages.push_back(stage);
  std::vector<Virtual> result;
  for (size_t u = 0; u < units.size(); ++u) {
    Virtual &unit = units[u];
    auto ranksOf = [&](size_t i) -> const std::vector<std::vector<int>> & {
      return problem.stages[unit.stages[i]].replicas;
    };
    size_t count = unit.stages.size(), ranks = 1;
    while (ranks < count && ranksOf(ranks) != ranksOf(0))
      ++ranks;
    if (ranks >= count)
      continue;
    for (size_t i = ranks; i < count; ++i)
      if (count % ranks || ranksOf(i) != ranksOf(i - ranks))
        return llvm::createStringError("interleaved: stages of " +
                                       problem.units[u].name +
                                       " do not go round their ranks; expected "
                                       "stage k on the ranks of stage k mod " +
                                       llvm::Twine(ranks));
    for (int stage : unit.stages)
      if (!problem.stages[stage].hasBackward)
        return llvm::createStringError("interleaved: stage " +
                                       problem.stages[stage].name +
                                       " has no backward");
    unit.ranks = int(ranks);
    unit.chunks = int(count / ranks);
    result.push_back(unit);
  }
  return result;
}

/// (chunk, microbatch) in the order of forwards: group by group.
std::vector<std::pair<int, int>> getForwardOrder(int microbatches, int group,
                                                 int chunks) {
  std::vector<std::pair<int, int>> order;
  for (int first = 0; first < microbatches; first += group)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int k = first; k < std::min(first + group, microbatches); ++k)
        order.push_back({chunk, k});
  return order;
}

/// Tasks of position `index` on replica `replica`.
Line makeLine(const TaskGraph &graph, const Virtual &unit, int index,
              int replica, const std::vector<int> &needs) {
  const Problem &problem = graph.getProblem();
  int n = problem.microbatches, v = unit.chunks;
  int runAhead =
      problem.units[problem.stages[unit.stages[0]].unit].getRunAhead();
  auto order = getForwardOrder(n, unit.ranks, v);
  std::vector<std::vector<int>> position(v, std::vector<int>(n));
  for (int i = 0; i < int(order.size()); ++i)
    position[order[i].first][order[i].second] = i;
  // A backward comes after the forwards that it waits for, and two tasks later
  // for each rank that it has to pass on the way there and back.
  int ahead = 0;
  for (int chunk = 0; chunk < v; ++chunk)
    for (int k = 0; k < n; ++k)
      ahead = std::max(
          ahead,
          position[chunk][std::min(n, k + needs[chunk * unit.ranks + index] +
                                          runAhead) -
                          1] -
              position[v - 1 - chunk][k]);
  ahead = std::min(int(order.size()), ahead + 2 * (unit.ranks - 1 - index));
  auto place = [&](int chunk) {
    return graph.getPlace(unit.stages[chunk * unit.ranks + index], replica);
  };
  Line line;
  auto forward = [&](int i) {
    line.push_back(graph.getNode(place(order[i].first), TaskGraph::kForward,
                                 order[i].second));
  };
  for (int i = 0; i < ahead; ++i)
    forward(i);
  for (int i = 0; i < int(order.size()); ++i) {
    if (ahead + i < int(order.size()))
      forward(ahead + i);
    line.push_back(graph.getNode(place(v - 1 - order[i].first),
                                 TaskGraph::kGradient, order[i].second));
  }
  return line;
}

/// Most microbatches of a stage in flight in a line.
int countInFlight(const TaskGraph &graph, const Line &line, int stage) {
  int count = 0, most = 0;
  for (TaskGraph::Node node : line)
    if (graph.getPlaceInfo(graph.getPlaceOf(node)).stage == stage) {
      count += graph.getSlotOf(node) == TaskGraph::kGradient ? -1 : 1;
      most = std::max(most, count);
    }
  return most;
}

} // namespace

static llvm::Expected<Solution> solveInterleaved(const TaskGraph &graph,
                                                 const SolveOptions &) {
  const Problem &problem = graph.getProblem();
  auto units = findVirtualStages(problem);
  if (!units)
    return units.takeError();
  std::vector<Line> lines;
  std::vector<int> given(problem.stages.size(), 0);
  // Users before producers: how far a unit runs ahead depends on its users.
  std::vector<int> order = problem.getTopologicalOrder();
  llvm::sort(*units, [&](const Virtual &a, const Virtual &b) {
    return llvm::find(order, a.stages.back()) >
           llvm::find(order, b.stages.back());
  });
  for (const Virtual &unit : *units) {
    std::vector<int> needs =
        getNeeds(problem, unit.stages, getInFlight(problem, given));
    for (int index = 0; index < unit.ranks; ++index) {
      int replicas = int(problem.stages[unit.stages[index]].replicas.size());
      for (int replica = 0; replica < replicas; ++replica)
        lines.push_back(makeLine(graph, unit, index, replica, needs));
      for (int chunk = 0; chunk < unit.chunks; ++chunk) {
        int stage = unit.stages[chunk * unit.ranks + index];
        given[stage] = countInFlight(graph, lines.back(), stage);
      }
    }
  }
  appendOneFOneB(graph, given, lines);
  return mergeLines(graph, lines);
}

void addInterleaved(Registry &registry) {
  registry.add("interleaved", "1F1B over virtual stages", solveInterleaved,
               {.interleaves = true, .planned = true});
}

} // namespace dt::scheduler
