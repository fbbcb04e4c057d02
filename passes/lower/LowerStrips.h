//===- LowerStrips.h - Collectives and products in strips -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_LOWERSTRIPS_H
#define PASSES_LOWER_LOWERSTRIPS_H

#include "dialects/dist/DistOps.h"
#include "passes/lower/FunctionLowering.h"

namespace dt::lower {

/// Where the op gathers in strips: lowers it and the products beside it, whose
/// other operands must have been lowered. Else false, and nothing is done.
bool lowerGatheredStrips(dist::CollectiveOpInterface gather,
                         FunctionLowering &f);
/// Where strips of the product are added up over ranks: lowers it and the
/// collective. Else false, and nothing is done.
bool lowerReducedStrips(nn::LinearOp product, FunctionLowering &f);

} // namespace dt::lower

#endif // PASSES_LOWER_LOWERSTRIPS_H
