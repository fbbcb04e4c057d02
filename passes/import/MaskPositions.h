//===- MaskPositions.h - Positions that restart in packed rows --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Where documents stand one after another in a row, transformers numbers them
// by the places at which positions do not go on by 1, and compares positions
// for the causal rule and windows. Inside a document positions differ as
// indices do, so these are rules of indices.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_MASKPOSITIONS_H
#define PASSES_IMPORT_MASKPOSITIONS_H

#include "passes/import/MaskConditions.h"

namespace dt::import {

/// Positions [b, t] if `numbers` [b, t] counts the places at which they do not
/// go on by 1: `cumsum(x[j] - x[j - 1] != 1)`; null if not.
mlir::Value matchRestarts(mlir::Value numbers);

/// What a condition of positions says of j - i where two rows have the same
/// number of matchRestarts.
std::optional<IndexBound> readPositions(const MaskCondition &condition,
                                        mlir::Value positions);

} // namespace dt::import

#endif // PASSES_IMPORT_MASKPOSITIONS_H
