//===- Inspect.h - index, check and count shards ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The dt-data subcommands that read shards.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TOOLS_DTDATA_INSPECT_H
#define DT_TOOLS_DTDATA_INSPECT_H

#include "runtime/data/Config.h"
#include "tools/dt-data/Report.h"

#include <string>
#include <vector>

namespace dt::tools {

/// Builds and writes the indices (also where they exist), names what is broken
/// on stderr. False: a shard has no good sample or its index cannot be written.
/// Throws rt::Error.
bool indexShards(const rt::data::Config &config,
                 const std::vector<std::string> &shards, int workers);

/// The same without writing and with every broken sample named. False: anything
/// is broken. Throws rt::Error.
bool checkShards(const rt::data::Config &config,
                 const std::vector<std::string> &shards, int workers);

/// Samples, broken ones by reason, histograms of tokens and items. Throws
/// rt::Error.
Report countSamples(const rt::data::Config &config,
                    const std::vector<std::string> &shards, int workers);

/// Writes the planner's description of the data (docs/planning.md): every shape
/// of a good sample, tokens and items together, with how often it is there.
/// Of the kinds that a sample has several of, by name, the first are images,
/// the second targets. Throws rt::Error.
void writeSamples(const rt::data::Config &config,
                  const std::vector<std::string> &shards, int workers,
                  const std::string &path);

/// All texts of the shards, broken samples left out and named on stderr. Throws
/// rt::Error.
std::vector<std::string> collectTexts(const std::vector<std::string> &shards);

} // namespace dt::tools

#endif // DT_TOOLS_DTDATA_INSPECT_H
