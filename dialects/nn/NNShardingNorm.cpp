//===- NNShardingNorm.cpp - How norms and reductions may be cut -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNRuleBuilder.h"

using namespace mlir;
using namespace dt::nn;
using Letters = RuleBuilder::Letters;

//===----------------------------------------------------------------------===//
// Layer and RMS norm: rows pass, what is normalised stays whole
//===----------------------------------------------------------------------===//

static Letters rowLetters(RuleBuilder &b, Value input, int64_t axes) {
  Shape x = getShape(input);
  size_t rows = x.size() - static_cast<size_t>(axes);
  Letters list = b.letters(ArrayRef(x).take_front(rows));
  list.append(b.letters(ArrayRef(x).drop_front(rows), FactorKind::replicate));
  return list;
}

/// `op` has operands of the input's shape or of its last axes' only, and so has
/// its result. `grad`: operand in which it is linear, if any.
static ShardingRule rowRule(Operation *op, int64_t axes,
                            std::optional<unsigned> grad) {
  RuleBuilder b(op);
  Letters list = rowLetters(b, op->getOperand(0), axes);
  auto fit = [&](Value v) {
    return ArrayRef(list).take_back(getShape(v).size());
  };
  for (auto [i, v] : llvm::enumerate(op->getOperands()))
    b.operand(i, fit(v));
  b.result(0, fit(op->getResult(0)));
  if (grad)
    b.linear({*grad});
  return b.finish();
}

#define ROW_RULE(Op, grad)                                                     \
  ShardingRule Op::getShardingRule() {                                         \
    return rowRule(*this, static_cast<int64_t>(getAxes()), grad);              \
  }
ROW_RULE(LayerNormOp, std::nullopt)
ROW_RULE(LayerNormDxOp, getOperation()->getNumOperands() - 1)
ROW_RULE(LayerNormDscaleOp, 1)
ROW_RULE(RmsNormOp, std::nullopt)
ROW_RULE(RmsNormDxOp, getOperation()->getNumOperands() - 1)
ROW_RULE(RmsNormDscaleOp, 1)
#undef ROW_RULE

/// Samples pass; channels are groups times channels a group, and groups may be
/// dealt out.
static ShardingRule groupNormRule(Operation *op, uint64_t groups,
                                  std::optional<unsigned> grad) {
  RuleBuilder b(op);
  Shape x = getShape(op->getOperand(0));
  unsigned n = b.factor(x[0]);
  unsigned g = b.factor(DimExpr(groups), FactorKind::group);
  unsigned c = b.factor(x[1].exactDiv(DimExpr(groups)).value_or(x[1]),
                        FactorKind::replicate);
  Letters space = b.letters(ArrayRef(x).drop_front(2), FactorKind::replicate);
  auto set = [&](ShardingRule::Dims &dims, Value v) {
    if (getShape(v).size() == 1) {
      dims[0] = {g, c};
      return;
    }
    dims[0] = {n};
    dims[1] = {g, c};
    for (size_t i = 0; i < space.size(); ++i)
      dims[i + 2] = {space[i]};
  };
  for (auto [i, v] : llvm::enumerate(op->getOperands()))
    set(b.rule.operands[i], v);
  set(b.rule.results[0], op->getResult(0));
  if (grad)
    b.linear({*grad});
  return b.finish();
}

ShardingRule GroupNormOp::getShardingRule() {
  return groupNormRule(*this, getGroups(), std::nullopt);
}
ShardingRule GroupNormDxOp::getShardingRule() {
  return groupNormRule(*this, getGroups(), (*this)->getNumOperands() - 1);
}
ShardingRule GroupNormDscaleOp::getShardingRule() {
  return groupNormRule(*this, getGroups(), 1);
}

//===----------------------------------------------------------------------===//
// Softmax, scans, reductions
//===----------------------------------------------------------------------===//

/// All values have one shape; one axis stays whole.
static ShardingRule wholeAxisRule(Operation *op, int64_t axis,
                                  std::optional<unsigned> linear) {
  RuleBuilder b(op);
  Shape x = getShape(op->getOperand(0));
  Letters list = b.letters(x);
  int64_t i = axis < 0 ? axis + static_cast<int64_t>(x.size()) : axis;
  b.rule.factors[list[i]].kind = FactorKind::replicate;
  for (unsigned k = 0; k < op->getNumOperands(); ++k)
    b.operand(k, list);
  b.result(0, list);
  if (linear)
    b.linear({*linear});
  return b.finish();
}

ShardingRule SoftmaxOp::getShardingRule() {
  return wholeAxisRule(*this, getAxis(), std::nullopt);
}
ShardingRule LogSoftmaxOp::getShardingRule() {
  return wholeAxisRule(*this, getAxis(), std::nullopt);
}
ShardingRule SoftmaxGradOp::getShardingRule() {
  return wholeAxisRule(*this, getAxis(), 1);
}
ShardingRule LogSoftmaxGradOp::getShardingRule() {
  return wholeAxisRule(*this, getAxis(), 1);
}
ShardingRule CumsumOp::getShardingRule() {
  return wholeAxisRule(*this, getAxis(), 0);
}

static FactorKind reduceKind(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::sum:
    return FactorKind::sum;
  case ReduceKind::mean: // divides by the size of the whole
    return FactorKind::blocked;
  case ReduceKind::max:
    return FactorKind::max;
  case ReduceKind::min:
    return FactorKind::min;
  case ReduceKind::prod:
    return FactorKind::replicate;
  }
  return FactorKind::replicate;
}

/// Reduced axes are in the input only.
static ShardingRule reducedRule(Operation *op, ArrayRef<int64_t> axes,
                                bool keepdims, FactorKind kind, bool linear) {
  RuleBuilder b(op);
  Shape x = getShape(op->getOperand(0));
  Letters list = b.letters(x);
  b.operand(0, list);
  size_t out = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (llvm::is_contained(axes, static_cast<int64_t>(i))) {
      b.rule.factors[list[i]].kind = kind;
      out += keepdims;
    } else {
      b.resultDim(0, out++, {list[i]});
    }
  }
  if (linear)
    b.linear({0});
  return b.finish();
}

ShardingRule ReduceOp::getShardingRule() {
  bool linear = getKind() == ReduceKind::sum || getKind() == ReduceKind::mean;
  return reducedRule(*this, getAxes(), getKeepdims(), reduceKind(getKind()),
                     linear);
}

ShardingRule ArgMaxOp::getShardingRule() {
  int64_t axis = getAxis();
  axis += axis < 0 ? static_cast<int64_t>(getShape(getInput()).size()) : 0;
  return reducedRule(*this, {axis}, getKeepdims(), FactorKind::replicate,
                     false);
}

/// The axis stays whole: what is taken is found among all of it.
ShardingRule TopKOp::getShardingRule() {
  RuleBuilder b(*this);
  Letters list = b.letters(getShape(getInput()));
  int64_t axis = getAxis();
  b.rule.factors[list[axis]].kind = FactorKind::replicate;
  b.operand(0, list);
  list[axis] = b.factor(getShape(getValues())[axis], FactorKind::replicate);
  b.result(0, list);
  b.result(1, list);
  return b.finish();
}

/// Classes may be cut: the row's maximum and sum are reduced, and the label is
/// looked up where its block is.
static ShardingRule crossEntropyRule(Operation *op,
                                     std::optional<unsigned> grad) {
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
ShardingRule CrossEntropyOp::getShardingRule() {
  return crossEntropyRule(*this, std::nullopt);
}
ShardingRule CrossEntropyGradOp::getShardingRule() {
  return crossEntropyRule(*this, 2);
}
