//===- Norm.cpp - Layer, RMS and group norm ---------------------*- C++ -*-===//
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

//===----------------------------------------------------------------------===//
// What norms have in common
//===----------------------------------------------------------------------===//

/// Whether an optional operand is there and its gradient is wanted.
static bool wants(OperandRange operand, ArrayRef<bool> wanted) {
  return !operand.empty() && wanted[operand.getBeginOperandIndex()];
}

/// Gradients of the input and the scale; `over`: the axes or groups of all
/// three ops.
template <typename DxOp, typename DscaleOp, typename Op>
static void inputAndScaleVjp(GradientBuilder &g, Op op, IntegerAttr over,
                             Value dy, Wanted wanted, Gradients &result) {
  OperandRange scale = op.getODSOperands(1);
  if (wanted[0])
    result[0] =
        g.make<DxOp>(op.getInput(), op.getScale(), dy, op.getEpsAttr(), over);
  if (wants(scale, wanted))
    result[scale.getBeginOperandIndex()] =
        g.make<DscaleOp>(op.getInput(), dy, op.getEpsAttr(), over);
}

/// The parameters are few and stay full.
static PrecisionRule fullParameters(Operation *op) {
  PrecisionRule rule = sumsInFull(op);
  size_t rank = getShape(op->getOperand(0)).size();
  for (auto [i, v] : llvm::enumerate(op->getOperands()))
    if (getShape(v).size() < rank)
      rule.operands[i] = false;
  return rule;
}

//===----------------------------------------------------------------------===//
// Layer and RMS norm: rows pass, what is normalised stays whole
//===----------------------------------------------------------------------===//

/// `scale` and `bias` have the shape of the input's last axes.
template <typename Op>
static LogicalResult verifyLastAxesNorm(Op op, Value bias) {
  Shape in = getShape(op.getInput());
  int64_t axes = op.getAxes();
  if (axes < 1 || axes > static_cast<int64_t>(in.size()))
    return op.emitOpError() << "normalises " << axes
                            << " axes of an input of rank " << in.size();
  Shape last(in.end() - axes, in.end());
  for (Value v : {Value(op.getScale()), bias})
    if (v && getShape(v) != last)
      return op.emitOpError()
             << "scale and bias must be " << shapeToString(last) << ", got "
             << shapeToString(getShape(v));
  return success();
}

/// The scale's gradient has the shape of the input's last axes.
static LogicalResult scaleGradType(MaybeLoc loc, Value input, Value grad,
                                   int64_t axes, Types &out) {
  Shape s = getShape(input);
  size_t n = std::min<size_t>(std::max<int64_t>(axes, 0), s.size());
  out.push_back(makeTensorType(ArrayRef(s).take_back(n), elementOf(input)));
  return sameTypes(loc, input, grad);
}

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
                            std::optional<unsigned> grad = {}) {
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

LogicalResult LayerNormOp::verify() {
  return verifyLastAxesNorm(*this, getBias());
}

LogicalResult LayerNormOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  OperandRange bias = getODSOperands(2);
  inputAndScaleVjp<LayerNormDxOp, LayerNormDscaleOp>(g, *this, getAxesAttr(),
                                                     grads[0], wanted, result);
  if (wants(bias, wanted))
    result[bias.getBeginOperandIndex()] =
        g.sumRows(grads[0], getBias().getType());
  return success();
}

DimExpr LayerNormOp::getFlops() { return perElement(getInput(), 7); }
PrecisionRule LayerNormOp::getPrecisionRule() { return fullParameters(*this); }
ShardingRule LayerNormOp::getShardingRule() {
  return rowRule(*this, getAxes());
}

/// Norms over the last axes.
static ItemState rowNormItems(Operation *op, ItemStates operands,
                              int64_t axes) {
  if (!allAre(operands.drop_front(), ItemState::Invariant))
    return ItemState::coupled(op, "has a scale that depends on items");
  const ItemState &state = operands[0];
  bool beside = state.is(ItemState::PerItem) &&
                state.axis < getRank(op->getOperand(0)) - axes;
  return beside || state.is(ItemState::Invariant)
             ? state
             : ItemState::coupled(op, "normalises over items");
}

ItemState LayerNormOp::inferItems(ItemStates operands, const ItemContext &) {
  return rowNormItems(*this, operands, getAxes());
}

DimExpr LayerNormDxOp::getFlops() { return perElement(getInput(), 14); }
PrecisionRule LayerNormDxOp::getPrecisionRule() {
  return fullParameters(*this);
}
ShardingRule LayerNormDxOp::getShardingRule() {
  return rowRule(*this, getAxes(), (*this)->getNumOperands() - 1);
}

