//===- Pictures.h - Reports as pictures -------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_PICTURES_H
#define TOOLS_DT_OPT_PICTURES_H

#include "tools/dt-opt/Report.h"

#include "passes/picture/Bars.h"

namespace dt {

/// Rows of ranks: those that have the same share one, which is called after
/// them.
using RankRows =
    std::vector<std::pair<picture::BarChart::Row, std::vector<int64_t>>>;
/// Adds a rank whose row is called after what it runs.
void addRank(RankRows &rows, picture::BarChart::Row row, int64_t rank);
/// Names the rows: "ranks 0-3: llm.0".
std::vector<picture::BarChart::Row> nameRows(const RankRows &rows);

/// Bytes of every rank as they will be allocated; after lowering.
picture::BarChart makeRankBars(const ProgramReport &report);
/// The arena of rank 0; after lowering.
void drawArenaOf(const ProgramReport &report, llvm::raw_ostream &os,
                 bool standalone);

} // namespace dt

#endif // TOOLS_DT_OPT_PICTURES_H
