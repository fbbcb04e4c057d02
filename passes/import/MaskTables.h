//===- MaskTables.h - What constant masks say -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Exporters compute masks of fixed sizes and leave a table.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_MASKTABLES_H
#define PASSES_IMPORT_MASKTABLES_H

#include "passes/import/MaskConditions.h"

namespace dt::import {

/// Bounds of j - i that a table of queries i and keys j holds within, and
/// nowhere else. `holds`: else where the table is false.
std::optional<llvm::SmallVector<IndexBound>> readBand(const ScoreView &table,
                                                      bool holds);

/// Numbers of segments, one a query and one a key.
struct Blocks {
  llvm::SmallVector<int32_t> queries, keys;
};

/// Segments for which a table of queries and keys holds within, and nowhere
/// else.
std::optional<Blocks> readBlocks(const ScoreView &table, bool holds);

} // namespace dt::import

#endif // PASSES_IMPORT_MASKTABLES_H
