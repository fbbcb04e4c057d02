//===- MemoryPicture.cpp - --emit=memory as a picture -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Pictures.h"

#include "passes/picture/Arena.h"
#include "passes/picture/Page.h"
#include "passes/picture/Units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace dt;

namespace {

using picture::ArenaBlock;
using picture::ArenaChart;
using picture::BarKind;
using picture::printBytes;

/// Modules of the report, in its order.
int findUnit(const ProgramReport &report, llvm::StringRef module) {
  for (auto [i, entry] : llvm::enumerate(report.modules))
    if (entry.name == module)
      return int(i);
  return -1;
}

/// Rows begin with the kind of their task: "backward_input llm 3".
BarKind kindOf(llvm::StringRef word) {
  return llvm::StringSwitch<BarKind>(word)
      .Case("forward", BarKind::Forward)
      .Case("backward", BarKind::Backward)
      .Case("backward_input", BarKind::Input)
      .Case("backward_weight", BarKind::Weight)
      .Case("reduce", BarKind::Reduce)
      .Case("denominator", BarKind::Sync)
      .Default(BarKind::Message);
}

ArenaChart::Task makeTask(const ProgramReport &report, llvm::StringRef row) {
  auto [kind, rest] = row.split(' ');
  ArenaChart::Task task{kindOf(kind), -1, -1, row.str()};
  task.unit = findUnit(report, rest.split(' ').first);
  return task;
}

ArenaBlock makeBlock(const ProgramReport &report, const BlockReport &from) {
  ArenaBlock block;
  block.name = from.name;
  if (!from.residual.made.empty())
    block.name += ": " + from.residual.made;
  block.unit = std::max(0, findUnit(report, from.module));
  block.offset = from.offset;
  block.bytes = from.bytes;
  block.first = size_t(from.first);
  block.last = size_t(from.last);
  block.role = from.role == BlockReport::Saved ? picture::BufferRole::Saved
               : from.role == BlockReport::Gradient
                   ? picture::BufferRole::Gradient
                   : picture::BufferRole::Passed;
  if (from.role == BlockReport::Saved)
    block.group =
        from.residual.layer.empty() ? "outside layers" : from.residual.layer;
  return block;
}

ArenaChart makeChart(const ProgramReport &report) {
  ArenaChart chart;
  chart.title = "Arena of rank 0: " + printBytes(double(report.arenaBytes));
  chart.notes = {
      "Bytes upwards, tasks of a step in their order to the right. Parameters "
      "(" +
          printBytes(double(report.parameterBytes)) +
          "), gradients and the optimizer's state are beside the arena.",
      "A box is a buffer while it is in use; pointing at it names it. Brackets "
      "on the right are layers: buffers that stand next to each other."};
  for (const ModuleReport &module : report.modules)
    chart.units.push_back(module.name);
  for (const std::string &row : report.rows)
    chart.tasks.push_back(makeTask(report, row));
  for (const BlockReport &block : report.blocks)
    chart.blocks.push_back(makeBlock(report, block));
  if (report.scratchBytes)
    chart.blocks.push_back({"scratch", "scratch", picture::BufferRole::Scratch,
                            -1, report.scratchOffset, report.scratchBytes, 0,
                            report.rows.empty() ? 0 : report.rows.size() - 1});
  chart.bytes = report.arenaBytes;
  return chart;
}

/// "f32, [batch, 44, 512]" of "!rt.buffer<f32, ["batch", 44, 512]>".
std::string shorten(llvm::StringRef type) {
  type.consume_front("!rt.buffer<");
  type.consume_back(">");
  std::string text;
  for (char c : type)
    if (c != '"')
      text += c;
  return text;
}

void addLargest(const ProgramReport &report, picture::Page &page) {
  constexpr size_t most = 40;
  std::vector<const BlockReport *> blocks;
  for (const BlockReport &block : report.blocks)
    blocks.push_back(&block);
  llvm::sort(blocks, [](auto *a, auto *b) {
    return std::make_pair(-a->bytes, a->offset) <
           std::make_pair(-b->bytes, b->offset);
  });
  picture::HtmlTable table;
  table.head = {"buffer", "layer", "made by", "type", "bytes", "tasks"};
  table.words = 4;
  for (const BlockReport *block : llvm::ArrayRef(blocks).take_front(most))
    table.rows.push_back(
        {block->name, block->residual.layer, block->residual.made,
         shorten(block->type), printBytes(double(block->bytes)),
         std::to_string(block->first) + " to " + std::to_string(block->last)});
  page.heading(blocks.size() > most
                   ? "The " + std::to_string(most) + " largest of " +
                         std::to_string(blocks.size()) + " buffers"
                   : "Buffers");
  page.table(table);
}

} // namespace

void dt::addRank(RankRows &rows, picture::BarChart::Row row, int64_t rank) {
  auto known = llvm::find_if(rows, [&](auto &entry) {
    return entry.first.name == row.name && entry.first.values == row.values &&
           entry.first.limit == row.limit;
  });
  if (known == rows.end())
    known = rows.insert(known, {std::move(row), {}});
  known->second.push_back(rank);
}

std::vector<picture::BarChart::Row> dt::nameRows(const RankRows &rows) {
  std::vector<picture::BarChart::Row> named;
  for (auto &[row, ranks] : rows) {
    named.push_back(row);
    named.back().name = (ranks.size() == 1 ? "rank " : "ranks ") +
                        picture::printRanges(ranks) + ": " + row.name;
  }
  return named;
}

picture::BarChart dt::makeRankBars(const ProgramReport &report) {
  picture::BarChart bars;
  bars.label = "bytes of every rank";
  bars.parts = {"arena",     "scratch",         "parameters",
                "gradients", "optimizer state", "gradients being summed",
                "messages"};
  RankRows rows;
  for (auto [i, rank] : llvm::enumerate(report.ranks)) {
    RankReport::Module sum = rank.sum(", ");
    picture::BarChart::Row row{
        sum.name,
        {double(sum.arena), double(rank.scratch), double(sum.parameters),
         double(sum.gradients), double(sum.moments), double(sum.sums),
         double(rank.getMostMessages(report.onHost).device)},
        0};
    addRank(rows, std::move(row), int64_t(i));
  }
  bars.rows = nameRows(rows);
  bars.print = printBytes;
  return bars;
}

void dt::drawArenaOf(const ProgramReport &report, llvm::raw_ostream &os,
                     bool standalone) {
  picture::drawArena(os, makeChart(report), standalone);
}

void dt::printMemorySvg(const ProgramReport &report, llvm::raw_ostream &os) {
  drawArenaOf(report, os, /*standalone=*/true);
}

void dt::printMemoryHtml(const ProgramReport &report, llvm::raw_ostream &os) {
  ArenaChart chart = makeChart(report);
  picture::Page page(os, "Memory");
  page.heading("Every rank");
  page.paragraph("What ranks allocate, to the byte. A row stands for all ranks "
                 "that have the same.");
  picture::BarChart bars = makeRankBars(report);
  page.picture([&](llvm::raw_ostream &to) { picture::drawBars(to, bars); });
  page.heading(chart.title);
  for (const std::string &note : chart.notes)
    page.paragraph(note);
  page.picture([&](llvm::raw_ostream &to) {
    picture::drawArena(to, chart, /*standalone=*/false);
  });
  addLargest(report, page);
}
