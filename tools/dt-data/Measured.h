//===- Measured.h - what files of measured samples hold ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Measures (docs/sizes.md) of samples and of their items, from batch files,
// from indices of tools/finetune and from descriptions of data that the planner
// reads. No recipe is needed: these files name what they have.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TOOLS_DTDATA_MEASURED_H
#define DT_TOOLS_DTDATA_MEASURED_H

#include "tools/dt-data/Report.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dt::tools {

/// Columns: a number for each sample, or for each item of a kind.
struct MeasuredSamples {
  struct Kind {
    int64_t items = 0;
    std::map<std::string, std::vector<int64_t>> measures; ///< [items] each
    std::vector<int64_t> owner; ///< sample of each item; empty: nobody knows

    bool isOwned() const { return int64_t(owner.size()) == items; }
    Kind empty() const; ///< none, of the same measures
  };
  int64_t samples = 0;         ///< -1: nobody knows
  std::vector<double> weights; ///< [samples]: how often each is there
  std::map<std::string, std::vector<int64_t>> measures; ///< [samples] each
  std::map<std::string, Kind> kinds;
  std::map<std::string, double> broken; ///< samples left out, by reason

  /// Samples of another file behind these. Throws rt::Error, which names it,
  /// unless it says the same of its samples.
  void append(const MeasuredSamples &more, const std::string &file);
};

/// Whether a file is one of them: a pipe, "-", safetensors, JSON without
/// "data" and "inputs".
bool isMeasured(const std::string &path);
/// All of the files, which may be of several sorts. Throws rt::Error that names
/// file and tensor or key.
MeasuredSamples readMeasured(const std::vector<std::string> &paths);
/// A chart for each measure, of an item and of all items of a sample.
Report reportOf(const MeasuredSamples &samples, size_t files);

} // namespace dt::tools

#endif // DT_TOOLS_DTDATA_MEASURED_H
