//===- MaskNumbers.h - Masks that are computed with numbers -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_MASKNUMBERS_H
#define PASSES_IMPORT_MASKNUMBERS_H

#include "dialects/nn/NNOps.h"

namespace dt::import {

/// Bring masks into the form that Masks.h and MaskRules.h read:
///   - `(1 - m) * lowest`, where m is 0 or 1 and made of bools (casts, their
///     products, `1 - m`), and `m == 0`, `m > 0.5`: bools, and a choice by them
///   - sums of numbers that are -inf or 0: one choice of them
///   - a - b == 0 of integers: a == b
///   - reshape, broadcast of where(c, hidden, x) with numbers: around c
void populateMaskNumberPatterns(mlir::RewritePatternSet &patterns);

} // namespace dt::import

#endif // PASSES_IMPORT_MASKNUMBERS_H
