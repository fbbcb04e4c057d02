//===- MeanSquare.cpp - Mean squared error ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/losses/LossBuilder.h"
#include "models/frontend/recipe/losses/LossRule.h"

using namespace mlir;

namespace dt::models {

namespace {

Value meanSquare(LossBuilder &l, Value output) {
  auto type = cast<RankedTensorType>(output.getType());
  Value target = l.getTarget(type);
  if (!target)
    return {};
  Value difference = l.make<nn::SubOp>(output, target);
  Value square = l.make<nn::MulOp>(difference, difference);
  l.countElements(type);
  return l.sum(square);
}

} // namespace

void addMeanSquare(LossRules &rules) {
  rules.push_back({"mse", "output", "target", meanSquare});
}

} // namespace dt::models
