//===- Rotary.h - Recover rotary embedding ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_ROTARY_H
#define PASSES_IMPORT_ROTARY_H

#include "mlir/IR/PatternMatch.h"

namespace dt::import {

/// x * cos + rotate_half(x) * sin with cos, sin equal in both halves (Llama
/// style)
/// -> nn.rotary.
void populateRotaryPatterns(mlir::RewritePatternSet &patterns);

} // namespace dt::import

#endif // PASSES_IMPORT_ROTARY_H
