//===- Lanes.cpp - A schedule as a timeline -------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/picture/Lanes.h"

#include "passes/picture/Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <map>
#include <tuple>

using namespace llvm;

namespace dt::picture {

namespace {

using scheduler::Kind;
using scheduler::Problem;
using scheduler::Solution;
using scheduler::Stage;
using scheduler::Task;
using scheduler::TaskGraph;

/// Of tasks, by Kind.
constexpr std::pair<BarKind, const char *> kBars[] = {
    {BarKind::Forward, "forward of "},
    {BarKind::Backward, "backward of "},
    {BarKind::Input, "gradients of inputs of "},
    {BarKind::Weight, "gradients of weights of "},
    {BarKind::Sync, "loss over the batch "}};

std::string describe(const Problem &problem, const Task &task,
                     bool withReplica) {
  const Stage &stage = problem.stages[task.stage];
  std::string text = kBars[int(task.kind)].second + stage.name +
                     (task.kind == Kind::Sync ? ", group " : ", microbatch ") +
                     std::to_string(task.microbatch);
  if (withReplica && stage.replicas.size() > 1)
    text += ", replica " + std::to_string(task.replica);
  return text;
}

/// Stages of a rank: "llm.0 (replica 2 of 4)", "vision[1], llm[0]".
std::string describeStages(const TaskGraph &graph, int rank,
                           bool withReplicas) {
  std::string text;
  for (int place : graph.getPlacesOfRank(rank)) {
    auto [stage, replica] = graph.getPlaceInfo(place);
    const Stage &info = graph.getProblem().stages[stage];
    text += (text.empty() ? "" : ", ") + info.name;
    if (!withReplicas || info.replicas.size() == 1)
      continue;
    text += graph.getPlacesOfRank(rank).size() == 1
                ? " (replica " + std::to_string(replica) + " of " +
                      std::to_string(info.replicas.size()) + ")"
                : "[" + std::to_string(replica) + "]";
  }
  return text;
}

/// What a rank does, without who it is.
using Work =
    std::vector<std::tuple<int, int, int, scheduler::Time, scheduler::Time>>;

class ChartMaker {
public:
  ChartMaker(const TaskGraph &graph, const Solution &solution,
             const scheduler::Timeline &timeline,
             const std::vector<std::vector<int64_t>> &ranksOf, bool folded)
      : graph(graph), problem(graph.getProblem()), solution(solution),
        timeline(timeline), ranksOf(ranksOf), folded(folded) {}

  void make(TimelineChart &chart) {
    chart.units = nameUnits(problem);
    chart.end = double(timeline.wall);
    group();
    for (const std::vector<int> &ranks : classes)
      chart.lanes.push_back(makeLane(ranks));
    addMessages(chart);
  }

private:
  Work workOf(int rank) const {
    Work work;
    for (const Task &task : solution.ranks[rank]) {
      TaskGraph::Node node = graph.getNode(task);
      work.emplace_back(int(task.kind), task.stage, task.microbatch,
                        timeline.start[node], timeline.end[node]);
    }
    return work;
  }

  void group() {
    std::map<std::pair<Work, scheduler::Bytes>, size_t> known;
    for (int rank = 0; rank < int(solution.ranks.size()); ++rank) {
      auto [at, fresh] =
          known.insert({{workOf(rank), timeline.peak[rank]}, classes.size()});
      if (fresh)
        classes.emplace_back();
      classes[at->second].push_back(rank);
      laneOf.push_back(at->second);
    }
  }

