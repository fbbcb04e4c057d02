//===- Evaluate.cpp - When everything happens -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/core/Footprint.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>

using namespace llvm;

namespace dt::scheduler {

double Timeline::getWallBubble() const {
  Time total = 0;
  int ranks = 0;
  for (size_t rank = 0; rank < busy.size(); ++rank)
    if (span[rank]) {
      total += busy[rank];
      ++ranks;
    }
  return ranks && wall ? 1.0 - double(total) / (double(wall) * ranks) : 0.0;
}

double Timeline::getSpanBubble() const {
  if (!longestSpan)
    return 0.0;
  Time most = *std::max_element(busy.begin(), busy.end());
  return 1.0 - double(most) / double(longestSpan);
}

namespace {

/// One pass over a solution; see evaluate().
class Evaluation {
public:
  Evaluation(const TaskGraph &graph, const Solution &solution)
      : graph(graph), problem(graph.getProblem()), solution(solution) {}

  Expected<Timeline> run();

private:
  Error number();
  Error checkComplete();
  void measure();
  Error reportCycle();
  /// The gradient node of this microbatch is split in this solution.
  bool isSplit(TaskGraph::Node node) const {
    return state[node - node % 3 + TaskGraph::kGradient] & kSplit;
  }
  void start(TaskGraph::Node node);

  enum : uint8_t { kSplit = 1, kWhole = 2 };

