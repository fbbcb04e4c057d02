//===- Build.h - write shards -----------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The dt-data subcommands that make shards: documents composed of emoji
// pictures and names, picture-name pairs, or the files of a folder.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TOOLS_DTDATA_BUILD_H
#define DT_TOOLS_DTDATA_BUILD_H

#include "tools/dt-data/Emoji.h"

#include <string>
#include <vector>

namespace dt::tools {

struct DocumentOptions {
  int64_t sequences = 12000;
  int64_t tokens = 44;     ///< of a document at most, counted as
                           ///< docs/data-recipe.md's example templates do
  int64_t imageTokens = 4; ///< tokens that stand for a picture
  int64_t minImages = 0, maxImages = 3, minTargets = 0, maxTargets = 4;
  uint64_t seed = 0;
};

/// Documents: shuffled picture -> name and name -> picture segments, as many of
/// each as drawn uniformly from the ranges and as fit, then pairs of names.
/// Each emoji comes once in each kind before any comes again. Throws rt::Error.
void writeDocuments(const std::vector<Emoji> &emoji,
                    const DocumentOptions &options, const std::string &shard);

/// KEY.png and KEY.txt for each emoji. Throws rt::Error.
void writePairs(const std::vector<Emoji> &emoji, const std::string &shard);

/// All files below a folder, by name. Throws rt::Error.
void writeFolder(const std::string &folder, const std::string &shard);

/// The words of all names, sorted. Throws rt::Error.
void writeVocabulary(const std::vector<std::string> &texts,
                     const std::string &file);

} // namespace dt::tools

#endif // DT_TOOLS_DTDATA_BUILD_H
