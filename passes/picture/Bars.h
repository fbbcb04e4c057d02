//===- Bars.h - Sums of parts, as a picture ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PICTURE_BARS_H
#define PASSES_PICTURE_BARS_H

#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <string>
#include <vector>

namespace dt::picture {

/// A bar a row, each a sum of the same parts.
struct BarChart {
  std::string label;              ///< what the picture shows
  std::vector<std::string> parts; ///< for the legend
  std::vector<bool> neutral;      ///< by part: grey, nothing is done
  bool areUnits = false;          ///< parts have the colours of units
  struct Row {
    std::string name;
    std::vector<double> values; ///< by part
    double limit = 0;           ///< a mark; 0: none
  };
  std::vector<Row> rows;
  std::string limitName; ///< of the marks
  std::function<std::string(double)> print;
};

/// Not standalone: the inside of a page.
void drawBars(llvm::raw_ostream &os, const BarChart &chart);

} // namespace dt::picture

#endif // PASSES_PICTURE_BARS_H
