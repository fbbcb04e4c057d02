//===- ShortChains.h - A program of fewer layers ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_SHORTCHAINS_H
#define PASSES_PLAN_SHORTCHAINS_H

#include "mlir/IR/BuiltinOps.h"

namespace dt::plan {

/// What a layer keeps and needs between others is not what it does as a stage
/// of its own, whose ends are messages: whole, and narrow in a bf16 module. So
/// many of a kind that follow one another stand together to be described.
constexpr int kDescribedChain = 3;

/// Of a long chain of equal layers, each of which takes what only the one
/// before made, leaves a few: one is as another, and phases take time for each.
/// Numbers beside the stream (dropped rows) may be added up over layers.
void shortenChains(mlir::ModuleOp program);

} // namespace dt::plan

#endif // PASSES_PLAN_SHORTCHAINS_H
