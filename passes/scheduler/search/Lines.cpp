//===- Lines.cpp - Building blocks of schedules ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/Lines.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <map>
#include <queue>

namespace dt::scheduler {

std::vector<int> getInFlight(const Problem &problem,
                             const std::vector<int> &given) {
  std::vector<int> counts(problem.stages.size(), 1);
  std::vector<int> order = problem.getTopologicalOrder();
  for (int stage : llvm::reverse(order)) {
    int &count = counts[stage];
    bool fixed = !given.empty() && given[stage] > 0;
    if (fixed)
      count = given[stage];
    for (const Edge &edge : problem.edges) {
      if (edge.from != stage)
        continue;
      if (problem.stages[edge.to].batchSync)
        count = std::max(count, problem.getGroupSize());
      else if (!fixed)
        count = std::max(count, counts[edge.to] + 1);
    }
    count = std::min(
        problem.microbatches,
        count + problem.units[problem.stages[stage].unit].getRunAhead());
  }
  return counts;
}

std::vector<int> getNeeds(const Problem &problem,
                          const std::vector<int> &stages,
                          const std::vector<int> &inFlight) {
  std::vector<int> needs(stages.size(), 1);
  for (int i = int(needs.size()) - 1; i >= 0; --i) {
    if (i + 1 < int(needs.size()))
      needs[i] = needs[i + 1];
    for (const Edge &edge : problem.edges) {
      const Stage &to = problem.stages[edge.to];
      if (edge.from != stages[i])
        continue;
      if (to.batchSync)
        needs[i] = std::max(needs[i], problem.getGroupSize());
      else if (!llvm::is_contained(stages, edge.to))
        needs[i] = std::max(needs[i], inFlight[edge.to] + 1);
    }
  }
  return needs;
}

llvm::Expected<std::vector<std::vector<int>>>
getStagesThereAndBack(const Problem &problem, llvm::StringRef schedule) {
  std::vector<std::vector<int>> units(problem.units.size()), result;
  for (int stage : problem.getTopologicalOrder())
    if (!problem.stages[stage].batchSync)
      units[problem.stages[stage].unit].push_back(stage);
  bool right = true;
  for (const std::vector<int> &stages : units) {
    size_t count = stages.size(), back = 0, shared = 0;
    for (size_t i = 0; i < count; ++i)
      for (size_t j = 0; j < i; ++j)
        if (problem.stages[stages[i]].replicas ==
            problem.stages[stages[j]].replicas) {
          ++shared;
          back += i + j + 1 == count;
        }
    if (!shared)
      continue;
    right &= shared == back && 2 * back == count;
    result.push_back(stages);
  }
  if (!right || result.empty())
    return llvm::createStringError(
        schedule +
        ": expected two stages a rank that go there and back: a module's "
        "first and last on one rank, the second and the last but one, …");
  return result;
}

int findLargestUnit(const TaskGraph &graph) {
  const Problem &problem = graph.getProblem();
  std::vector<Time> work(problem.units.size(), 0);
  for (TaskGraph::Node node = 0; node < graph.getNumNodes(); ++node)
    if (graph.exists(node))
      work[problem.stages[graph.getPlaceInfo(graph.getPlaceOf(node)).stage]
               .unit] += graph.getTime(node);
  return int(std::max_element(work.begin(), work.end()) - work.begin());
}

void appendForwards(const TaskGraph &graph, int place, Line &line) {
  for (int k = 0; k < graph.getNumMicrobatches(); ++k)
    line.push_back(graph.getNode(place, TaskGraph::kForward, k));
}

void appendBackwards(const TaskGraph &graph, int place, Line &line) {
  if (!graph.getProblem().stages[graph.getPlaceInfo(place).stage].hasBackward)
    return;
  for (int k = 0; k < graph.getNumMicrobatches(); ++k)
    line.push_back(graph.getNode(place, TaskGraph::kGradient, k));
}

Line makeOneFOneB(const TaskGraph &graph, int place, int inFlight, int delay) {
  Line line;
  int n = graph.getNumMicrobatches(), stage = graph.getPlaceInfo(place).stage;
  if (!graph.getProblem().stages[stage].hasBackward) {
    appendForwards(graph, place, line);
    return line;
  }
  bool split = delay >= 0 && graph.canSplit(stage);
  inFlight = std::max(1, std::min(inFlight, n));
  for (int k = 0; k < inFlight - 1; ++k)
    line.push_back(graph.getNode(place, TaskGraph::kForward, k));
  for (int k = 0; k < n; ++k) {
    if (k + inFlight - 1 < n)
      line.push_back(
          graph.getNode(place, TaskGraph::kForward, k + inFlight - 1));
    line.push_back(graph.getNode(place, TaskGraph::kGradient, k));
    if (split && k >= delay)
      line.push_back(graph.getNode(place, TaskGraph::kWeight, k - delay));
  }
  if (split)
    for (int k = std::max(0, n - delay); k < n; ++k)
      line.push_back(graph.getNode(place, TaskGraph::kWeight, k));
  return line;
}

void appendOneFOneB(const TaskGraph &graph, const std::vector<int> &given,
                    std::vector<Line> &lines) {
  const Problem &problem = graph.getProblem();
  std::vector<int> inFlight = getInFlight(problem, given);
  for (int place = 0; place < graph.getNumPlaces(); ++place) {
    int stage = graph.getPlaceInfo(place).stage;
    if (!problem.stages[stage].batchSync && !given[stage])
      lines.push_back(makeOneFOneB(graph, place, inFlight[stage]));
  }
  appendSyncLines(graph, lines);
}

void appendSyncLines(const TaskGraph &graph, std::vector<Line> &lines) {
  const Problem &problem = graph.getProblem();
  for (int s = 0; s < int(problem.stages.size()); ++s) {
    if (!problem.stages[s].batchSync)
      continue;
    Line line;
    for (int g = 0; g < problem.getNumGroups(); ++g)
      line.push_back(
          graph.getNode(graph.getPlace(s, 0), TaskGraph::kForward, g));
    lines.push_back(line);
  }
}

namespace {

/// Simulates lines that share ranks.
class Merge {
public:
  Merge(const TaskGraph &graph, const std::vector<Line> &lines,
        const std::vector<int> &phases)
      : graph(graph), lines(lines), phases(phases), cursor(lines.size(), 0),
        end(graph.getNumNodes(), -1), split(graph.getNumNodes(), false),
        free(graph.getProblem().ranks, 0) {
    solution.ranks.resize(graph.getProblem().ranks);
    linesOfRank.resize(graph.getProblem().ranks);
    lineOf.assign(graph.getNumNodes(), -1);
    for (size_t i = 0; i < lines.size(); ++i)
      for (TaskGraph::Node node : lines[i]) {
        lineOf[node] = int(i);
        if (graph.getSlotOf(node) == TaskGraph::kWeight)
          split[node - 1] = true;
        for (int rank : graph.getRanks(graph.getPlaceOf(node)))
          if (linesOfRank[rank].empty() || linesOfRank[rank].back() != int(i))
            linesOfRank[rank].push_back(int(i));
      }
    if (!phases.empty())
      countPhases();
  }

