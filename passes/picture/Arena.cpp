//===- Arena.cpp - What stands where in memory, as a picture --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/picture/Arena.h"

#include "passes/picture/Markup.h"
#include "passes/picture/Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;

namespace dt::picture {

namespace {

constexpr double kArenaWidth = 1400, kArenaLeft = 76, kGroups = 290,
                 kArenaPlot = kArenaWidth - kArenaLeft - kGroups,
                 kArenaHeight = 640, kStrip = 18;

struct RoleStyle {
  BufferRole role;
  const char *classes, *meaning;
};
const RoleStyle kRoles[] = {
    {BufferRole::Passed, "", "inputs and outputs"},
    {BufferRole::Saved, "F", "saved from forward to backward"},
    {BufferRole::Gradient, "I", "gradients of inputs and outputs"},
    {BufferRole::Scratch, "none", "scratch, shared by all tasks"},
};
const RoleStyle &styleOf(BufferRole role) { return kRoles[size_t(role)]; }

/// Letters of the strip of tasks, and classes of their boxes.
std::string classesOf(const ArenaChart::Task &task) {
  static const char *const letters[] = {"F", "", "I", "W", "S", "M", "G", "O"};
  std::string kind = letters[size_t(task.kind)];
  bool own = task.kind < BarKind::Sync && task.unit >= 0;
  return own ? getUnitClass(task.unit) + " " + kind : kind;
}

class ArenaPicture {
public:
  ArenaPicture(const ArenaChart &chart, bool standalone)
      : chart(chart), standalone(standalone), svg(kArenaWidth, chart.title),
        columns(std::max<size_t>(chart.tasks.size(), 1)),
        bytes(double(std::max<int64_t>(chart.bytes, 1))) {}

  void draw(raw_ostream &os) {
    drawTop();
    drawAxis();
    for (const ArenaBlock &block : chart.blocks)
      drawBlock(block);
    svg.rect(kArenaLeft, top, kArenaPlot, kArenaHeight, "frame");
    drawGroups();
    drawStrip(top + kArenaHeight + 8);
    double below = drawTaskLegend(top + kArenaHeight + kStrip + 36);
    svg.write(os, below + 4, standalone);
  }

private:
  double x(size_t column) const {
    return kArenaLeft + kArenaPlot * double(column) / double(columns);
  }
  double y(double offset) const {
    return top + kArenaHeight * (1 - offset / bytes);
  }

  void drawTop();
  void drawAxis();
  void drawBlock(const ArenaBlock &block);
  void drawGroups();
  void drawGroup(ArrayRef<ArenaBlock> blocks, double &free);
  void drawStrip(double y);
  /// Returns y below it.
  double drawTaskLegend(double y);

