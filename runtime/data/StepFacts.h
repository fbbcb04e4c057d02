//===- StepFacts.h - what decides the parts of a batch ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What is read of a batch file before its rows are: small beside these, and
// enough to know which rank works on which of them. So a rank that has not read
// the file knows what it is to get.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_STEPFACTS_H
#define DT_RUNTIME_DATA_STEPFACTS_H

#include "runtime/data/BatchSource.h"

#include <map>
#include <string>
#include <vector>

namespace dt::rt {

struct StepFacts {
  std::string path;         ///< begins errors
  uint64_t fingerprint = 0; ///< of the file
  std::vector<std::vector<int64_t>>
      symbols; ///< [module][symbol], of the global batch; -1 not known yet
  std::map<std::string, Measure> measures; ///< "image.patches"
  /// Items of a kind in the batch; rows of a measure.
  std::map<std::string, int64_t> counts;
  std::map<std::string, std::vector<int64_t>>
      owners; ///< kind -> sample of each item

  int64_t samples() const { return counts.at(kSample); }
  /// All of it, for other ranks.
  std::string text() const;
  static StepFacts read(const std::string &text);
};

/// Each sample is its own.
std::vector<int64_t> ownersOfSamples(const StepFacts &facts);

/// A batch with its assignment and without parts. Throws Error.
Batch assignParts(const ProgramInfo &program, const StepFacts &facts,
                  Reorder reorder);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_STEPFACTS_H
