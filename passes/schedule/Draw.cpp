//===- Draw.cpp - Pictures of schedules -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/Draw.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace llvm;

namespace dt::schedule {

namespace {

/// Names of the stages that a rank runs, "llm.0 llm.2".
std::string getRankName(const Graph &graph, int rank) {
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

std::string escape(StringRef text) {
  std::string result;
  raw_string_ostream os(result);
  printHTMLEscaped(text, os);
  return result;
}

std::string percent(double share) {
  return formatv("{0:F1} %", 100 * share).str();
}

std::string getSummary(const Timeline &timeline) {
  return formatv("wall {0} (bubble {1}), longest span {2} (bubble {3})",
                 timeline.wall, percent(timeline.getWallBubble()),
                 timeline.longestSpan, percent(timeline.getSpanBubble()))
      .str();
}

} // namespace

void drawText(raw_ostream &os, const Graph &graph, const Solution &solution,
              const Timeline &timeline, unsigned columns) {
  // Coarse enough for the width, no finer than two columns for the shortest
  // task.
  Time shortest = timeline.wall;
  for (Graph::Node node = 0; node < graph.getNumNodes(); ++node)
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
      Graph::Node node = graph.getNode(task);
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
  os << getSummary(timeline) << "\n";
}

namespace {

constexpr int kLeft = 150, kWidth = 1200, kTop = 44, kLane = 22, kMemory = 12,
              kPitch = 40;

class Picture {
public:
  Picture(raw_ostream &os, const Graph &graph, const Solution &solution,
          const Timeline &timeline)
      : os(os), graph(graph), solution(solution), timeline(timeline) {}

  void draw(StringRef title);

private:
  double x(Time time) const {
    return kLeft +
           kWidth * double(time) / double(std::max<Time>(timeline.wall, 1));
  }
  void drawTask(const Task &task, int y);
  void drawMemory(int rank, int y);

  raw_ostream &os;
  const Graph &graph;
  const Solution &solution;
  const Timeline &timeline;
};

void Picture::drawTask(const Task &task, int y) {
  const Problem &problem = graph.getProblem();
  Graph::Node node = graph.getNode(task);
  double begin = x(timeline.start[node]), width = x(timeline.end[node]) - begin;
  // Hues far apart for neighbouring units; virtual stages differ a little.
  int hue = (210 + problem.stages[task.stage].unit * 137) % 360;
  static constexpr int lightness[] = {78, 48, 58, 68, 35};
  os << formatv("<rect x=\"{0:F2}\" y=\"{1}\" width=\"{2:F2}\" height=\"{3}\" "
                "fill=\"hsl({4},{5}%,{6}%)\"><title>",
                begin, y, std::max(width, 0.2), kLane, hue,
                task.kind == Kind::Weight ? 25 : 60, lightness[int(task.kind)])
     << escape(getName(problem, task))
     << formatv(": {0} to {1}</title></rect>", timeline.start[node],
                timeline.end[node]);
  std::string label = std::to_string(task.microbatch);
  if (width >= 7.0 * double(label.size()))
    os << formatv("<text x=\"{0:F2}\" y=\"{1}\" text-anchor=\"middle\" "
                  "pointer-events=\"none\">{2}</text>",
                  begin + width / 2, y + 15, label);
  os << "\n";
}

void Picture::drawMemory(int rank, int y) {
  Bytes most = *std::max_element(timeline.peak.begin(), timeline.peak.end());
  if (!most)
    return;
  auto height = [&](Bytes bytes) {
    return y + kMemory - kMemory * double(bytes) / double(most);
  };
  os << formatv("<path fill=\"#bbb\" d=\"M{0} {1}", kLeft, y + kMemory);
  for (auto [time, bytes] : getMemoryCurve(graph, solution, timeline, rank))
    os << formatv("H{0:F2}V{1:F2}", x(time), height(bytes));
  os << formatv("H{0:F2}V{1}Z\"><title>rank {2}: at most {3} bytes of "
                "activations</title></path>\n",
                x(timeline.wall), y + kMemory, rank, timeline.peak[rank]);
}

void Picture::draw(StringRef title) {
  int ranks = int(solution.ranks.size());
  os << formatv("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} "
                "{1}\" width=\"{0}\" height=\"{1}\" "
                "font-family=\"sans-serif\" font-size=\"11\">\n<rect "
                "width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                kLeft + kWidth + 20, kTop + ranks * kPitch + 20);
  os << formatv("<text x=\"8\" y=\"16\" font-size=\"14\">{0}</text>\n<text "
                "x=\"8\" y=\"33\">{1}</text>\n",
                escape(title), getSummary(timeline));
  for (int rank = 0; rank < ranks; ++rank) {
    int y = kTop + rank * kPitch;
    os << formatv("<text x=\"8\" y=\"{0}\">{1}</text><rect x=\"{2}\" y=\"{3}\" "
                  "width=\"{4}\" height=\"{5}\" fill=\"#f2f2f2\"/>\n",
                  y + 15,
                  escape(formatv("{0}  {1}", rank, getRankName(graph, rank))
                             .str()
                             .substr(0, 24)),
                  kLeft, y, kWidth, kLane);
    for (const Task &task : solution.ranks[rank])
      drawTask(task, y);
    drawMemory(rank, y + kLane + 1);
  }
  os << "</svg>\n";
}

} // namespace

void drawSvg(raw_ostream &os, const Graph &graph, const Solution &solution,
             const Timeline &timeline, StringRef title) {
  Picture(os, graph, solution, timeline).draw(title);
}

void drawHtml(raw_ostream &os, const Graph &graph, const Solution &solution,
              const Timeline &timeline, StringRef title) {
  os << "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>"
     << escape(title)
     << "</title>\n<style>body{font-family:sans-serif}td,th{padding:2px "
        "12px;text-align:right}</style></head><body>\n";
  drawSvg(os, graph, solution, timeline, title);
  os << "<table><tr><th>rank</th><th>stages</th><th>busy</th><th>idle until "
        "the end</th><th>idle in its span</th>"
        "<th>bytes of activations</th></tr>\n";
  for (int rank = 0; rank < int(solution.ranks.size()); ++rank) {
    auto idle = [&](Time of) {
      return of ? percent(1 - double(timeline.busy[rank]) / double(of)) : "-";
    };
    os << formatv("<tr><td>{0}</td><td>{1}</td><td>{2}</td><td>{3}</"
                  "td><td>{4}</td><td>{5}</td></tr>\n",
                  rank, escape(getRankName(graph, rank)), timeline.busy[rank],
                  idle(timeline.wall), idle(timeline.span[rank]),
                  timeline.peak[rank]);
  }
  os << "</table></body></html>\n";
}

} // namespace dt::schedule
