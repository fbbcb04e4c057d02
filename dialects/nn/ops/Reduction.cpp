//===- Reduction.cpp - Reduce, arg_max, top_k, cumsum -----------*- C++ -*-===//
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

/// Drops or keeps (as 1) the reduced axes.
static LogicalResult reducedType(MaybeLoc loc, Value input,
                                 ArrayRef<int64_t> axes, bool keep,
                                 Type element, Types &out) {
  for (int64_t axis : axes)
    if (failed(checkAxis(loc, axis, input)))
      return failure();
  Shape shape;
  for (auto [i, d] : llvm::enumerate(getShape(input))) {
    bool reduced = llvm::is_contained(axes, static_cast<int64_t>(i));
    if (!reduced)
      shape.push_back(d);
    else if (keep)
      shape.push_back(DimExpr(1));
  }
  out.push_back(makeTensorType(shape, element));
  return success();
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

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                         Adaptor op, Types &out) {
  return reducedType(loc, op.getInput(), op.getAxes(), op.getKeepdims(),
                     elementOf(op.getInput()), out);
}

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  if (getAxes().empty())
    return getInput();
  return {};
}

namespace {
/// The shapes around a reduction.
struct Reduced {
  explicit Reduced(ReduceOp op) : input(getShape(op.getInput())), kept(input) {
    for (int64_t axis : op.getAxes()) {
      int64_t i = axis < 0 ? axis + static_cast<int64_t>(input.size()) : axis;
      count = count * input[i];
      kept[i] = DimExpr(1);
    }
  }
  Shape input, kept; ///< kept: reduced dims are 1
  DimExpr count = 1; ///< elements that make one result element
};
} // namespace

/// Product: y / x where no factor is 0; where one is, only that factor has a
/// gradient, the product of the others.
static Value productGrad(GradientBuilder &g, ReduceOp op, const Reduced &r,
                         Value dy) {
  Value x = op.getInput();
  Value isZero = g.compare(Compare::eq, x, 0);
  Value one = g.number(x, 1);
  Value others = g.select(isZero, one, x);
  Value product =
      g.make<ReduceOp>(ReduceKind::prod, others, op.getAxes(), true);
  Value ones = g.select(isZero, one, g.number(x, 0));
  ones = g.broadcast(ones, r.input);
  Value zeros = g.sum(ones, op.getAxes(), true);
  Value alone = g.keepWhere(g.compare(Compare::eq, zeros, 1), product);
  Value without =
      g.keepWhere(g.compare(Compare::eq, zeros, 0), g.div(product, others));
  return g.mul(dy, g.select(isZero, alone, without));
}

/// Largest or smallest: the first of equal elements has the gradient
/// (torch.max over a dim, adaptive pooling).
static Value firstExtremumGrad(GradientBuilder &g, ReduceOp op,
                               const Reduced &r, Value dy) {
  // Reduced axes as one, the last.
  int64_t rank = r.input.size(), last = rank - op.getAxes().size();
  SmallVector<int64_t> order, back(rank);
  for (bool reduced : {false, true})
    for (int64_t i = 0; i < rank; ++i)
      if (reduced == (llvm::is_contained(op.getAxes(), i) ||
                      llvm::is_contained(op.getAxes(), i - rank)))
        order.push_back(i);
  Shape moved, flat;
  for (auto [to, from] : llvm::enumerate(order)) {
    moved.push_back(r.input[from]);
    back[from] = to;
  }
  flat.assign(moved.begin(), moved.begin() + last);
  flat.push_back(r.count);
  Value x = g.reshape(g.transpose(op.getInput(), order), flat);
  Value place = g.make<ArgMaxOp>(x, last, /*keepdims=*/true,
                                 op.getKind() == ReduceKind::min,
                                 /*last=*/false);
  flat.back() = DimExpr(1);
  Value dx = g.make<GatherElementsGradOp>(x.getType(), g.reshape(dy, flat),
                                          place, last);
  return g.transpose(g.reshape(dx, moved), back);
}

/// Largest or smallest: equal elements share the gradient (torch.amax).
static Value extremumGrad(GradientBuilder &g, ReduceOp op, const Reduced &r,
                          Value dy) {
  Value x = op.getInput();
  Value y = g.reshape(op.getResult(), r.kept);
  Value hit = g.compare(Compare::eq, x, y);
  Value ones =
      g.broadcast(g.select(hit, g.number(x, 1), g.number(x, 0)), r.input);
  Value share = g.div(dy, g.sum(ones, op.getAxes(), true));
  return g.mul(share, ones);
}

LogicalResult ReduceOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 Wanted wanted, Gradients &result) {
  if (!wanted[0])
    return success();
  GradientBuilder g(builder, *this);
  Reduced r(*this);
  Value dy = g.reshape(grads[0], r.kept);
  switch (getKind()) {
  case ReduceKind::sum:
    result[0] = g.broadcast(dy, r.input);
    break;
  case ReduceKind::mean:
    if (auto n = r.count.asConstant())
      dy = g.mul(dy, *n ? 1.0 / *n : 0.0);
    else
      dy = g.div(dy, g.size(r.count, getElementTypeOrSelf(dy.getType())));
    result[0] = g.broadcast(dy, r.input);
    break;
  case ReduceKind::max:
  case ReduceKind::min:
    result[0] = getFirst() ? firstExtremumGrad(g, *this, r, dy)
                           : extremumGrad(g, *this, r, dy);
    break;
  case ReduceKind::prod:
    result[0] = productGrad(g, *this, r, dy);
    break;
  }
  return success();
}

