//===- Lanes.cpp - Orders from sequences of forwards and gradients --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/Lanes.h"

#include "passes/scheduler/core/Evaluate.h"

#include <algorithm>

namespace dt::scheduler {

std::optional<Lanes> Lanes::get(const TaskGraph &graph,
                                const std::vector<Bytes> &memory) {
  const Problem &problem = graph.getProblem();
  Lanes lanes;
  lanes.graph = &graph;
  for (const Stage &stage : problem.stages)
    if (stage.batchSync || stage.slots)
      return std::nullopt;
  std::vector<int> laneOfRank(problem.ranks, -1);
  lanes.laneOf.resize(graph.getNumPlaces());
  for (int stage : problem.getTopologicalOrder())
    for (int r = 0; r < int(problem.stages[stage].replicas.size()); ++r) {
      int place = graph.getPlace(stage, r);
      llvm::ArrayRef<int> ranks = graph.getRanks(place);
      int lane = laneOfRank[ranks[0]];
      if (lane < 0) {
        lane = lanes.getNumLanes();
        lanes.places.emplace_back();
        lanes.busy.push_back(0);
        lanes.limit.push_back(kNever);
        lanes.late.push_back(0);
        for (int rank : ranks) {
          if (laneOfRank[rank] >= 0)
            return std::nullopt;
          laneOfRank[rank] = lane;
          if (!memory.empty())
            lanes.limit[lane] = std::min(lanes.limit[lane], memory[rank]);
        }
      } else if (ranks.size() != graph.getRanks(lanes.places[lane][0]).size())
        return std::nullopt;
      for (int rank : ranks)
        if (laneOfRank[rank] != lane)
          return std::nullopt;
      lanes.laneOf[place] = lane;
      lanes.places[lane].push_back(place);
      lanes.late[lane] += graph.getLargestSlots(place).late;
      lanes.order.push_back(place);
    }
  for (int place = 0; place < graph.getNumPlaces(); ++place) {
    int stage = graph.getPlaceInfo(place).stage;
    lanes.split.push_back(graph.canSplit(stage));
    lanes.hasBackward.push_back(problem.stages[stage].hasBackward);
    for (int k = 0; k < problem.microbatches; ++k)
      for (auto slot :
           {TaskGraph::kForward, TaskGraph::kGradient, TaskGraph::kWeight}) {
        TaskGraph::Node node = graph.getNode(place, slot, k);
        if (graph.exists(node))
          lanes.busy[lanes.laneOf[place]] += graph.getTime(node);
      }
  }
  return lanes;
}

bool Lanes::holds(const Solution &solution) const {
  if (!graph->hasSlots())
    return true;
  std::vector<Bytes> held = getMostHeld(*graph, solution);
  for (int lane = 0; lane < getNumLanes(); ++lane)
    if (held[graph->getRanks(places[lane][0])[0]] > limit[lane])
      return false;
  return true;
}

LaneRun::LaneRun(const Lanes &lanes, const FillRules &rules)
    : lanes(lanes), graph(*lanes.graph), rules(rules), footprint(graph) {
  int count = lanes.getNumLanes();
  next.assign(lanes.order.size(), {0, 0});
  now.assign(count, 0);
  first.assign(count, -1);
  idle.assign(count, 0);
  held.assign(count, 0);
  pending.resize(count);
  used.assign(count, 0);
  end.assign(graph.getNumNodes(), -1);
  result.lists.resize(count);
  for (int lane = 0; lane < count; ++lane)
    held[lane] = footprint.begin(lanes.places[lane]);
  for (int lane = 0; lane < count; ++lane)
    result.lists[lane].reserve(3 * lanes.places[lane].size() *
                               graph.getNumMicrobatches());
}

Time LaneRun::getArrival(TaskGraph::Node node) const {
  Time arrival = 0;
  for (const TaskGraph::Dependence &d : graph.getPredecessors(node)) {
    if (end[d.node] < 0)
      return kNever;
    arrival = std::max(arrival, end[d.node] + d.latency);
  }
  if (graph.getSlotOf(node) == TaskGraph::kGradient && end[node - 1] < 0)
    return kNever;
  return arrival;
}

void LaneRun::add(int lane, TaskGraph::Node node, Time start, bool split) {
  if (first[lane] < 0) {
    first[lane] = start;
    idle[lane] = rules.wall ? start : 0;
  } else {
    idle[lane] += start - now[lane];
  }
  mostIdle = std::max(mostIdle, idle[lane]);
  now[lane] = end[node] = start + graph.getTime(node);
  held[lane] += footprint.run(node, split);
  result.lists[lane].push_back(node);
}

void LaneRun::putWeight(int lane) {
  TaskGraph::Node node = pending[lane][used[lane]++];
  add(lane, node, now[lane], true);
}

bool LaneRun::put(int place, TaskGraph::Slot slot) {
  if (next[place][slot] >= graph.getNumMicrobatches())
    return false;
  int lane = lanes.laneOf[place];
  TaskGraph::Node node = getNext(place, slot);
  bool split = lanes.split[place];
  Time arrival = getArrival(node);
  if (arrival == kNever || isFull(lane, node, split))
    return false;
  add(lane, node, std::max(now[lane], arrival), split);
  ++next[place][slot];
  if (slot == TaskGraph::kGradient && split)
    pending[lane].push_back(node + 1);
  return true;
}

bool LaneRun::append(int place, TaskGraph::Slot slot) {
  if (next[place][slot] >= graph.getNumMicrobatches())
    return false;
  int lane = lanes.laneOf[place];
  TaskGraph::Node node = getNext(place, slot);
  Time arrival = getArrival(node);
  if (arrival == kNever)
    return false;
  while (isFull(lane, node, lanes.split[place])) {
    if (getPending(lane).empty())
      return false;
    putWeight(lane);
  }
  while (!getPending(lane).empty() &&
         now[lane] + graph.getTime(getPending(lane)[0]) <= arrival)
    putWeight(lane);
  if (!getPending(lane).empty() && now[lane] < arrival &&
      (rules.fillShort || arrival - now[lane] > getAllowance(lane)))
    putWeight(lane);
  return put(place, slot);
}

void LaneRun::flush(int lane) {
  while (!getPending(lane).empty())
    putWeight(lane);
}

std::optional<LaneResult> LaneRun::finish() {
  int n = graph.getNumMicrobatches();
  for (int place : lanes.order)
    if (next[place][0] < n || (lanes.hasBackward[place] && next[place][1] < n))
      return std::nullopt;
  for (int lane = 0; lane < lanes.getNumLanes(); ++lane) {
    flush(lane);
    result.wall = std::max(result.wall, now[lane]);
    result.longestSpan = std::max(result.longestSpan, now[lane] - first[lane]);
  }
  return std::move(result);
}

Solution LaneResult::getSolution(const Lanes &lanes) const {
  Solution solution;
  const TaskGraph &graph = *lanes.graph;
  solution.ranks.resize(graph.getProblem().ranks);
  for (int lane = 0; lane < lanes.getNumLanes(); ++lane)
    for (int rank : graph.getRanks(lanes.places[lane][0])) {
      solution.ranks[rank].reserve(lists[lane].size());
      for (TaskGraph::Node node : lists[lane])
        solution.ranks[rank].push_back(
            graph.getTask(node, lanes.split[graph.getPlaceOf(node)]));
    }
  return solution;
}

} // namespace dt::scheduler
