//===- Merge.cpp - Ranks that do the same as one --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Merge.h"

#include "passes/scheduler/core/Schedule.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dt::scheduler {

/// By rank: its stages, and which replica of each it is in.
static std::vector<std::map<int, int>> getPlaces(const Problem &problem) {
  std::vector<std::map<int, int>> places(problem.ranks);
  for (auto [s, stage] : llvm::enumerate(problem.stages))
    for (auto [r, replica] : llvm::enumerate(stage.replicas))
      for (int rank : replica)
        places[rank][int(s)] = int(r);
  return places;
}

MergedProblem mergeAlike(const Problem &whole) {
  std::vector<std::map<int, int>> places = getPlaces(whole);
  MergedProblem result{whole, std::vector<int>(whole.ranks, -1)};
  Problem &problem = result.problem;
  std::map<std::vector<int>, int> numbers;
  for (const Stage &stage : whole.stages)
    for (const std::vector<int> &replica : stage.replicas)
      for (int rank : replica) {
        auto stages = llvm::make_first_range(places[rank]);
        result.rankOf[rank] = numbers
                                  .try_emplace({stages.begin(), stages.end()},
                                               int(numbers.size()))
                                  .first->second;
      }
  problem.ranks = int(numbers.size());
  std::vector<std::vector<int>> classOf(whole.stages.size());
  for (auto [s, stage] : llvm::enumerate(problem.stages)) {
    std::vector<std::vector<int>> classes;
    size_t members = 0;
    for (std::vector<int> ranks : stage.replicas) {
      for (int &rank : ranks)
        rank = result.rankOf[rank];
      llvm::sort(ranks);
      ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
      auto known = llvm::find(classes, ranks);
      classOf[s].push_back(int(known - classes.begin()));
      if (known != classes.end())
        continue;
      members += ranks.size();
      classes.push_back(std::move(ranks));
    }
    std::vector<bool> seen(problem.ranks, false);
    for (const std::vector<int> &ranks : classes)
      for (int rank : ranks)
        seen[rank] = true;
    if (size_t(llvm::count(seen, true)) != members) {
      result = {whole, std::vector<int>(whole.ranks)};
      std::iota(result.rankOf.begin(), result.rankOf.end(), 0);
      return result;
    }
    stage.replicas = std::move(classes);
  }
  for (auto [e, edge] : llvm::enumerate(problem.edges)) {
    if (problem.stages[edge.to].batchSync)
      continue;
    std::map<std::pair<int, int>, Time> pairs; // longest messages
    const std::vector<int> &from = classOf[edge.from], &to = classOf[edge.to];
    forEachMessage(whole, whole.edges[e],
                   [&](int microbatch, int i, int j, Time latency) {
                     Time &longest = pairs[{from[i], to[j]}];
                     longest = std::max(longest, latency);
                   });
    bool straight = problem.stages[edge.from].replicas.size() ==
                    problem.stages[edge.to].replicas.size();
    edge.routes.clear();
    for (auto [pair, latency] : pairs) {
      edge.latency = std::max(edge.latency, latency);
      edge.routes.push_back({-1, pair.first, pair.second, latency});
      straight &= pair.first == pair.second;
    }
    if (straight) // as edges are without
      edge.routes.clear();
  }
  if (!whole.memory.empty()) {
    problem.memory.assign(problem.ranks, std::numeric_limits<Bytes>::max());
    for (auto [rank, bytes] : llvm::enumerate(whole.memory))
      if (int merged = result.rankOf[rank]; merged >= 0)
        problem.memory[merged] = std::min(problem.memory[merged], bytes);
  }
  return result;
}

Solution MergedProblem::expand(const Problem &whole,
                               const Solution &merged) const {
  std::vector<std::map<int, int>> places = getPlaces(whole);
  Solution solution;
  solution.ranks.resize(whole.ranks);
  for (auto [rank, tasks] : llvm::enumerate(solution.ranks)) {
    if (rankOf[rank] >= 0)
      tasks = merged.ranks[rankOf[rank]];
    for (Task &task : tasks)
      task.replica = places[rank].at(task.stage);
  }
  return solution;
}

llvm::Expected<Solution> solveMerged(const Problem &whole,
                                     llvm::StringRef schedule, int64_t effort) {
  MergedProblem merged = mergeAlike(whole);
  SolveOptions options;
  options.communicate = false;
  options.effort = effort;
  auto found = solve(TaskGraph(merged.problem), schedule, options);
  if (!found)
    return found.takeError();
  return merged.expand(whole, *found);
}

} // namespace dt::scheduler
