//===- PartGroups.h - modules whose shares are cut together -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_PARTGROUPS_H
#define DT_RUNTIME_DATA_PARTGROUPS_H

#include "runtime/data/Assignment.h"

namespace dt::rt {

/// Modules whose shares are cut together, so that they have equal samples (or
/// equal items, if all work by the same kind). Pieces are each module's own.
struct PartGroup {
  std::vector<int32_t> modules; ///< ascending
  int32_t dp = 1;
  std::vector<int32_t> speeds; ///< ModuleInfo::speeds, of all its modules
  /// What is cut: the kind of all its modules; "sample" if they are of several
  /// kinds, or if a module has rows of several.
  std::string item;
};
/// All modules but whole-batch ones, each in one group.
std::vector<PartGroup> partGroups(const ProgramInfo &program);
/// Whether a part of the module has samples that dims and inputs of other kinds
/// than its own can be about: it is not cut by items. `group`: its own.
bool hasSamples(const ModuleInfo &module, const PartGroup &group);

/// "sample" where the table says nothing.
const char *itemOf(const ModuleInfo &module);
/// ModuleInfo::speeds.
std::vector<int32_t> speedsOf(const ModuleInfo &module);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_PARTGROUPS_H
