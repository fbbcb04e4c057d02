//===- Sums.h - Sums of several addends -------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OPTIMIZE_SUMS_H
#define PASSES_OPTIMIZE_SUMS_H

#include "dialects/nn/NNOps.h"

namespace dt::optimize {

/// Whether the sum is an addend of another one of its type, and nothing else.
inline bool isInnerSum(nn::AddOp add) {
  if (!add->hasOneUse())
    return false;
  auto outer = llvm::dyn_cast<nn::AddOp>(*add->user_begin());
  return outer && outer.getType() == add.getType();
}

/// The addends of a sum, those of inner sums in their place.
inline void collectAddends(nn::AddOp add,
                           llvm::SmallVectorImpl<mlir::Value> &addends) {
  for (mlir::Value v : add->getOperands()) {
    auto inner = v.getDefiningOp<nn::AddOp>();
    if (inner && isInnerSum(inner))
      collectAddends(inner, addends);
    else
      addends.push_back(v);
  }
}

} // namespace dt::optimize

#endif // PASSES_OPTIMIZE_SUMS_H