  const TaskGraph &graph;
  const Problem &problem;
  const Solution &solution;
  std::vector<std::vector<TaskGraph::Node>> lists;
  std::vector<uint8_t> state;
  std::vector<int> waiting, cursor, listed;
  std::vector<TaskGraph::Node> ready;
  std::vector<Time> earliest;
  Timeline timeline;
};

Error Evaluation::number() {
  if (int(solution.ranks.size()) != problem.ranks)
    return createStringError("the solution has lists for " +
                             Twine(solution.ranks.size()) + " of " +
                             Twine(problem.ranks) + " ranks");
  lists.resize(problem.ranks);
  state.assign(graph.getNumNodes(), 0);
  listed.assign(graph.getNumNodes(), 0);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    lists[rank].reserve(solution.ranks[rank].size());
    for (const Task &task : solution.ranks[rank]) {
      bool sync = task.stage >= 0 && task.stage < int(problem.stages.size()) &&
                  problem.stages[task.stage].batchSync;
      int count = sync ? problem.getNumGroups() : problem.microbatches;
      if (task.stage < 0 || task.stage >= int(problem.stages.size()) ||
          task.replica < 0 ||
          task.replica >= int(problem.stages[task.stage].replicas.size()) ||
          task.microbatch < 0 || task.microbatch >= count ||
          sync != (task.kind == Kind::Sync))
        return createStringError("rank " + Twine(rank) +
                                 ": a task that the problem does not have");
      TaskGraph::Node node = graph.getNode(task);
      ArrayRef<int> ranks = graph.getRanks(graph.getPlaceOf(node));
      if (!graph.exists(node) ||
          ((task.kind == Kind::Input) && !graph.exists(node + 1)))
        return createStringError("rank " + Twine(rank) + ": " +
                                 getName(problem, task) +
                                 ": the stage has no such task");
      if (!is_contained(ranks, rank))
        return createStringError("rank " + Twine(rank) + ": " +
                                 getName(problem, task) +
                                 ": the stage does not run here");
      if (task.kind == Kind::Input)
        state[node] |= kSplit;
      else if (task.kind == Kind::Backward)
        state[node] |= kWhole;
      ++listed[node];
      lists[rank].push_back(node);
    }
  }
  return Error::success();
}

Error Evaluation::checkComplete() {
  for (TaskGraph::Node node = 0; node < graph.getNumNodes(); ++node) {
    if (!graph.exists(node))
      continue;
    if (state[node] == (kSplit | kWhole))
      return createStringError(getName(problem, graph.getTask(node, true)) +
                               ": the backward is split and not split");
    int expected = int(graph.getRanks(graph.getPlaceOf(node)).size());
    bool weight = graph.getSlotOf(node) == TaskGraph::kWeight;
    if (weight && !isSplit(node))
      expected = 0;
    if (listed[node] != expected)
      return createStringError(
          getName(problem, graph.getTask(node, isSplit(node))) +
          (listed[node] < expected ? ": missing" : ": more than once"));
  }
  return Error::success();
}

void Evaluation::start(TaskGraph::Node node) {
  Time begin = earliest[node];
  ArrayRef<int> ranks = graph.getRanks(graph.getPlaceOf(node));
  Time duration = graph.getTime(node, isSplit(node)), end = begin + duration;
  timeline.start[node] = begin;
  timeline.end[node] = end;
  auto release = [&](TaskGraph::Node next, Time time) {
    earliest[next] = std::max(earliest[next], time);
    if (--waiting[next] == 0)
      ready.push_back(next);
  };
  for (const TaskGraph::Dependence &successor : graph.getSuccessors(node))
    release(successor.node, end + successor.latency);
  for (int rank : ranks) {
    timeline.busy[rank] += duration;
    int position = ++cursor[rank];
    if (position < int(lists[rank].size()))
      release(lists[rank][position], end);
  }
  // Inside a microbatch: gradient after forward, weight after gradient.
  TaskGraph::Slot slot = graph.getSlotOf(node);
  if (slot == TaskGraph::kForward && graph.exists(node + 1))
    release(node + 1, end);
  if (slot == TaskGraph::kGradient && isSplit(node))
    release(node + 1, end);
}

Expected<Timeline> Evaluation::run() {
  if (Error error = number())
    return error;
  if (Error error = checkComplete())
    return error;
  int count = graph.getNumNodes();
  timeline.start.assign(count, -1);
  timeline.end.assign(count, -1);
  timeline.busy.assign(problem.ranks, 0);
  timeline.span.assign(problem.ranks, 0);
  timeline.peak.assign(problem.ranks, 0);
  earliest.assign(count, 0);
  cursor.assign(problem.ranks, 0);
  waiting.assign(count, 0);
  size_t tasks = 0, done = 0;
  for (TaskGraph::Node node = 0; node < count; ++node) {
    if (!listed[node])
      continue;
    ++tasks;
    // A rank's first task does not wait for the rank.
    waiting[node] = int(graph.getPredecessors(node).size()) + listed[node] +
                    (graph.getSlotOf(node) != TaskGraph::kForward);
  }
  for (const std::vector<TaskGraph::Node> &list : lists)
    if (!list.empty() && --waiting[list[0]] == 0)
      ready.push_back(list[0]);
  while (!ready.empty()) {
    TaskGraph::Node node = ready.back();
    ready.pop_back();
    start(node);
    ++done;
  }
  if (done != tasks)
    return reportCycle();
  measure();
  return std::move(timeline);
}

void Evaluation::measure() {
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const std::vector<TaskGraph::Node> &list = lists[rank];
    if (list.empty())
      continue;
    timeline.span[rank] =
        timeline.end[list.back()] - timeline.start[list.front()];
    timeline.longestSpan = std::max(timeline.longestSpan, timeline.span[rank]);
    timeline.wall = std::max(timeline.wall, timeline.end[list.back()]);
    Bytes held = 0;
    for (TaskGraph::Node node : list) {
      // A forward without a backward holds its activations while it runs.
      timeline.peak[rank] =
          std::max(timeline.peak[rank],
                   held + (graph.getSlotOf(node) == TaskGraph::kForward
                               ? graph.getActivation(node)
                               : 0));
      held += graph.getMemoryChange(node, isSplit(node));
      timeline.peak[rank] = std::max(timeline.peak[rank], held);
    }
  }
}

