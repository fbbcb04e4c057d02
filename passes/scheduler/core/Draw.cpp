//===- Draw.cpp - Schedules as text ---------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Draw.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace llvm;

namespace dt::scheduler {

namespace {

/// Names of the stages that a rank runs, "llm.0 llm.2".
std::string getRankName(const TaskGraph &graph, int rank) {
  std::string name;
  for (int place : graph.getPlacesOfRank(rank)) {
    auto [stage, replica] = graph.getPlaceInfo(place);
    const Stage &info = graph.getProblem().stages[stage];
    name += (name.empty() ? "" : " ") + info.name;
    if (info.replicas.size() > 1)
      name += "[" + std::to_string(replica) + "]";
  }
  return name;
}

std::string percent(double share) {
  return formatv("{0:F1} %", 100 * share).str();
}

std::string getSummary(const Timeline &timeline,
                       llvm::function_ref<std::string(Time)> print) {
  return formatv("wall {0} (bubble {1}), longest span {2} (bubble {3})",
                 print(timeline.wall), percent(timeline.getWallBubble()),
                 print(timeline.longestSpan), percent(timeline.getSpanBubble()))
      .str();
}

} // namespace

void drawText(raw_ostream &os, const TaskGraph &graph, const Solution &solution,
              const Timeline &timeline,
              llvm::function_ref<std::string(Time)> print, unsigned columns) {
  // Coarse enough for the width, no finer than two columns for the shortest
  // task.
  Time shortest = timeline.wall;
  for (TaskGraph::Node node = 0; node < graph.getNumNodes(); ++node)
    if (timeline.start[node] >= 0 && timeline.end[node] > timeline.start[node])
      shortest = std::min(shortest, timeline.end[node] - timeline.start[node]);
  double wall = double(std::max<Time>(timeline.wall, 1));
  double scale =
      std::min(columns / wall, 3.0 / double(std::max<Time>(shortest, 1)));
  auto column = [&](Time time) { return size_t(double(time) * scale + 0.5); };
  size_t width = 0;
  for (int rank = 0; rank < int(solution.ranks.size()); ++rank)
    width = std::max(width, getRankName(graph, rank).size());
  width = std::min<size_t>(width, 24);
  for (int rank = 0; rank < int(solution.ranks.size()); ++rank) {
    std::string line(column(timeline.wall), '.');
    for (const Task &task : solution.ranks[rank]) {
      TaskGraph::Node node = graph.getNode(task);
      size_t begin = column(timeline.start[node]),
             end = std::min(column(timeline.end[node]), line.size());
      std::string label =
          getLetter(task.kind) + std::to_string(task.microbatch);
      for (size_t i = begin; i < end; ++i)
        line[i] = i - begin < label.size() ? label[i - begin] : '-';
    }
    os << formatv("{0,4} ", rank)
       << left_justify(getRankName(graph, rank).substr(0, width),
                       unsigned(width))
       << " |" << line << "|\n";
  }
  auto number = [](Time time) { return std::to_string(time); };
  os << getSummary(timeline, print ? print : number) << "\n";
}

} // namespace dt::scheduler