  Lane makeLane(const std::vector<int> &ranks) const {
    Lane lane;
    int rank = ranks.front();
    for (int each : ranks)
      if (ranksOf.empty())
        lane.ranks.push_back(each);
      else
        append_range(lane.ranks, ranksOf[each]);
    llvm::sort(lane.ranks);
    lane.ranks.erase(llvm::unique(lane.ranks), lane.ranks.end());
    // A lane of one replica's ranks has its name, of several it has none.
    bool single = all_of(ranks, [&](int each) {
      return graph.getPlacesOfRank(each) == graph.getPlacesOfRank(rank);
    });
    single = single && !folded;
    lane.runs = describeStages(graph, rank, single);
    for (const Task &task : solution.ranks[rank]) {
      TaskGraph::Node node = graph.getNode(task);
      lane.bars.push_back(
          {kBars[int(task.kind)].first, problem.stages[task.stage].unit,
           double(timeline.start[node]), double(timeline.end[node]),
           task.microbatch, describe(problem, task, single)});
    }
    lane.busy = double(timeline.busy[rank]);
    lane.peak = timeline.peak[rank];
    for (auto [time, bytes] :
         scheduler::getMemoryCurve(graph, solution, timeline, rank))
      lane.memory.emplace_back(double(time), bytes);
    return lane;
  }

  /// What travels between lanes: one line for all replicas that are one lane.
  void addMessages(TimelineChart &chart) const {
    std::map<std::tuple<size_t, size_t, scheduler::Time, scheduler::Time>, bool>
        drawn;
    for (TaskGraph::Node node = 0; node < graph.getNumNodes(); ++node) {
      if (!graph.exists(node) || timeline.start[node] < 0)
        continue;
      for (const TaskGraph::Dependence &before : graph.getPredecessors(node)) {
        if (before.edge < 0 || timeline.end[before.node] < 0)
          continue;
        size_t from = laneOf[rankOf(before.node)], to = laneOf[rankOf(node)];
        scheduler::Time start = timeline.end[before.node],
                        end = start + before.latency;
        if (from == to || !drawn.insert({{from, to, start, end}, true}).second)
          continue;
        chart.messages.push_back(
            {from, to, double(start), double(end), nameMessage(before, node)});
      }
    }
  }

  int rankOf(TaskGraph::Node node) const {
    return graph.getRanks(graph.getPlaceOf(node)).front();
  }

  std::string nameMessage(const TaskGraph::Dependence &before,
                          TaskGraph::Node node) const {
    auto stage = [&](TaskGraph::Node of) {
      return problem.stages[graph.getPlaceInfo(graph.getPlaceOf(of)).stage]
          .name;
    };
    bool gradient = graph.getSlotOf(node) == TaskGraph::kGradient;
    return (gradient ? "gradients from " : "activations from ") +
           stage(before.node) + " to " + stage(node) + ", microbatch " +
           std::to_string(graph.getMicrobatchOf(node));
  }

  const TaskGraph &graph;
  const Problem &problem;
  const Solution &solution;
  const scheduler::Timeline &timeline;
  const std::vector<std::vector<int64_t>> &ranksOf;
  bool folded;
  std::vector<std::vector<int>> classes; ///< ranks of the problem, by lane
  std::vector<size_t> laneOf;            ///< by rank of the problem
};

} // namespace

/// A unit of one stage may have got another name beside that stage.
std::vector<std::string> nameUnits(const Problem &problem) {
  std::vector<std::string> names;
  for (size_t u = 0; u < problem.units.size(); ++u) {
    std::vector<const Stage *> stages;
    for (const Stage &stage : problem.stages)
      if (stage.unit == int(u))
        stages.push_back(&stage);
    names.push_back(stages.size() == 1 ? stages[0]->name
                                       : problem.units[u].name);
  }
  return names;
}

TimelineChart makeChart(const TaskGraph &graph, const Solution &solution,
                        const scheduler::Timeline &timeline, std::string title,
                        const std::vector<std::vector<int64_t>> &ranksOf,
                        bool folded) {
  TimelineChart chart;
  chart.title = std::move(title);
  ChartMaker(graph, solution, timeline, ranksOf, folded).make(chart);
  return chart;
}

std::string describeBubble(const scheduler::Timeline &timeline) {
  return "Bubble " + printShare(timeline.getWallBubble()) +
         ": the share of all ranks' time, from 0 to the end of the last task, "
         "in which a rank has no task. Of the rank with the longest span, "
         "from its first task to its last, " +
         printShare(timeline.getSpanBubble()) + " is idle.";
}

} // namespace dt::picture