DimExpr ReduceOp::getFlops() { return perElement(getInput(), 1); }
PrecisionRule ReduceOp::getPrecisionRule() { return sumsUp(*this); }

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

ShardingRule ReduceOp::getShardingRule() {
  bool linear = getKind() == ReduceKind::sum || getKind() == ReduceKind::mean;
  return reducedRule(*this, getAxes(), getKeepdims(), reduceKind(getKind()),
                     linear);
}

ItemState ReduceOp::inferItems(ItemStates operands,
                               const ItemContext &context) {
  ItemState state = operands[0];
  bool mean = getKind() == ReduceKind::mean;
  bool linear = getKind() == ReduceKind::sum || mean;
  if (state.is(ItemState::Sum) && !linear)
    return ItemState::coupled(*this, kNotLinearInSum);
  if (!state.is(ItemState::PerItem))
    return state;
  ArrayRef<int64_t> axes = getAxes();
  if (!llvm::is_contained(axes, state.axis)) {
    if (!getKeepdims())
      state.axis -=
          llvm::count_if(axes, [&](int64_t a) { return a < state.axis; });
    return state.asNumber();
  }
  if (getKind() == ReduceKind::sum)
    return ItemState::sum();
  bool statistics = mean && int64_t(axes.size()) < getRank(getInput());
  if (statistics && context.takesLocalStatistics())
    return {};
  return ItemState::coupled(
      *this, statistics ? "takes a mean over all items (batch normalisation in "
                          "training form? the recipe may say \"batch_norm\": "
                          "\"local\")"
                        : "combines all items");
}

LogicalResult ArgMaxOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                         Adaptor op, Types &out) {
  return reducedType(loc, op.getInput(), int64_t(op.getAxis()),
                     op.getKeepdims(),
                     IntegerType::get(op.getInput().getContext(), 64), out);
}

ShardingRule ArgMaxOp::getShardingRule() {
  int64_t axis = getAxis();
  axis += axis < 0 ? static_cast<int64_t>(getShape(getInput()).size()) : 0;
  return reducedRule(*this, {axis}, getKeepdims(), FactorKind::replicate,
                     false);
}

ItemState ArgMaxOp::inferItems(ItemStates operands, const ItemContext &) {
  ItemState state = itemsBesideAxis(*this, operands[0], getAxis());
  if (!state.is(ItemState::PerItem))
    return state;
  bool drops = !getKeepdims() && state.axis > int64_t(getAxis());
  return ItemState::perItem(state.axis - drops, state.major);
}

LogicalResult TopKOp::verify() {
  Shape in = getShape(getInput()), out = getShape(getValues());
  int64_t axis = getAxis();
  if (axis < 0 || axis >= static_cast<int64_t>(in.size()))
    return emitOpError() << "axis " << axis << " is not in [0, " << in.size()
                         << ")";
  if (out.size() == in.size())
    in[axis] = out[axis];
  if (out != in || getShape(getIndices()) != out)
    return emitOpError("values and indices must have the input's dims but for "
                       "the axis");
  DimExpr size = getShape(getInput())[axis];
  std::optional<int64_t> n = size.asConstant(), k = out[axis].asConstant();
  if (n && k ? *k > *n : out[axis] != size)
    return emitOpError() << "takes " << out[axis].str() << " of " << size.str()
                         << " elements: must be numbers or equal";
  return verifySameElement(*this, getInput(), getValues());
}

LogicalResult TopKOp::buildVjp(OpBuilder &builder, ValueRange grads,
                               Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0] && grads[0])
    result[0] = g.make<GatherElementsGradOp>(getInput().getType(), grads[0],
                                             getIndices(), getAxisAttr());
  return success();
}

/// Each element is compared with those that are taken.
DimExpr TopKOp::getFlops() {
  return elements(getInput()) * getShape(getValues())[getAxis()];
}
PrecisionRule TopKOp::getPrecisionRule() {
  return PrecisionRule::anyNarrow(*this);
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

/// Indices are places along the axis, whatever the input's numbers are.
ItemState TopKOp::inferItems(ItemStates operands, const ItemContext &) {
  ItemState state = itemsBesideAxis(*this, operands[0], getAxis());
  return state.is(ItemState::PerItem)
             ? ItemState::perItem(state.axis, state.major)
             : state;
}

LogicalResult CumsumOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] =
        g.make<CumsumOp>(grads[0], getAxis(), getExclusive(), !getReverse());
  return success();
}

DimExpr CumsumOp::getFlops() { return perElement(getInput(), 1); }
PrecisionRule CumsumOp::getPrecisionRule() { return sumsUp(*this); }
ShardingRule CumsumOp::getShardingRule() {
  return wholeAxisRule(*this, getAxis(), 0);
}

ItemState CumsumOp::inferItems(ItemStates operands, const ItemContext &) {
  const ItemState &state = operands[0];
  bool counts = state.is(ItemState::PerItem) &&
                state.axis == int64_t(getAxis()) && state.major == DimExpr(1) &&
                getElementTypeOrSelf(getType()).isInteger();
  if (!counts) {
    ItemState result = itemsBesideAxis(*this, state, getAxis());
    result.isOwnNumber = result.leadsWithOwnNumber = false;
    return result;
  }
  ItemState result = ItemState::perItem(state.axis);
  result.isRunningCount = true;
  result.culprit = *this;
  return result;
}
