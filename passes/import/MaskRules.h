//===- MaskRules.h - What a bool mask of attention says ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_MASKRULES_H
#define PASSES_IMPORT_MASKRULES_H

#include "dialects/nn/NNOps.h"

namespace dt::import {

/// Takes out of a bool mask what nn.attention says without one. The mask is
/// read as conditions that all hold (and; not, or):
///   - `j <= i + s - t` of its indices: `causal`
///   - `i + s - t - j < w` with it, or with `j - (i + s - t) < w`: `window`
///   - integers [b, t] of queries equal to integers [b, s] of keys: segments
///   - else bools of keys, or of queries, alone (padding): segments, too
///   - what is always true: nothing
/// The rest stays a mask. Failure: there is nothing to take out.
llvm::LogicalResult absorbMaskRules(nn::AttentionOp op,
                                    mlir::PatternRewriter &rewriter);

} // namespace dt::import

#endif // PASSES_IMPORT_MASKRULES_H
