//===- Bars.cpp - Sums of parts, as a picture -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/picture/Bars.h"

#include "passes/picture/Markup.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace llvm;

namespace dt::picture {

namespace {

constexpr double kBarsWidth = 1400, kBar = 24, kBarPitch = 34, kMostName = 280;

class BarsPicture {
public:
  explicit BarsPicture(const BarChart &chart)
      : chart(chart), svg(kBarsWidth, chart.label) {}

  void draw(raw_ostream &os) {
    double names = 0, sums = 0;
    for (const BarChart::Row &row : chart.rows) {
      names = std::max(names, 1.1 * getTextWidth(row.name, 12));
      sums = std::max(sums, getTextWidth(sumOf(row), 12));
      most = std::max({most, row.limit, totalOf(row)});
    }
    left = names > 0 ? std::min(names, kMostName) + 14 : 0;
    plot = kBarsWidth - left - sums - 16;
    double y = drawLegend(svg, legend(), 0, kBarsWidth, 2) + 8;
    for (const BarChart::Row &row : chart.rows) {
      drawRow(row, y);
      y += kBarPitch;
    }
    svg.write(os, y, false);
  }

private:
  static double totalOf(const BarChart::Row &row) {
    return std::accumulate(row.values.begin(), row.values.end(), 0.0);
  }
  std::string sumOf(const BarChart::Row &row) const {
    std::string text = chart.print(totalOf(row));
    return row.limit > 0 ? text + " of " + chart.print(row.limit) : text;
  }
  double x(double value) const {
    return left + (most > 0 ? plot * value / most : 0);
  }
  bool isNeutral(size_t part) const {
    return part < chart.neutral.size() && chart.neutral[part];
  }
  std::string classOf(size_t part) const {
    if (isNeutral(part))
      return "none";
    return chart.areUnits ? getUnitClass(int(part)) : getPartClass(int(part));
  }

  std::vector<LegendEntry> legend() const {
    std::vector<LegendEntry> entries;
    for (size_t part = 0; part < chart.parts.size(); ++part)
      if (llvm::any_of(chart.rows, [&](const BarChart::Row &row) {
            return row.values[part] > 0;
          }))
        entries.push_back(boxOf(chart.parts[part], classOf(part)));
    if (!chart.limitName.empty())
      entries.push_back({chart.limitName, [](Svg &to, double x, double y) {
                           to.line(x + 7, y - 1, x + 7, y + 13, "cap");
                         }});
    return entries;
  }

  void drawRow(const BarChart::Row &row, double y) {
    svg.text(0, y + 16, fitText(row.name, kMostName, 12), "strong", "start",
             row.name);
    svg.rect(left, y, plot, kBar, "track");
    double at = 0;
    for (size_t part = 0; part < row.values.size(); ++part) {
      double value = row.values[part];
      if (!(value > 0))
        continue;
      double begin = x(at), width = x(at + value) - begin;
      std::string text = chart.print(value);
      svg.rect(begin, y, std::max(0.3, width - 0.6), kBar, classOf(part),
               chart.parts[part] + ": " + text);
      if (getTextWidth(text, 10) + 8 <= width)
        svg.text(begin + width / 2, y + 15.6, text,
                 isNeutral(part) ? "in ink" : "in on " + classOf(part),
                 "middle");
      at += value;
    }
    if (row.limit > 0)
      svg.line(x(row.limit), y - 3, x(row.limit), y + kBar + 3, "cap",
               chart.limitName + ": " + chart.print(row.limit));
    svg.text(kBarsWidth, y + 16, sumOf(row), "soft", "end");
  }

  const BarChart &chart;
  Svg svg;
  double left = 0, plot = 0, most = 0;
};

} // namespace

void drawBars(raw_ostream &os, const BarChart &chart) {
  BarsPicture(chart).draw(os);
}

} // namespace dt::picture
