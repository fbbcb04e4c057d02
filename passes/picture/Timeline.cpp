//===- Timeline.cpp - Who does what when, as a picture --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/picture/Timeline.h"

#include "passes/picture/Markup.h"
#include "passes/picture/Page.h"
#include "passes/picture/Units.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace dt::picture {

namespace {

constexpr double kTotal = 1400, kMargin = 12, kMostLabel = 300, kSize = 12;
/// More messages than that are a grey carpet.
constexpr size_t kMostMessages = 160, kMostMessageLanes = 16;

struct KindStyle {
  BarKind kind;
  const char *classes, *letter, *meaning;
  /// Part of the lane's height that the bar takes, from its bottom.
  double height;
};

const KindStyle kKinds[] = {
    {BarKind::Forward, "F", "F", "F: forward", 1},
    {BarKind::Backward, "B", "B", "B: backward, all gradients", 1},
    {BarKind::Input, "I", "I", "I: gradients of inputs", 1},
    {BarKind::Weight, "W", "W", "W: gradients of weights", 0.6},
    {BarKind::Sync, "S", "S", "S: loss over the whole batch", 1},
    {BarKind::Message, "M", "", "messages", 0.35},
    {BarKind::Reduce, "G", "", "gradients summed over replicas", 0.6},
    {BarKind::Optimizer, "O", "", "optimizer", 1},
};

const KindStyle &styleOf(BarKind kind) { return kKinds[size_t(kind)]; }

/// Whether the colour is the unit's.
bool hasUnit(BarKind kind) { return kind < BarKind::Sync; }

std::string nameRanks(const Lane &lane) {
  return (lane.ranks.size() == 1 ? "rank " : "ranks ") +
         printRanges(lane.ranks);
}

class TimelinePicture {
public:
  TimelinePicture(const TimelineChart &chart, bool standalone)
      : chart(chart), standalone(standalone), svg(kTotal, chart.title) {}

  void draw(raw_ostream &os);

private:
  double x(double time) const {
    return left + plot * time / std::max(chart.end, 1e-9);
  }
  double laneTop(size_t lane) const { return top + double(lane) * pitch; }
  bool showsMemory() const { return most > 0; }

  void measure();
  void drawLegends();
  void drawAxis(double bottom);
  void drawLane(size_t lane);
  void drawBar(const Bar &bar, double y);
  void drawMemory(const Lane &lane, double y);
  void drawMessages();
  std::string hoverOf(const Bar &bar) const;

