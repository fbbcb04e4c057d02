//===- Loss.cpp - Cross entropy ---------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNCost.h"
#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNRuleBuilder.h"

using namespace mlir;
using namespace dt::nn;

/// Classes may be cut: the row's maximum and sum are reduced, and the label is
/// looked up where its block is.
static ShardingRule crossEntropyRule(Operation *op,
                                     std::optional<unsigned> grad = {}) {
  RuleBuilder b(op);
  Shape x = getShape(op->getOperand(0));
  Letters list = b.letters(x);
  b.rule.factors[list.back()].kind = FactorKind::blocked;
  auto fit = [&](Value v) {
    return ArrayRef(list).take_front(getShape(v).size());
  };
  for (auto [i, v] : llvm::enumerate(op->getOperands()))
    b.operand(i, fit(v));
  b.result(0, fit(op->getResult(0)));
  if (grad)
    b.linear({*grad});
  return b.finish();
}

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                               Adaptor op, Types &out) {
  Shape logits = getShape(op.getLogits()), labels = getShape(op.getLabels());
  if (logits.empty() || Shape(logits.begin(), logits.end() - 1) != labels)
    return fail(loc, "labels " + shapeToString(labels) +
                         " must be the logits' dims " + shapeToString(logits) +
                         " without the last");
  if (op.getClasses() && !getShape(op.getClasses()).empty())
    return fail(loc, "classes must be one number");
  out.push_back(makeTensorType(labels, elementOf(op.getLogits())));
  return success();
}

LogicalResult CrossEntropyOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                       Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] =
        g.make<CrossEntropyGradOp>(getLogits(), getLabels(), grads[0],
                                   getResult(), getClasses(), getIgnoreIndex());
  return success();
}

DimExpr CrossEntropyOp::getFlops() { return perElement(getLogits(), 4); }
PrecisionRule CrossEntropyOp::getPrecisionRule() { return sumsUp(*this); }
ShardingRule CrossEntropyOp::getShardingRule() {
  return crossEntropyRule(*this);
}

ItemState CrossEntropyOp::inferItems(ItemStates operands, const ItemContext &) {
  if (anyIs(operands, ItemState::Sum))
    return ItemState::coupled(*this, kNotLinearInSum);
  if (operands[0].is(ItemState::PerItem) &&
      operands[0].axis == getRank(getLogits()) - 1)
    return ItemState::coupled(*this, "takes items as classes", true);
  if (operands[0].is(ItemState::PerItem) &&
      operands[1].is(ItemState::PerItem) &&
      operands[0].axis != operands[1].axis)
    return ItemState::coupled(*this, kEveryWithEvery, true);
  if (operands[0].is(ItemState::PerItem) &&
      operands[1].is(ItemState::PerItem) &&
      operands[0].major != operands[1].major)
    return ItemState::coupled(*this, kOtherOrder);
  const ItemState &result =
      operands[0].is(ItemState::PerItem) ? operands[0] : operands[1];
  return result.asNumber();
}

DimExpr CrossEntropyGradOp::getFlops() {
  return perElement(getLogits(), getLoss() ? 4 : 6);
}
PrecisionRule CrossEntropyGradOp::getPrecisionRule() {
  return sumsInFull(*this);
}
ShardingRule CrossEntropyGradOp::getShardingRule() {
  return crossEntropyRule(*this, 2);
}
