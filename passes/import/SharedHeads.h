//===- SharedHeads.h - Heads that several query heads read ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_SHAREDHEADS_H
#define PASSES_IMPORT_SHAREDHEADS_H

#include "mlir/IR/PatternMatch.h"

namespace dt::import {

/// attention(q, repeat(k), repeat(v)) -> attention(q, k, v), where each head of
/// keys and values is repeated for a group of query heads (grouped-query
/// attention).
void populateSharedHeadsPatterns(mlir::RewritePatternSet &patterns);

} // namespace dt::import

#endif // PASSES_IMPORT_SHAREDHEADS_H