  const TimelineChart &chart;
  bool standalone;
  Svg svg;
  double left = 0, plot = 0, top = kMargin;
  double lane = 24, memory = 14, pitch = 50;
  double busyAt = 0; ///< right end of that column
  bool twoLines = true, messages = false;
  int64_t most = 0; ///< bytes on the fullest lane
};

void TimelinePicture::measure() {
  for (const Lane &each : chart.lanes)
    most = std::max(most, each.peak);
  size_t count = chart.lanes.size();
  if (count > 40) {
    lane = 13, memory = 6;
  } else if (count > 16) {
    lane = 16, memory = 8;
  }
  if (!showsMemory())
    memory = 0;
  pitch = lane + (memory ? memory + 2 : 0) + (count > 16 ? 6 : 12);
  twoLines = pitch >= 34;
  double widest = 0;
  for (const Lane &each : chart.lanes) {
    double name = 1.1 * getTextWidth(nameRanks(each), kSize), // bold
        runs = getTextWidth(each.runs, kSize - 1);
    widest =
        std::max(widest, twoLines ? std::max(name, runs) : name + 12 + runs);
  }
  left = kMargin + std::clamp(widest, 60.0, kMostLabel) + 14;
  double right = 64 + (showsMemory() ? 82 : 0);
  plot = kTotal - left - right - kMargin;
  busyAt = left + plot + 64;
  messages = !chart.messages.empty() &&
             chart.messages.size() <= kMostMessages &&
             count <= kMostMessageLanes;
}

void TimelinePicture::drawLegends() {
  std::vector<LegendEntry> entries;
  auto anyBar = [&](auto is) {
    return any_of(chart.lanes,
                  [&](const Lane &each) { return any_of(each.bars, is); });
  };
  for (size_t u = 0; u < chart.units.size(); ++u)
    if (anyBar([&](const Bar &bar) {
          return hasUnit(bar.kind) && bar.unit == int(u);
        }))
      entries.push_back(boxOf(chart.units[u], getUnitClass(int(u))));
  for (const KindStyle &style : kKinds) {
    if (!anyBar([&](const Bar &bar) { return bar.kind == style.kind; }))
      continue;
    std::string classes = std::string("kind ") + style.classes;
    double height = 12 * style.height;
    entries.push_back({style.meaning, [=](Svg &to, double x, double y) {
                         to.rect(x, y + 12 - height, 14, height, classes);
                       }});
  }
  entries.push_back(boxOf("idle", "track"));
  if (messages)
    entries.push_back({"message", [](Svg &to, double x, double y) {
                         to.line(x, y + 2, x + 14, y + 11, "message");
                       }});
  if (showsMemory())
    entries.push_back(
        {"activations held (full height: " + printBytes(double(most)) + ")",
         [](Svg &to, double x, double y) {
           to.rect(x, y + 5, 14, 7, "memory");
         }});
  top = drawLegend(svg, entries, kMargin, kTotal - kMargin, top) + 10;
}

void TimelinePicture::drawAxis(double bottom) {
  AxisUnit unit = chart.nanoseconds ? getTimeUnit(chart.end) : AxisUnit{"", 1};
  Ticks ticks = getTicks(chart.end / unit.size, 10);
  std::string name = chart.nanoseconds ? unit.name : "time units";
  svg.text(left - 14, top - 7, name, "tick", "end");
  for (int i = 0; double(i) * ticks.step * unit.size <= chart.end * 1.000001;
       ++i) {
    double value = double(i) * ticks.step, at = x(value * unit.size);
    svg.line(at, top - 3, at, bottom, "grid");
    svg.text(at, top - 7, ticks.print(value), "tick", "middle");
  }
  svg.text(busyAt, top - 7, "busy", "tick", "end");
  if (showsMemory())
    svg.text(busyAt + 82, top - 7, "peak", "tick", "end");
}

std::string TimelinePicture::hoverOf(const Bar &bar) const {
  return bar.hover + "\n" + printTimeOf(chart, bar.start) + " to " +
         printTimeOf(chart, bar.end) + " (" +
         printTimeOf(chart, bar.end - bar.start) + ")";
}

void TimelinePicture::drawBar(const Bar &bar, double y) {
  const KindStyle &style = styleOf(bar.kind);
  std::string unit = hasUnit(bar.kind) ? getUnitClass(bar.unit) + " " : "";
  double begin = x(bar.start), width = std::max(x(bar.end) - begin, 0.3),
         height = lane * style.height;
  // A hair between bars shows where one ends.
  double gap = width > 3 ? 0.6 : 0;
  svg.rect(begin, y + lane - height, width - gap, height, unit + style.classes,
           hoverOf(bar));
  if (bar.microbatch < 0 || height < 11)
    return;
  std::string number = std::to_string(bar.microbatch),
              both = style.letter + number;
  bool solid = bar.kind == BarKind::Backward;
  for (const std::string &text : {both, number})
    if (getTextWidth(text, 10) + 3 <= width) {
      svg.text(begin + (width - gap) / 2, y + lane - height / 2 + 3.6, text,
               solid ? "in on " + unit : "in ink", "middle");
      return;
    }
}

void TimelinePicture::drawMemory(const Lane &each, double y) {
  auto height = [&](int64_t bytes) {
    return px(y + memory * (1 - double(bytes) / double(most)));
  };
  std::string data = "M" + px(left) + " " + px(y + memory);
  for (auto [time, bytes] : each.memory)
    data += "H" + px(x(std::min(time, chart.end))) + "V" + height(bytes);
  data += "H" + px(x(chart.end)) + "V" + px(y + memory) + "Z";
  svg.path(data, "memory",
           nameRanks(each) + ": at most " + printBytes(double(each.peak)) +
               " of activations");
}

void TimelinePicture::drawLane(size_t number) {
  const Lane &each = chart.lanes[number];
  double y = laneTop(number);
  std::string name = nameRanks(each),
              all = name + ": " + (each.runs.empty() ? "-" : each.runs);
  double room = left - kMargin - 14;
  if (twoLines) {
    svg.text(kMargin, y + 11, fitText(name, room, kSize), "strong", "start",
             all);
    svg.text(kMargin, y + 26, fitText(each.runs, room, kSize - 1), "soft small",
             "start", all);
  } else {
    std::string shortName = fitText(name, room, kSize);
    svg.text(kMargin, y + lane - 3, shortName, "strong", "start", all);
    double used = 1.1 * getTextWidth(shortName, kSize) + 10;
    svg.text(kMargin + used, y + lane - 3,
             fitText(each.runs, room - used, kSize - 1), "soft small", "start",
             all);
  }
  svg.rect(left, y, plot, lane, "track");
  for (const Bar &bar : each.bars)
    drawBar(bar, y);
  if (showsMemory())
    drawMemory(each, y + lane + 2);
  double busy = chart.end > 0 ? each.busy / chart.end : 0;
  svg.text(busyAt, y + lane - 6, printShare(busy), "soft small", "end");
  if (showsMemory())
    svg.text(busyAt + 82, y + lane - 6, printBytes(double(each.peak)),
             "soft small", "end");
}

void TimelinePicture::drawMessages() {
  for (const MessageLine &message : chart.messages) {
    bool down = message.fromLane < message.toLane;
    double from = laneTop(message.fromLane) + (down ? lane : 0),
           to = laneTop(message.toLane) + (down ? 0 : lane);
    svg.line(x(message.start), from, x(message.end), to, "message",
             message.hover + "\n" + printTimeOf(chart, message.start) + " to " +
                 printTimeOf(chart, message.end));
  }
}

void TimelinePicture::draw(raw_ostream &os) {
  measure();
  if (standalone)
    top = drawHead(svg, chart.title, chart.notes, kMargin, kTotal - 2 * kMargin,
                   top);
  drawLegends();
  top += 16; // the axis
  double bottom = laneTop(chart.lanes.size()) - (pitch - lane) / 4;
  drawAxis(bottom);
  for (size_t number = 0; number < chart.lanes.size(); ++number)
    drawLane(number);
  if (messages)
    drawMessages();
  svg.write(os, laneTop(chart.lanes.size()) + 4, standalone);
}

} // namespace

std::string printTimeOf(const TimelineChart &chart, double time) {
  if (chart.nanoseconds)
    return printTime(time * 1e-9);
  return printCount(time);
}

void drawTimeline(raw_ostream &os, const TimelineChart &chart,
                  bool standalone) {
  TimelinePicture(chart, standalone).draw(os);
}

void drawTimelinePage(raw_ostream &os, const TimelineChart &chart) {
  Page page(os, chart.title);
  for (const std::string &note : chart.notes)
    page.paragraph(note);
  page.picture([&](raw_ostream &to) { drawTimeline(to, chart, false); });
  page.heading("Ranks");
  HtmlTable table;
  table.head = {"ranks", "runs", "busy", "idle until the end",
                "most activations"};
  table.words = 2;
  for (const Lane &each : chart.lanes)
    table.rows.push_back(
        {printRanges(each.ranks), each.runs, printTimeOf(chart, each.busy),
         chart.end > 0 ? printShare(1 - each.busy / chart.end) : "-",
         each.memory.empty() ? "-" : printBytes(double(each.peak))});
  page.table(table);
}

} // namespace dt::picture
