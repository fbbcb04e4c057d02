//===- GradientGroups.h - ranks that add up gradients -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Who has the same part of a parameter and a share of its gradient's sum: all
// replicas of the module, and of each the ranks that have other tokens, where
// the parameter's gradient is a partial sum over them (ParameterInfo::partial).
// They add gradients up in buckets, and under ModuleInfo::zero share out what
// the optimizer keeps. Parameters that are cut over tokens' ranks (experts), or
// have one gradient on all of them, are shared by fewer: each says so by its
// axes.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STATE_GRADIENTGROUPS_H
#define DT_RUNTIME_STATE_GRADIENTGROUPS_H

#include "runtime/comm/LinkNeeds.h"
#include "runtime/state/Placement.h"

#include <vector>

namespace dt::rt {

/// Of one module, which all parameters with these axes have in common.
struct GradientGroup {
  Axes axes; ///< of a replica's ranks

  /// Ranks of a group, of which there are several in a module.
  int64_t size(const Placement &placement, size_t module) const;
  /// Those of the replicas' place `tp`, replica by replica.
  std::vector<int> members(const Placement &placement, size_t module,
                           int64_t tp) const;
  /// Where a rank stands among these.
  int64_t place(const Placement::Place &at) const;
  /// Whether the place is the first of its group in a replica.
  bool isFirst(int64_t tp) const;
};

/// Axes of partial sums: those over which tokens are cut, and the others.
struct PartialAxes {
  Axes tokens;
  std::vector<CutInfo> others; ///< in the table's order
};
PartialAxes partialAxes(const ParameterInfo &parameter);

} // namespace dt::rt

#endif // DT_RUNTIME_STATE_GRADIENTGROUPS_H
