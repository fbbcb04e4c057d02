//===- Reduce.cpp - Gradients summed over replicas ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/Reduce.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace dt::planner {

using scheduler::TaskGraph;
using Node = TaskGraph::Node;

void Taken::add(Time begin, Time end) {
  if (intervals.empty() || intervals.back().second < begin)
    intervals.emplace_back(begin, end);
  else
    intervals.back().second = std::max(intervals.back().second, end);
}

Time Taken::fill(Time begin, Time time) {
  // Whatever lies in between is taken behind this: one interval for all.
  auto first = llvm::partition_point(
      intervals, [&](const auto &own) { return own.second < begin; });
  auto next = first;
  Time from = begin, at = begin;
  for (; next != intervals.end() && next->first < at + time; ++next) {
    from = std::min(from, next->first);
    time -= std::max<Time>(0, next->first - at);
    at = std::max(at, next->second);
  }
  intervals.insert(intervals.erase(first, next), {from, at + time});
  return at + time;
}

/// The end of a part of a reduction, which has one of so many buckets or all
/// others.
static Time sumPart(const GradientReduction &reduction, bool isLast, Time begin,
                    std::vector<Taken> &links) {
  auto partOf = [&](Time time) {
    Time one = time / reduction.buckets;
    return isLast ? one : time - one;
  };
  Time duration = partOf(reduction.duration), end = begin + duration;
  for (auto [link, time] : reduction.takes)
    if (Time own = partOf(time); own > 0)
      end = std::max(end, links[link].fill(begin, own) +
                              std::max<Time>(0, duration - own));
  return end;
}

/// When the first bucket of a reduction is complete on all ranks, and the last.
static std::pair<Time, Time> completeFor(const TaskGraph &graph,
                                         const TaskLists &lists,
                                         const Simulation &simulation,
                                         const GradientReduction &reduction) {
  Time first = 0, last = 0;
  for (int rank : reduction.ranks)
    for (Node node : lists[rank]) {
      int stage = graph.getPlaceInfo(graph.getPlaceOf(node)).stage;
      if (!reduction.stages.empty() && !is_contained(reduction.stages, stage))
        continue;
      Time end = simulation.end[node], rest = (end - simulation.start[node]) /
                                              reduction.buckets *
                                              (reduction.buckets - 1);
      first = std::max(first, end - rest);
      last = std::max(last, end);
    }
  return {first, last};
}

void sumGradients(const TaskGraph &graph, const TaskLists &lists,
                  ArrayRef<GradientReduction> reductions,
                  std::vector<Taken> &links, Simulation &simulation) {
  std::vector<std::pair<Time, Time>> complete;
  std::vector<int> order;
  for (const GradientReduction &reduction : reductions) {
    order.push_back(int(complete.size()));
    complete.push_back(completeFor(graph, lists, simulation, reduction));
  }
  llvm::stable_sort(order,
                    [&](int a, int b) { return complete[a] < complete[b]; });
  std::vector<Time> free(lists.size(), 0); // of the rank's reductions before
  simulation.reductions.resize(reductions.size());
  for (int i : order) {
    auto [begin, last] = complete[i];
    for (int rank : reductions[i].ranks)
      begin = std::max(begin, free[rank]);
    Time end = sumPart(reductions[i], /*isLast=*/false, begin, links);
    end = sumPart(reductions[i], /*isLast=*/true, std::max(end, last), links);
    simulation.reductions[i] = {begin, end};
    for (int rank : reductions[i].ranks) {
      free[rank] = end;
      simulation.reduced[rank] = std::max(simulation.reduced[rank], end);
    }
  }
}

} // namespace dt::planner
