//===- SmoothL1.cpp - A loss ------------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// torch.nn.SmoothL1Loss with beta 1: of a difference d, 0.5 d^2 up to 1, and
// |d| - 0.5 beyond.
//
//===----------------------------------------------------------------------===//

#include "Example.h"

#include "models/frontend/recipe/losses/LossBuilder.h"
#include "models/frontend/recipe/losses/LossRule.h"

using namespace mlir;
using namespace dt;

/// The numerator: with c = min(|d|, 1) an element is c (|d| - c / 2). The
/// denominator is the number of elements.
static Value buildSmoothL1(models::LossBuilder &l, Value output) {
  auto type = cast<RankedTensorType>(output.getType());
  Value target = l.getTarget(type);
  if (!target)
    return {};
  Value size = l.make<nn::AbsOp>(l.make<nn::SubOp>(output, target).getResult());
  Value cut = l.make<nn::MinOp>(size, l.splat(type, 1));
  Value half = l.make<nn::MulOp>(cut, l.splat(type, 0.5));
  Value rest = l.make<nn::SubOp>(size, half);
  l.countElements(type);
  return l.sum(l.make<nn::MulOp>(cut, rest));
}

void example::addSmoothL1(Plugin &plugin) {
  plugin.losses.push_back({"smooth_l1", "output", "target", buildSmoothL1});
}
