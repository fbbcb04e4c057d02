//===- Report.cpp - Histograms, as text, JSON and a page ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-data/Report.h"

#include "passes/picture/Bars.h"
#include "passes/picture/Page.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace dt;
using namespace dt::tools;
using Json = nlohmann::json;

namespace {

/// Digits of a whole number, else six of them.
std::string countText(double count) {
  char text[32];
  std::snprintf(text, sizeof text, count == std::floor(count) ? "%.0f" : "%.6g",
                count);
  return text;
}

Json countJson(double count) {
  if (count == std::floor(count) && count < 0x1p53)
    return int64_t(count);
  return count;
}

struct Bin {
  std::string label; ///< "20-29"
  double count;
};

/// A histogram in about sixteen ranges of a round width, and what it says at a
/// glance.
class Binned {
public:
  explicit Binned(const Histogram &values)
      : values(values), low(values.begin()->first),
        high(values.rbegin()->first) {
    int64_t width = 1;
    for (int i = 0; (high - low) / width >= 16; ++i) // 1, 2, 5, 10, 20, 50, ...
      width = i % 3 == 1 ? width / 2 * 5 : width * 2;
    std::map<int64_t, double> counts;
    for (auto &[value, n] : values) {
      counts[value / width] += n;
      sum += double(value) * n;
      all += n;
    }
    for (int64_t bin = low / width; bin <= high / width; ++bin) {
      std::string label = std::to_string(bin * width);
      if (width > 1)
        label += "-" + std::to_string((bin + 1) * width - 1);
      bins.push_back({label, counts[bin]});
      top = std::max(top, counts[bin]);
    }
  }

  std::string describe() const {
    return llvm::formatv("mean {0:f2}, from {1} to {2}, half at most {3}, 99 % "
                         "at most {4}",
                         all > 0 ? sum / all : 0, low, high, least(0.5),
                         least(0.99));
  }

  std::vector<Bin> bins;
  double top = 0; ///< of the fullest bin

private:
  /// The least value that so large a share is not above.
  int64_t least(double share) const {
    double below = 0;
    for (auto &[value, n] : values)
      if ((below += n) >= share * all)
        return value;
    return high;
  }

  const Histogram &values;
  int64_t low, high;
  double sum = 0, all = 0;
};

void printChart(const Chart &chart) {
  if (chart.values.empty())
    return;
  Binned binned(chart.values);
  std::printf("%s: %s\n", chart.title.c_str(), binned.describe().c_str());
  for (const Bin &bin : binned.bins)
    std::printf(
        "  %13s %9s %s\n", bin.label.c_str(), countText(bin.count).c_str(),
        std::string(binned.top > 0 ? size_t(bin.count * 50 / binned.top) : 0,
                    '#')
            .c_str());
}

void printTable(const JointTable &table) {
  std::printf("%s (rows) by %s (columns)\n%8s", table.rows.c_str(),
              table.columns.c_str(), "");
  for (auto &column : table.ofColumns)
    std::printf("%9lld", (long long)column.first);
  std::printf("\n");
  for (auto &row : table.ofRows) {
    std::printf("%8lld", (long long)row.first);
    for (auto &column : table.ofColumns) {
      auto cell = table.cells.find({row.first, column.first});
      std::printf(
          "%9s",
          countText(cell == table.cells.end() ? 0 : cell->second).c_str());
    }
    std::printf("\n");
  }
}

void drawChart(picture::Page &page, const Chart &chart) {
  if (chart.values.empty())
    return;
  Binned binned(chart.values);
  page.heading(chart.title);
  page.paragraph(binned.describe());
  picture::BarChart bars;
  bars.label = chart.title;
  bars.parts = {chart.counted};
  bars.neutral = {false};
  bars.print = countText;
  for (const Bin &bin : binned.bins)
    bars.rows.push_back({bin.label, {bin.count}});
  page.picture([&](llvm::raw_ostream &os) { picture::drawBars(os, bars); });
}

void drawTable(picture::Page &page, const JointTable &table) {
  page.heading(table.rows + " (rows) by " + table.columns + " (columns)");
  picture::HtmlTable html;
  html.head = {table.rows};
  for (auto &column : table.ofColumns)
    html.head.push_back(std::to_string(column.first));
  for (auto &row : table.ofRows) {
    html.rows.push_back({std::to_string(row.first)});
    for (auto &column : table.ofColumns) {
      auto cell = table.cells.find({row.first, column.first});
      html.rows.back().push_back(
          countText(cell == table.cells.end() ? 0 : cell->second));
    }
  }
  page.table(html);
}

} // namespace

Json tools::toJson(const Histogram &histogram) {
  Json out = Json::array();
  for (auto &[value, count] : histogram)
    out.push_back({value, countJson(count)});
  return out;
}

void Report::print() const {
  std::printf("%s\n", head.c_str());
  for (auto &[reason, n] : broken)
    std::printf("  %9s %s\n", countText(n).c_str(), reason.c_str());
  for (const Chart &chart : charts)
    printChart(chart);
  for (const JointTable &table : tables)
    printTable(table);
}

void Report::printJson() const {
  std::printf(
      "%s\n",
      json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

void Report::writePage(llvm::raw_ostream &os) const {
  picture::Page page(os, "What samples hold");
  page.paragraph(head);
  if (!broken.empty()) {
    picture::HtmlTable table;
    table.head = {"broken because", "samples"};
    for (auto &[reason, n] : broken)
      table.rows.push_back({reason, countText(n)});
    page.table(table);
  }
  for (const Chart &chart : charts)
    drawChart(page, chart);
  for (const JointTable &table : tables)
    drawTable(page, table);
}
