//===- Memory.cpp - --emit=memory: what stands where in the arena ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace dt;

namespace {

/// The most bytes that live in one row, scratch included: no plan needs less.
std::pair<int64_t, size_t> findPeak(const ProgramReport &report) {
  std::vector<int64_t> change(report.rows.size() + 1);
  for (const BlockReport &block : report.blocks) {
    change[block.first] += block.bytes;
    change[block.last + 1] -= block.bytes;
  }
  std::pair<int64_t, size_t> peak = {0, 0};
  int64_t live = report.scratchBytes;
  for (size_t row = 0; row < report.rows.size(); ++row) {
    live += change[row];
    peak = std::max(peak, {live, row},
                    [](auto &a, auto &b) { return a.first < b.first; });
  }
  return peak;
}

std::string escape(llvm::StringRef text) {
  std::string out;
  for (char c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

constexpr int kWidth = 1000, kHeight = 560, kLeft = 90, kTop = 30;
const char *const kColours[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
                                "#76b7b2", "#edc948", "#9c755f", "#e15759"};

/// Places rows and bytes on the picture.
class Picture {
public:
  Picture(const ProgramReport &report, llvm::raw_ostream &os)
      : report(report), os(os), rows(std::max<size_t>(report.rows.size(), 1)),
        bytes(std::max<int64_t>(report.arenaBytes, 1)) {}

  void draw() {
    os << llvm::formatv(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"11\">\n",
        kLeft + kWidth + 20, kTop + kHeight + 60);
    os << llvm::formatv(
        "<text x=\"{0}\" y=\"18\">arena: {1:N} bytes; a column a task of the "
        "step, in order; pointing at a block names it</text>\n",
        kLeft, report.arenaBytes);
    for (int i = 0; i <= 4; ++i)
      os << llvm::formatv(
          "<text x=\"{0}\" y=\"{1:F1}\" text-anchor=\"end\">{2:N}</text>\n",
          kLeft - 6, kTop + kHeight * (1 - i / 4.0) + 4,
          report.arenaBytes / 4 * i);
    for (const BlockReport &block : report.blocks)
      rectangle(block, colourOf(block.module));
    if (report.scratchBytes)
      rectangle({"scratch, shared by all tasks", "", "", report.scratchOffset,
                 report.scratchBytes, 0, int64_t(rows) - 1},
                "#d0d0d0");
    drawRows();
    drawLegend();
    os << llvm::formatv(
        "<rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" fill=\"none\" "
        "stroke=\"black\"/>\n</svg>\n",
        kLeft, kTop, kWidth, kHeight);
  }

private:
  double x(int64_t row) const { return kLeft + double(kWidth) * row / rows; }
  double y(int64_t offset) const {
    return kTop + kHeight * (1 - double(offset) / bytes);
  }

  llvm::StringRef colourOf(llvm::StringRef module) const {
    for (auto [i, entry] : llvm::enumerate(report.modules))
      if (entry.name == module)
        return kColours[i % std::size(kColours)];
    return "#d0d0d0";
  }

  void rectangle(const BlockReport &block, llvm::StringRef colour) {
    double top = y(block.offset + block.bytes);
    os << llvm::formatv(
        "<rect x=\"{0:F2}\" y=\"{1:F2}\" width=\"{2:F2}\" height=\"{3:F2}\" "
        "fill=\"{4}\" stroke=\"white\" stroke-width=\"0.4\">"
        "<title>{5}\n{6:N} bytes at {7:N}, tasks {8} to {9}</title></rect>\n",
        x(block.first), top, x(block.last + 1) - x(block.first),
        y(block.offset) - top, colour,
        escape(block.name + (block.type.empty() ? "" : " " + block.type)),
        block.bytes, block.offset, block.first, block.last);
  }

  /// A number below the columns, as many as fit, with the task as its title.
  void drawRows() {
    size_t step = (rows + 39) / 40;
    for (size_t row = 0; row < report.rows.size(); row += step)
      os << llvm::formatv(
          "<text x=\"{0:F1}\" y=\"{1}\" "
          "text-anchor=\"middle\">{2}<title>{3}</title></text>\n",
          (x(row) + x(row + 1)) / 2, kTop + kHeight + 16, row,
          escape(report.rows[row]));
  }

  void drawLegend() {
    int at = kLeft;
    for (const ModuleReport &module : report.modules) {
      os << llvm::formatv(
          "<rect x=\"{0}\" y=\"{1}\" width=\"12\" height=\"12\" "
          "fill=\"{2}\"/><text x=\"{3}\" y=\"{4}\">{5}</text>\n",
          at, kTop + kHeight + 30, colourOf(module.name), at + 17,
          kTop + kHeight + 40, escape(module.name));
      at += 35 + 7 * module.name.size();
    }
  }

  const ProgramReport &report;
  llvm::raw_ostream &os;
  size_t rows;
  int64_t bytes;
};

} // namespace

void dt::printMemory(const ProgramReport &report, llvm::raw_ostream &os) {
  auto [peak, at] = findPeak(report);
  os << llvm::formatv("arena {0:N} bytes; at least {1:N} live at once",
                      report.arenaBytes, peak);
  if (!report.rows.empty())
    os << llvm::formatv(", in task {0} ({1})", at, report.rows[at]);
  os << llvm::formatv(
      "; parameters {0:N} bytes, beside the arena\n\ntasks of a step\n",
      report.parameterBytes);
  for (auto [i, row] : llvm::enumerate(report.rows))
    os << llvm::formatv("{0,6}  {1}\n", i, row);
  os << llvm::formatv("\n{0,14} {1,14}  {2,-11}  {3}\n", "offset", "bytes",
                      "tasks", "buffer");
  for (const BlockReport &block : report.blocks)
    os << llvm::formatv(
        "{0,14:N} {1,14:N}  {2,-11}  {3}\n", block.offset, block.bytes,
        llvm::formatv("{0}..{1}", block.first, block.last).str(), block.name);
  os << llvm::formatv("{0,14:N} {1,14:N}  {2,-11}  {3}\n", report.scratchOffset,
                      report.scratchBytes, "all", "scratch");
  os << "\nscratch of functions, callees included\n";
  for (auto &[name, bytes] : report.scratch)
    os << llvm::formatv("{0,14:N}  {1}\n", bytes, name);
  os << "\nbytes of every rank\n";
  printRankMemory(report, os);
}

void dt::printMemoryJson(const ProgramReport &report, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  auto [peak, at] = findPeak(report);
  json.object([&, peak = peak] {
    json.attribute("arena_bytes", report.arenaBytes);
    json.attribute("live_bytes", peak);
    json.attribute("parameter_bytes", report.parameterBytes);
    json.attributeArray("tasks", [&] {
      for (const std::string &row : report.rows)
        json.value(row);
    });
    json.attributeObject("scratch", [&] {
      json.attribute("offset", report.scratchOffset);
      json.attribute("bytes", report.scratchBytes);
    });
    json.attributeArray("ranks", [&] {
      for (const RankReport &rank : report.ranks)
        json.object([&] {
          json.attribute("scratch", rank.scratch);
          json.attributeObject("modules", [&] {
            for (const RankReport::Module &m : rank.modules)
              json.attribute(m.name,
                             llvm::json::Object{{"arena", m.arena},
                                                {"parameters", m.parameters},
                                                {"gradients", m.gradients},
                                                {"moments", m.moments},
                                                {"sums", m.sums}});
          });
        });
    });
    json.attributeArray("buffers", [&] {
      for (const BlockReport &block : report.blocks)
        json.value(llvm::json::Object{{"name", block.name},
                                      {"type", block.type},
                                      {"offset", block.offset},
                                      {"bytes", block.bytes},
                                      {"first", block.first},
                                      {"last", block.last}});
    });
  });
  os << "\n";
}

void dt::printMemorySvg(const ProgramReport &report, llvm::raw_ostream &os) {
  Picture(report, os).draw();
}
