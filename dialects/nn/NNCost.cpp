//===- NNCost.cpp - What operators cost, and may round ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNCost.h"

using namespace mlir;
using namespace dt::nn;

DimExpr dt::nn::elementwiseFlops(Operation *op) {
  return op->getNumResults() ? elements(op->getResult(0)) : DimExpr(0);
}

PrecisionRule PrecisionRule::anyNarrow(Operation *op, bool sumsInFull) {
  PrecisionRule rule{{}, {}, sumsInFull};
  for (Value v : op->getOperands())
    rule.operands.push_back(isa<FloatType>(getElementTypeOrSelf(v.getType())));
  for (Value v : op->getResults())
    rule.results.push_back(isa<FloatType>(getElementTypeOrSelf(v.getType())));
  return rule;
}

PrecisionRule dt::nn::sumsInFull(Operation *op) {
  return PrecisionRule::anyNarrow(op, /*sumsInFull=*/true);
}

PrecisionRule dt::nn::sumsUp(Operation *op) {
  PrecisionRule rule = sumsInFull(op);
  rule.results.assign(rule.results.size(), false);
  return rule;
}
