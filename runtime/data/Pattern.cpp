//===- Pattern.cpp - which files are shards ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A pattern like `shards/*` also names folders, the indices beside the shards
// and whatever else lies there. A path without wildcards is taken at its word.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Index.h"

#include "runtime/base/Files.h"
#include "runtime/data/Braces.h"

#include <algorithm>
#include <cstdlib>
#include <sys/stat.h>

using namespace dt::rt;
using namespace dt::rt::data;

namespace {
constexpr size_t headerBytes = 512, sumAt = 148, sumBytes = 8;

/// What programs like this one put beside shards.
bool isOurs(const std::string &path) {
  return endsWith(path, ".idx.json") || endsWith(path, ".tmp");
}

/// The first header's checksum is right; every kind of tar has one.
bool startsAsTar(const std::string &path) {
  PositionedFile file(path);
  if (file.size() < int64_t(headerBytes))
    return false;
  std::string header = file.read(0, headerBytes);
  unsigned long want = std::strtoul(header.substr(sumAt, sumBytes).c_str(),
                                    nullptr, 8),
                sum = 0;
  for (size_t i = 0; i < headerBytes; ++i)
    sum += i >= sumAt && i < sumAt + sumBytes ? (unsigned char)(' ')
                                              : (unsigned char)(header[i]);
  return sum == want;
}

/// Why a file that a wildcard matched is no shard; empty: it is one, or claims
/// to be by its name and is refused later if it is not.
std::string reasonAgainst(const std::string &path, const struct stat &info) {
  if (!S_ISREG(info.st_mode))
    return "not a regular file";
  if (info.st_size == 0)
    return "empty";
  if (!endsWith(path, ".tar") && !startsAsTar(path))
    return "not a tar file";
  return {};
}

void addMatched(const std::string &path, ShardPaths &out) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    failedCall(path, "open");
  if (S_ISDIR(info.st_mode) || isOurs(path))
    return;
  std::string reason = reasonAgainst(path, info);
  if (reason.empty())
    out.paths.push_back(path);
  else
    out.leftOut.push_back(path + " (" + reason + ")");
}

void sortOnce(std::vector<std::string> &texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
}
} // namespace

ShardPaths data::expandPattern(const std::string &pattern) {
  ShardPaths out;
  std::vector<std::string> missing;
  for (const std::string &name : expandBraces(pattern)) {
    bool wild = name.find_first_of("*?[") != std::string::npos;
    std::vector<std::string> paths = matchPaths(name);
    if (!wild && paths.empty())
      missing.push_back(name);
    for (const std::string &path : paths)
      if (wild)
        addMatched(path, out);
      else
        out.paths.push_back(path);
  }
  sortOnce(out.paths);
  sortOnce(out.leftOut);
  if (!missing.empty() && missing[0] != pattern)
    throw Error(pattern + ": no such shard: " + missing[0] +
                (missing.size() == 1
                     ? ""
                     : " and " + std::to_string(missing.size() - 1) + " more"));
  if (out.paths.empty()) {
    std::string beside;
    for (const std::string &name : out.leftOut)
      beside += (beside.empty() ? ", only " : ", ") + name;
    throw Error(pattern + ": no such shard" + beside);
  }
  return out;
}
