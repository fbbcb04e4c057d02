//===- Linear.cpp - Linear layers and matrix products -----------*- C++ -*-===//
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

/// Result elements times the length of the contracted axis, two each.
static DimExpr productFlops(Value result, const DimExpr &contracted) {
  return elements(result) * contracted * DimExpr(2);
}

LogicalResult LinearOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                         Adaptor op, Types &out) {
  Shape x = getShape(op.getInput()), w = getShape(op.getWeight());
  if (x.empty() || w.size() != 2)
    return fail(loc, "takes an input of rank 1 or more and a weight of rank 2");
  DimExpr in = w[op.getInOut() ? 0 : 1], size = w[op.getInOut() ? 1 : 0];
  if (x.back() != in)
    return fail(loc, "input " + shapeToString(x) +
                         " does not end in the weight's " + in.str());
  if (op.getBias() && getShape(op.getBias()) != Shape{size})
    return fail(loc, "bias must be [" + size.str() + "]");
  x.back() = size;
  out.push_back(makeTensorType(x, elementOf(op.getInput())));
  return success();
}

LogicalResult LinearOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  Value dy = grads[0];
  // The same weight, read the other way round.
  if (wanted[0])
    result[0] = g.make<LinearOp>(dy, getWeight(), Value(), !getInOut());
  if (wanted[1])
    result[1] = g.make<LinearDwOp>(getInput(), dy, getInOut());
  if (getBias() && wanted[2])
    result[2] = g.sumRows(dy, getBias().getType());
  return success();
}

DimExpr LinearOp::getFlops() {
  return productFlops(getResult(), getShape(getInput()).back());
}
PrecisionRule LinearOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule LinearOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape x = getShape(getInput());
  Letters rows = b.letters(ArrayRef(x).drop_back());
  unsigned in = b.factor(x.back());
  unsigned out = b.factor(getShape(getResult()).back());
  b.operand(0, b.join(rows, {in}));
  b.operand(1, getInOut() ? Letters{in, out} : Letters{out, in});
  b.result(0, b.join(rows, {out}));
  if (getBias())
    b.operand(2, {out});
  return b.finishProduct(getBias());
}

ItemState LinearOp::inferItems(ItemStates operands, const ItemContext &) {
  if (!allAre(operands.drop_front(), ItemState::Invariant))
    return ItemState::coupled(*this, "has weights that depend on items", true);
  const ItemState &state = operands[0];
  if (state.is(ItemState::Sum))
    return getBias()
               ? ItemState::coupled(*this, "adds a bias to a sum over items")
               : state;
  return itemsBesideAxis(*this, state, getRank(getInput()) - 1);
}

Work LinearOp::getWork() {
  return {Work::Product, getShape(getInput()).back(),
          getShape(getResult()).back()};
}

LogicalResult LinearDwOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                           Adaptor op, Types &out) {
  Shape x = getShape(op.getInput()), dy = getShape(op.getGrad());
  if (x.empty() || x.size() != dy.size() ||
      !std::equal(x.begin(), x.end() - 1, dy.begin()))
    return fail(loc, "input and gradient must share all dims but the last");
  Shape w = {dy.back(), x.back()};
  if (op.getInOut())
    std::swap(w[0], w[1]);
  out.push_back(makeTensorType(w, elementOf(op.getInput())));
  return success();
}

DimExpr LinearDwOp::getFlops() {
  return elements(getInput()) * getShape(getGrad()).back() * DimExpr(2);
}
PrecisionRule LinearDwOp::getPrecisionRule() { return sumsUp(*this); }
ShardingRule LinearDwOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape x = getShape(getInput());
  Letters rows = b.letters(ArrayRef(x).drop_back());
  unsigned in = b.factor(x.back()), out = b.factor(getShape(getGrad()).back());
  b.operand(0, b.join(rows, {in}));
  b.operand(1, b.join(rows, {out}));
  b.result(0, getInOut() ? Letters{in, out} : Letters{out, in});
  return b.finishProduct();
}