  const ArenaChart &chart;
  bool standalone;
  Svg svg;
  size_t columns;
  double bytes, top = 10;
};

void ArenaPicture::drawTop() {
  if (standalone)
    top = drawHead(svg, chart.title, chart.notes, 12, kArenaWidth - 24, top);
  std::vector<LegendEntry> entries;
  for (size_t u = 0; u < chart.units.size(); ++u)
    if (any_of(chart.blocks,
               [&](const ArenaBlock &block) { return block.unit == int(u); }))
      entries.push_back(boxOf(chart.units[u], getUnitClass(int(u))));
  for (const RoleStyle &style : kRoles) {
    if (none_of(chart.blocks, [&](const ArenaBlock &block) {
          return block.role == style.role;
        }))
      continue;
    bool scratch = style.role == BufferRole::Scratch;
    entries.push_back(
        boxOf(style.meaning,
              scratch ? style.classes : std::string("kind ") + style.classes));
  }
  top = drawLegend(svg, entries, 12, kArenaWidth - 12, top) + 14;
}

void ArenaPicture::drawAxis() {
  AxisUnit unit = getByteUnit(bytes);
  Ticks ticks = getTicks(bytes / unit.size, 8);
  svg.rect(kArenaLeft, top, kArenaPlot, kArenaHeight, "track");
  for (int i = 0; double(i) * ticks.step * unit.size <= bytes * 1.000001; ++i) {
    double value = double(i) * ticks.step, at = y(value * unit.size);
    svg.line(kArenaLeft - 4, at, kArenaLeft + kArenaPlot, at, "grid");
    svg.text(kArenaLeft - 8, at + 4, ticks.print(value) + " " + unit.name,
             "tick", "end");
  }
}

void ArenaPicture::drawBlock(const ArenaBlock &block) {
  double begin = x(block.first), width = x(block.last + 1) - begin,
         above = y(double(block.offset + block.bytes)),
         height = y(double(block.offset)) - above;
  const RoleStyle &style = styleOf(block.role);
  bool scratch = block.role == BufferRole::Scratch;
  std::string classes =
      scratch ? style.classes : getUnitClass(block.unit) + " " + style.classes;
  std::string hover = block.name + "\n";
  if (!block.group.empty())
    hover += block.group + "\n";
  hover += printBytes(double(block.bytes)) + " at " +
           printBytes(double(block.offset)) + "\ntasks " +
           std::to_string(block.first) + " to " + std::to_string(block.last);
  // A hair between blocks, as far as they are large enough to lose one.
  double gap = height > 3 ? 0.5 : 0;
  svg.rect(begin, above, std::max(width - 0.5, 0.3),
           std::max(height - gap, 0.2), classes, hover);
  if (height < 12)
    return;
  std::string label = fitText(block.name, width - 10, 10);
  if (!label.empty() && width > 60)
    svg.text(begin + 5, above + height / 2 + 3.5, label,
             block.role == BufferRole::Passed
                 ? "in on " + getUnitClass(block.unit)
                 : "in ink");
}

/// "up_blocks.1.attentions.0" as far as there is room for its end.
std::string fitEnd(StringRef name, double width, double size) {
  if (getTextWidth(name, size) <= width || !name.contains('.'))
    return fitText(name, width, size);
  while (name.contains('.') && getTextWidth(name, size) > width - size)
    name = name.split('.').second;
  return fitText("\u2026" + name.str(), width, size);
}

/// A bracket beside blocks that belong together, named where there is room:
/// `free` is the lowest place for a name.
void ArenaPicture::drawGroup(ArrayRef<ArenaBlock> blocks, double &free) {
  const ArenaBlock &first = blocks.front(), &last = blocks.back();
  double low = y(double(first.offset)),
         high = y(double(last.offset + last.bytes)),
         at = kArenaLeft + kArenaPlot + 6;
  int64_t sum = 0;
  for (const ArenaBlock &block : blocks)
    sum += block.bytes;
  bool scratch = first.role == BufferRole::Scratch;
  std::string unit = scratch ? "" : chart.units[size_t(first.unit)] + " ",
              bytes = "  " + printBytes(double(sum));
  svg.rect(at, high + 0.5, 4, std::max(low - high - 1, 0.4),
           scratch ? "none" : getUnitClass(first.unit),
           unit + first.group + bytes);
  double middle = (low + high) / 2 + 4;
  if (low - high < 9 || middle > free)
    return;
  double room = kGroups - 22 - getTextWidth(unit + bytes, 11);
  svg.text(
      at + 10, middle,
      fitText(unit + fitEnd(first.group, room, 11) + bytes, kGroups - 22, 11),
      "small", "start", unit + first.group + bytes);
  free = middle - 13;
}

void ArenaPicture::drawGroups() {
  ArrayRef<ArenaBlock> blocks = chart.blocks;
  double free = top + kArenaHeight + 10;
  while (!blocks.empty()) {
    size_t end = 1;
    while (end < blocks.size() && blocks[end].unit == blocks[0].unit &&
           blocks[end].role != BufferRole::Scratch &&
           blocks[end].group == blocks[0].group)
      ++end;
    drawGroup(blocks.take_front(end), free);
    blocks = blocks.drop_front(end);
  }
}

void ArenaPicture::drawStrip(double at) {
  svg.text(kArenaLeft - 8, at + 13, "tasks", "tick", "end");
  for (size_t i = 0; i < chart.tasks.size(); ++i) {
    const ArenaChart::Task &task = chart.tasks[i];
    double width = x(i + 1) - x(i);
    svg.rect(x(i), at, std::max(width - (width > 3 ? 0.6 : 0), 0.3), kStrip,
             classesOf(task), std::to_string(i) + ": " + task.hover);
  }
  // Numbers below, as many as fit.
  double widest = getTextWidth(std::to_string(columns), 11) + 14;
  size_t step =
      size_t(getTicks(double(columns), int(kArenaPlot / widest) - 1).step);
  for (size_t i = 0; i < chart.tasks.size(); i += std::max<size_t>(step, 1))
    svg.text((x(i) + x(i + 1)) / 2, at + kStrip + 14, std::to_string(i), "tick",
             "middle");
}

double ArenaPicture::drawTaskLegend(double at) {
  static const std::pair<BarKind, const char *> kinds[] = {
      {BarKind::Forward, "forward"},
      {BarKind::Backward, "backward"},
      {BarKind::Input, "gradients of inputs"},
      {BarKind::Weight, "gradients of weights"},
      {BarKind::Sync, "of a whole batch: loss, denominator"},
      {BarKind::Message, "message between modules"},
      {BarKind::Reduce, "gradients summed"}};
  std::vector<LegendEntry> entries;
  for (auto &[kind, meaning] : kinds)
    if (any_of(chart.tasks, [kind = kind](const ArenaChart::Task &task) {
          return task.kind == kind;
        }))
      entries.push_back(boxOf(
          meaning, "kind " + classesOf(ArenaChart::Task{kind, -1, -1, ""})));
  return drawLegend(svg, entries, kArenaLeft, kArenaWidth - 12, at);
}

} // namespace

void drawArena(raw_ostream &os, const ArenaChart &chart, bool standalone) {
  ArenaPicture(chart, standalone).draw(os);
}

} // namespace dt::picture
