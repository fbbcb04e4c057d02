//===- Softmax.cpp - Softmax and its logarithm ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNCost.h"
#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNRuleBuilder.h"

using namespace mlir;
using namespace dt::nn;

LogicalResult SoftmaxOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                  Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.make<SoftmaxGradOp>(getResult(), grads[0], getAxisAttr());
  return success();
}

DimExpr SoftmaxOp::getFlops() { return perElement(getInput(), 5); }
PrecisionRule SoftmaxOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule SoftmaxOp::getShardingRule() {
  return wholeAxisRule(*this, getAxis());
}

ItemState SoftmaxOp::inferItems(ItemStates operands, const ItemContext &) {
  return itemsBesideAxis(*this, operands[0], getAxis());
}

LogicalResult LogSoftmaxOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                     Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.make<LogSoftmaxGradOp>(getResult(), grads[0], getAxisAttr());
  return success();
}

DimExpr LogSoftmaxOp::getFlops() { return perElement(getInput(), 4); }
PrecisionRule LogSoftmaxOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule LogSoftmaxOp::getShardingRule() {
  return wholeAxisRule(*this, getAxis());
}

ItemState LogSoftmaxOp::inferItems(ItemStates operands, const ItemContext &) {
  return itemsBesideAxis(*this, operands[0], getAxis());
}

DimExpr SoftmaxGradOp::getFlops() { return perElement(getGrad(), 4); }
PrecisionRule SoftmaxGradOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule SoftmaxGradOp::getShardingRule() {
  return wholeAxisRule(*this, getAxis(), 1);
}

DimExpr LogSoftmaxGradOp::getFlops() { return perElement(getGrad(), 4); }
PrecisionRule LogSoftmaxGradOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule LogSoftmaxGradOp::getShardingRule() {
  return wholeAxisRule(*this, getAxis(), 1);
}