Work LinearDwOp::getWork() {
  return {Work::Product, getShape(getInput()).back(),
          getShape(getGrad()).back()};
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                         Adaptor op, Types &out) {
  Shape a = getShape(op.getLhs()), b = getShape(op.getRhs());
  if (a.size() < 2 || b.size() < 2)
    return fail(loc, "operands need rank 2 or more");
  if (op.getTransA())
    std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (op.getTransB())
    std::swap(b[b.size() - 1], b[b.size() - 2]);
  DimExpr k = a.pop_back_val(), n = b.pop_back_val();
  DimExpr m = a.pop_back_val(), k2 = b.pop_back_val();
  std::optional<Shape> batch = broadcastShapes({a, b});
  if (k != k2 || !batch)
    return fail(
        loc, "shapes do not multiply: " + shapeToString(getShape(op.getLhs())) +
                 " and " + shapeToString(getShape(op.getRhs())));
  batch->push_back(m);
  batch->push_back(n);
  out.push_back(makeTensorType(*batch, elementOf(op.getLhs())));
  return success();
}

/// dB of C = op(A) op(B) as one product over all rows, when B has no leading
/// axes: summing a batch of products afterwards would write each of them.
static Value sharedRhsGrad(GradientBuilder &g, MatmulOp op, Value dy) {
  if (getShape(op.getRhs()).size() != 2 || op.getTransA() ||
      getShape(op.getLhs()).size() != getShape(dy).size())
    return {};
  return g.make<LinearDwOp>(op.getLhs(), dy, /*in_out=*/!op.getTransB());
}

LogicalResult MatmulOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  Value a = getLhs(), b = getRhs(), dy = grads[0];
  bool ta = getTransA(), tb = getTransB();
  if (wanted[0]) {
    Value da = ta ? g.make<MatmulOp>(b, dy, tb, true).getResult()
                  : g.make<MatmulOp>(dy, b, false, !tb).getResult();
    result[0] = g.sumTo(da, a.getType());
  }
  if (wanted[1]) {
    Value db = sharedRhsGrad(g, *this, dy);
    if (!db)
      db = tb ? g.make<MatmulOp>(dy, a, true, ta).getResult()
              : g.make<MatmulOp>(a, dy, !ta, false).getResult();
    result[1] = g.sumTo(db, b.getType());
  }
  return success();
}

DimExpr MatmulOp::getFlops() {
  Shape lhs = getShape(getLhs());
  return productFlops(getResult(), lhs[lhs.size() - (getTransA() ? 2 : 1)]);
}
PrecisionRule MatmulOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule MatmulOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape result = getShape(getResult()), lhs = getShape(getLhs());
  size_t rank = result.size();
  Letters batch = b.letters(ArrayRef(result).drop_back(2));
  unsigned m = b.factor(result[rank - 2]), n = b.factor(result[rank - 1]);
  unsigned k = b.factor(lhs[lhs.size() - (getTransA() ? 2 : 1)]);
  b.operand(0, b.join(batch, getTransA() ? Letters{k, m} : Letters{m, k}));
  b.operand(1, b.join(batch, getTransB() ? Letters{n, k} : Letters{k, n}));
  b.result(0, b.join(batch, {m, n}));
  return b.finishProduct();
}

ItemState MatmulOp::inferItems(ItemStates operands, const ItemContext &) {
  int64_t rank = getRank(getResult());
  std::optional<int64_t> axis;
  unsigned contracted = 0, given = 0;
  DimExpr major = 1;
  for (auto [i, state] : llvm::enumerate(operands)) {
    if (state.is(ItemState::Sum))
      return operands[1 - i].is(ItemState::Invariant)
                 ? ItemState::sum()
                 : ItemState::coupled(*this, kNotLinearInSum);
    if (state.is(ItemState::Invariant))
      continue;
    ++given;
    major = state.major;
    int64_t own = getRank(getOperand(i));
    // From the right: 0 is the last axis. lhs [m, k], rhs [k, n].
    int64_t fromRight = own - 1 - state.axis;
    bool swapped = i == 0 ? getTransA() : getTransB();
    int64_t inner = (i == 0) != swapped ? 0 : 1;
    if (fromRight == inner) {
      ++contracted;
      continue;
    }
    int64_t place = fromRight > 1 ? fromRight : (i == 0 ? 1 : 0);
    if (axis && *axis != rank - 1 - place)
      return ItemState::coupled(*this, "compares every item with every other",
                                true);
    axis = rank - 1 - place;
  }
  if (contracted == 0)
    return axis ? ItemState::perItem(*axis, major) : ItemState();
  if (contracted == given && !axis)
    return ItemState::sum();
  return ItemState::coupled(
      *this, "sums over items what other items are multiplied with", true);
}
