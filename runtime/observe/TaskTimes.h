//===- TaskTimes.h - what reports and profiles make of times ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_TASKTIMES_H
#define DT_RUNTIME_OBSERVE_TASKTIMES_H

#include "runtime/Program.h"

#include <algorithm>
#include <vector>

namespace dt::rt {

/// Kinds of rows that compute: forward, backward, its two halves.
constexpr int kComputeKinds = 4;

/// The number of such a kind, in that order; -1 of others.
inline int computeKindOf(TaskKind kind) {
  switch (kind) {
  case TaskKind::Forward:
    return 0;
  case TaskKind::Backward:
    return 1;
  case TaskKind::BackwardInput:
    return 2;
  case TaskKind::BackwardWeight:
    return 3;
  default:
    return -1;
  }
}

/// The middle one, of an even number the upper; 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_TASKTIMES_H