  Solution run();

private:
  /// Earliest start of a line's head, or -1 if an input does not exist yet.
  Time getStart(TaskGraph::Node node) const;
  void place(TaskGraph::Node node, Time start);
  void countPhases();
  /// The head of a line: earliest start first; of equals backwards first (they
  /// free memory and feed the critical path), then the older microbatch, then
  /// the line that was given first.
  using Head = std::pair<std::tuple<Time, int, int, TaskGraph::Node>, int>;
  struct Later {
    bool operator()(const Head &a, const Head &b) const {
      auto key = [](const Head &head) {
        auto [start, kind, microbatch, node] = head.first;
        return std::make_tuple(start, kind, microbatch, head.second);
      };
      return key(a) > key(b);
    }
  };
  /// False if the line has ended or its head cannot start yet.
  bool look(int line, Head &head) const;
  void offer(int line) {
    Head head;
    if (look(line, head))
      heads.push(head);
  }
  /// Heads that may start now that `node` has a place.
  void wake(int line, TaskGraph::Node node);
  /// Whether all ranks of a node have finished the phases before its own.
  bool isInPhase(TaskGraph::Node node) const {
    if (!phases.empty())
      for (int rank : graph.getRanks(graph.getPlaceOf(node)))
        if (left[rank].begin()->first < phases[node])
          return false;
    return true;
  }