LogicalResult LayerNormDscaleOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                                  Adaptor op, Types &out) {
  return scaleGradType(loc, op.getInput(), op.getGrad(), op.getAxes(), out);
}
DimExpr LayerNormDscaleOp::getFlops() { return perElement(getInput(), 8); }
PrecisionRule LayerNormDscaleOp::getPrecisionRule() { return sumsUp(*this); }
ShardingRule LayerNormDscaleOp::getShardingRule() {
  return rowRule(*this, getAxes(), 1);
}

LogicalResult RmsNormOp::verify() { return verifyLastAxesNorm(*this, Value()); }

LogicalResult RmsNormOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                  Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  inputAndScaleVjp<RmsNormDxOp, RmsNormDscaleOp>(g, *this, getAxesAttr(),
                                                 grads[0], wanted, result);
  return success();
}

DimExpr RmsNormOp::getFlops() { return perElement(getInput(), 4); }
PrecisionRule RmsNormOp::getPrecisionRule() { return fullParameters(*this); }
ShardingRule RmsNormOp::getShardingRule() { return rowRule(*this, getAxes()); }

ItemState RmsNormOp::inferItems(ItemStates operands, const ItemContext &) {
  return rowNormItems(*this, operands, getAxes());
}

DimExpr RmsNormDxOp::getFlops() { return perElement(getInput(), 9); }
PrecisionRule RmsNormDxOp::getPrecisionRule() { return fullParameters(*this); }
ShardingRule RmsNormDxOp::getShardingRule() {
  return rowRule(*this, getAxes(), (*this)->getNumOperands() - 1);
}

LogicalResult RmsNormDscaleOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                                Adaptor op, Types &out) {
  return scaleGradType(loc, op.getInput(), op.getGrad(), op.getAxes(), out);
}
DimExpr RmsNormDscaleOp::getFlops() { return perElement(getInput(), 5); }
PrecisionRule RmsNormDscaleOp::getPrecisionRule() { return sumsUp(*this); }
ShardingRule RmsNormDscaleOp::getShardingRule() {
  return rowRule(*this, getAxes(), 1);
}

//===----------------------------------------------------------------------===//
// Group norm
//===----------------------------------------------------------------------===//

/// Samples pass; channels are groups times channels a group, and groups may be
/// dealt out.
static ShardingRule groupNormRule(Operation *op, uint64_t groups,
                                  std::optional<unsigned> grad = {}) {
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

LogicalResult GroupNormOp::verify() {
  Shape x = getShape(getInput());
  int64_t groups = getGroups();
  if (x.size() < 2 || groups < 1 || !x[1].exactDiv(DimExpr(groups)))
    return emitOpError() << groups << " groups do not divide the channels of "
                         << shapeToString(x);
  for (Value v : {Value(getScale()), Value(getBias())})
    if (v && getShape(v) != Shape{x[1]})
      return emitOpError() << "scale and bias must be [" << x[1].str() << "]";
  return success();
}

LogicalResult GroupNormOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  OperandRange bias = getODSOperands(2);
  inputAndScaleVjp<GroupNormDxOp, GroupNormDscaleOp>(g, *this, getGroupsAttr(),
                                                     grads[0], wanted, result);
  if (wants(bias, wanted))
    result[bias.getBeginOperandIndex()] = g.sumChannels(grads[0]);
  return success();
}

DimExpr GroupNormOp::getFlops() { return perElement(getInput(), 7); }
PrecisionRule GroupNormOp::getPrecisionRule() { return fullParameters(*this); }
ShardingRule GroupNormOp::getShardingRule() {
  return groupNormRule(*this, getGroups());
}

ItemState GroupNormOp::inferItems(ItemStates operands, const ItemContext &) {
  return leadingItems(*this, operands, 1);
}

DimExpr GroupNormDxOp::getFlops() { return perElement(getInput(), 14); }
PrecisionRule GroupNormDxOp::getPrecisionRule() {
  return fullParameters(*this);
}
ShardingRule GroupNormDxOp::getShardingRule() {
  return groupNormRule(*this, getGroups(), (*this)->getNumOperands() - 1);
}

LogicalResult GroupNormDscaleOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                                  Adaptor op, Types &out) {
  Shape x = getShape(op.getInput());
  if (x.size() < 2)
    return fail(loc, "input needs a channel axis");
  out.push_back(makeTensorType({x[1]}, elementOf(op.getInput())));
  return sameTypes(loc, op.getInput(), op.getGrad());
}
DimExpr GroupNormDscaleOp::getFlops() { return perElement(getInput(), 8); }
PrecisionRule GroupNormDscaleOp::getPrecisionRule() { return sumsUp(*this); }
ShardingRule GroupNormDscaleOp::getShardingRule() {
  return groupNormRule(*this, getGroups(), 1);
}
