//===- Report.h - Histograms, as text, JSON and a page ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_TOOLS_DTDATA_REPORT_H
#define DT_TOOLS_DTDATA_REPORT_H

#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dt::tools {

/// Value -> how often it is there. Files that the planner reads may say how
/// often by a fraction.
using Histogram = std::map<int64_t, double>;

/// [[value, how often], ...], ascending.
nlohmann::json toJson(const Histogram &histogram);

struct Chart {
  std::string title;   ///< "tokens a sample"
  std::string counted; ///< "samples"
  Histogram values;
};

/// How often two counts meet.
struct JointTable {
  std::string rows, columns;
  Histogram ofRows, ofColumns;
  std::map<std::pair<int64_t, int64_t>, double> cells;
};

struct Report {
  std::string head;                     ///< one line
  std::map<std::string, double> broken; ///< by reason
  std::vector<Chart> charts;
  std::vector<JointTable> tables;
  nlohmann::json json; ///< what a program reads of all that

  /// About sixteen bins of a round width, each a bar; no value no lines.
  void print() const;
  void printJson() const;
  /// A page that needs no other file.
  void writePage(llvm::raw_ostream &os) const;
};

} // namespace dt::tools

#endif // DT_TOOLS_DTDATA_REPORT_H