  const TaskGraph &graph;
  const std::vector<Line> &lines;
  const std::vector<int> &phases;
  /// Per rank: tasks left by phase.
  std::vector<std::map<int, int>> left;
  /// Lines with tasks on a rank, and the line of every task.
  std::vector<std::vector<int>> linesOfRank;
  std::vector<int> lineOf;
  /// Ranks on which a phase has just ended.
  std::vector<int> turned;
  std::priority_queue<Head, std::vector<Head>, Later> heads;
  std::vector<size_t> cursor;
  std::vector<Time> end;
  std::vector<bool> split;
  std::vector<Time> free;
  Solution solution;
};

void Merge::countPhases() {
  left.resize(graph.getProblem().ranks);
  for (const Line &line : lines)
    for (TaskGraph::Node node : line)
      for (int rank : graph.getRanks(graph.getPlaceOf(node)))
        ++left[rank][phases[node]];
}

Time Merge::getStart(TaskGraph::Node node) const {
  Time start = graph.getArrival(node, end);
  if (start >= 0)
    for (int rank : graph.getRanks(graph.getPlaceOf(node)))
      start = std::max(start, free[rank]);
  return start;
}

void Merge::place(TaskGraph::Node node, Time start) {
  end[node] = start + graph.getTime(node, split[node]);
  for (int rank : graph.getRanks(graph.getPlaceOf(node))) {
    free[rank] = end[node];
    solution.ranks[rank].push_back(graph.getTask(node, split[node]));
    if (!phases.empty() && --left[rank][phases[node]] == 0) {
      left[rank].erase(phases[node]);
      turned.push_back(rank);
    }
  }
}

bool Merge::look(int line, Head &head) const {
  if (cursor[line] == lines[line].size())
    return false;
  TaskGraph::Node node = lines[line][cursor[line]];
  Time start = isInPhase(node) ? getStart(node) : -1;
  static constexpr int rank[] = {1, 0, 2};
  head = {
      {start, rank[graph.getSlotOf(node)], graph.getMicrobatchOf(node), node},
      line};
  return start >= 0;
}

void Merge::wake(int line, TaskGraph::Node node) {
  offer(line);
  auto wakeNode = [&](TaskGraph::Node to) {
    int other = lineOf[to];
    if (other >= 0 && other != line && cursor[other] < lines[other].size() &&
        lines[other][cursor[other]] == to)
      offer(other);
  };
  for (const TaskGraph::Dependence &to : graph.getSuccessors(node))
    wakeNode(to.node);
  if (graph.getSlotOf(node) != TaskGraph::kWeight)
    wakeNode(node + 1); // its backward, its weight gradient
  for (int rank : turned)
    for (int other : linesOfRank[rank])
      if (other != line)
        offer(other);
  turned.clear();
}

Solution Merge::run() {
  bool shared = llvm::any_of(
      linesOfRank, [](const std::vector<int> &own) { return own.size() > 1; });
  if (!shared) {
    for (const Line &line : lines)
      for (TaskGraph::Node node : line)
        for (int rank : graph.getRanks(graph.getPlaceOf(node)))
          solution.ranks[rank].push_back(graph.getTask(node, split[node]));
    return std::move(solution);
  }
  // Starts only grow while others are placed, so the heap may hold old ones:
  // what comes out is looked at again.
  for (size_t i = 0; i < lines.size(); ++i)
    offer(int(i));
  while (!heads.empty()) {
    Head head = heads.top();
    heads.pop();
    auto [key, line] = head;
    if (cursor[line] == lines[line].size() ||
        lines[line][cursor[line]] != std::get<3>(key))
      continue;
    Head current;
    if (!look(line, current))
      continue;
    if (current != head) {
      heads.push(current);
      continue;
    }
    ++cursor[line];
    place(std::get<3>(key), std::get<0>(key));
    wake(line, std::get<3>(key));
  }
  for (size_t i = 0; i < lines.size(); ++i)
    for (; cursor[i] < lines[i].size(); ++cursor[i])
      place(lines[i][cursor[i]], 0);
  return std::move(solution);
}

} // namespace

Solution mergeLines(const TaskGraph &graph, const std::vector<Line> &lines,
                    const std::vector<int> &phases) {
  return Merge(graph, lines, phases).run();
}

Solution mergeLines(const TaskGraph &graph,
                    llvm::function_ref<Line(int place, int stage)> makeLine,
                    const std::vector<int> &phases) {
  std::vector<Line> lines;
  for (int place = 0; place < graph.getNumPlaces(); ++place) {
    int stage = graph.getPlaceInfo(place).stage;
    if (!graph.getProblem().stages[stage].batchSync)
      lines.push_back(makeLine(place, stage));
  }
  appendSyncLines(graph, lines);
  return mergeLines(graph, lines, phases);
}

Solution mergeSplitOneFOneB(const TaskGraph &graph, int delay) {
  const Problem &problem = graph.getProblem();
  std::vector<int> inFlight = getInFlight(problem),
                   depths = problem.getDepths();
  int deepest = *llvm::max_element(depths);
  return mergeLines(graph, [&](int place, int stage) {
    return makeOneFOneB(graph, place,
                        inFlight[stage] + (delay - 1) * (depths[stage] - 1),
                        delay * (deepest - depths[stage]));
  });
}

} // namespace dt::scheduler
