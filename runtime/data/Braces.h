//===- Braces.h - names that a pattern stands for ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_BRACES_H
#define DT_RUNTIME_DATA_BRACES_H

#include <cstddef>
#include <string>
#include <vector>

namespace dt::rt::data {

/// More shards than that are a slip of the pen.
constexpr size_t kMostShardNames = size_t(1) << 20;

/// The names of a pattern in which braces hold lists {a,b}, numbers {000..012},
/// letters {a..f} or both with a step {0..20..4}, as in WebDataset (Python's
/// braceexpand) and bash: numbers have the digits of the longer end if one of
/// them begins with a 0; braces may follow each other and be nested; what holds
/// neither a comma nor a range stays as it is. A backslash, which stays, takes
/// the next character's meaning away. In the order of the pattern. Throws Error
/// that names the pattern: braces without their other half, a step of 0, more
/// than `most` names.
std::vector<std::string> expandBraces(const std::string &pattern,
                                      size_t most = kMostShardNames);

/// Paths that a name with wildcards (*, ?, []) matches, or the path that it is
/// if that exists. Throws SystemError.
std::vector<std::string> matchPaths(const std::string &name);

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_BRACES_H