Error Evaluation::reportCycle() {
  // From any task that never started, step to something unfinished that it
  // waits for, until a task comes again.
  auto blocker = [&](TaskGraph::Node node) -> TaskGraph::Node {
    for (const TaskGraph::Dependence &predecessor : graph.getPredecessors(node))
      if (timeline.end[predecessor.node] < 0)
        return predecessor.node;
    if (graph.getSlotOf(node) != TaskGraph::kForward &&
        timeline.end[node - 1] < 0)
      return node - 1;
    for (int rank : graph.getRanks(graph.getPlaceOf(node))) {
      TaskGraph::Node head = lists[rank][cursor[rank]];
      if (head != node)
        return head;
    }
    return -1;
  };
  TaskGraph::Node node = 0;
  while (!listed[node] || timeline.end[node] >= 0)
    ++node;
  std::vector<int> seen(graph.getNumNodes(), -1);
  std::vector<TaskGraph::Node> path;
  while (node >= 0 && seen[node] < 0) {
    seen[node] = int(path.size());
    path.push_back(node);
    node = blocker(node);
  }
  if (node < 0)
    return createStringError("the lists of tasks never finish");
  std::string message = "tasks wait for one another: ";
  for (size_t i = seen[node]; i < path.size(); ++i)
    message +=
        getName(problem, graph.getTask(path[i], isSplit(path[i]))) + " <- ";
  return createStringError(
      message + getName(problem, graph.getTask(node, isSplit(node))));
}

} // namespace

Expected<Timeline> evaluate(const TaskGraph &graph, const Solution &solution) {
  return Evaluation(graph, solution).run();
}

std::vector<std::pair<Time, Bytes>> getMemoryCurve(const TaskGraph &graph,
                                                   const Solution &solution,
                                                   const Timeline &timeline,
                                                   int rank) {
  std::vector<std::pair<Time, Bytes>> curve;
  Bytes held = 0;
  for (const Task &task : solution.ranks[rank]) {
    TaskGraph::Node node = graph.getNode(task);
    Bytes change = graph.getMemoryChange(node, task.kind == Kind::Input);
    Time time = change > 0 ? timeline.start[node] : timeline.end[node];
    held += change;
    if (!curve.empty() && curve.back().first == time)
      curve.back().second = held;
    else if (change)
      curve.push_back({time, held});
  }
  return curve;
}

std::vector<Bytes> getMostHeld(const TaskGraph &graph,
                               const Solution &solution) {
  std::vector<Bytes> most;
  Footprint footprint(graph);
  for (int rank = 0; rank < graph.getProblem().ranks; ++rank) {
    Bytes held = footprint.begin(graph.getPlacesOfRank(rank));
    Bytes &peak = most.emplace_back(held);
    for (const Task &task : solution.ranks[rank]) {
      held += footprint.run(graph.getNode(task), task.kind == Kind::Input);
      peak = std::max(peak, held);
    }
  }
  return most;
}

Error checkMemory(const TaskGraph &graph, const Solution &solution) {
  const Problem &problem = graph.getProblem();
  std::vector<int> inFlight(graph.getNumPlaces(), 0);
  Footprint footprint(graph);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    Bytes held = footprint.begin(graph.getPlacesOfRank(rank));
    for (const Task &task : solution.ranks[rank]) {
      TaskGraph::Node node = graph.getNode(task);
      held += footprint.run(node, task.kind == Kind::Input);
      if (!problem.memory.empty() && held > problem.memory[rank])
        return createStringError("rank " + Twine(rank) + ": " + Twine(held) +
                                 " bytes of activations after " +
                                 getName(problem, task) + "; the bound is " +
                                 Twine(problem.memory[rank]));
      // Every rank of a replica has the same list, so one may count.
      int place = graph.getPlaceOf(node),
          slots = problem.stages[task.stage].slots;
      if (!slots || graph.getRanks(place)[0] != rank)
        continue;
      if (task.kind == Kind::Forward && ++inFlight[place] > slots)
        return createStringError(
            "rank " + Twine(rank) + ": " + getName(problem, task) +
            " is microbatch " + Twine(inFlight[place]) +
            " in flight; the stage has " + Twine(slots) + " slots");
      if (graph.getSlotOf(node) == TaskGraph::kGradient)
        --inFlight[place];
    }
  }
  return Error::success();
}

} // namespace dt::scheduler
