//===- Parts.cpp - Slice, pad and concat ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNColumns.h"
#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNRuleBuilder.h"

using namespace mlir;
using namespace dt::nn;

/// One axis of a slice between a whole and its part: [parts, part] against
/// [part] where the part is one of equal ones (fused projections), all of it
/// where it is the whole, uncut otherwise.
static void partAxis(RuleBuilder &b, const DimExpr &whole, const DimExpr &part,
                     std::optional<int64_t> start, bool contiguous,
                     Letters &wholeList, Letters &partList) {
  if (whole == part && contiguous && start == 0) {
    wholeList = partList = {b.factor(whole)};
    return;
  }
  auto parts = whole.exactDiv(part);
  auto size = part.asConstant();
  if (contiguous && parts && size && *size && start && *start % *size == 0) {
    unsigned p = b.factor(*parts, FactorKind::replicate), e = b.factor(part);
    wholeList = {p, e};
    partList = {e};
    return;
  }
  wholeList = {b.factor(whole, FactorKind::replicate)};
  partList = {b.factor(part, FactorKind::replicate)};
}

LogicalResult SliceOp::verify() {
  Shape in = getShape(getInput()), out = getShape(getResult());
  size_t rank = in.size();
  if (out.size() != rank || getStarts().size() != rank ||
      getSteps().size() != rank ||
      (!getFromEnd().empty() && getFromEnd().size() != rank))
    return emitOpError("needs a start and a step an axis");
  for (size_t i = 0; i < rank; ++i) {
    std::optional<int64_t> n = in[i].asConstant(), m = out[i].asConstant();
    bool end = !getFromEnd().empty() && getFromEnd()[i];
    if (getSteps()[i] == 0)
      return emitOpError() << "step of axis " << i << " is 0";
    if (!n || !m || *m == 0)
      continue;
    // Numbers of a file: none of these need fit into 64 bits.
    __int128 first = getStarts()[i];
    first = end ? *n - first : first;
    __int128 last = first + __int128(*m - 1) * getSteps()[i];
    if (first < 0 || first >= *n || last < 0 || last >= *n)
      return emitOpError() << "takes " << *m << " elements of axis " << i
                           << " with " << *n << " from " << getStarts()[i]
                           << (end ? " before the end" : "") << " on, step "
                           << getSteps()[i];
  }
  return verifySameElement(*this, getInput(), getResult());
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  bool whole = getInput().getType() == getType() &&
               llvm::all_of(getSteps(), [](int64_t s) { return s == 1; });
  return whole ? OpFoldResult(getInput()) : OpFoldResult();
}

LogicalResult SliceOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (!wanted[0])
    return success();
  Shape whole = getShape(getInput());
  ArrayRef<bool> fromEnd = getFromEnd();
  SmallVector<DimExpr> first;
  for (size_t i = 0; i < whole.size(); ++i) {
    DimExpr start = getStarts()[i];
    bool back = !fromEnd.empty() && fromEnd[i];
    first.push_back(back ? whole[i] - start : start);
  }
  result[0] = placeBack(g, grads[0], getInput().getType(), first, getSteps());
  return success();
}

/// What it takes is read and written.
DimExpr SliceOp::getBytes() {
  return isReadInPlace(*this) ? DimExpr(0)
                              : DimExpr(2) * getNumBytes(getType());
}

ShardingRule SliceOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape whole = getShape(getInput()), part = getShape(getResult());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::optional<int64_t> start = getStarts()[i];
    if (!getFromEnd().empty() && getFromEnd()[i])
      start = (whole[i] - DimExpr(*start)).asConstant();
    Letters in, out;
    partAxis(b, whole[i], part[i], start, getSteps()[i] == 1, in, out);
    b.operandDim(0, i, in);
    b.resultDim(0, i, out);
  }
  b.linear({0});
  return b.finish();
}

ItemState SliceOp::inferItems(ItemStates operands, const ItemContext &) {
  ItemState state = operands[0];
  if (!state.is(ItemState::PerItem))
    return state;
  Shape from = getShape(getInput()), to = getShape(getResult());
  if (from[state.axis] != to[state.axis] || getSteps()[state.axis] != 1)
    return ItemState::coupled(*this, "takes some of the items");
  state.leadsWithOwnNumber &= from.back() == to.back();
  return state;
}

LogicalResult PadOp::verify() {
  Shape in = getShape(getInput()), out = getShape(getResult());
  size_t rank = in.size();
  if (out.size() != rank || getLow().size() != rank ||
      getInterior().size() != rank ||
      (!getReverse().empty() && getReverse().size() != rank))
    return emitOpError("needs low and interior padding an axis");
  for (size_t i = 0; i < rank; ++i) {
    std::optional<int64_t> n = in[i].asConstant(), m = out[i].asConstant();
    if (getLow()[i] < 0 || getInterior()[i] < 0)
      return emitOpError("padding must not be negative");
    if (n && m && *n > 0 &&
        getLow()[i] + __int128(*n - 1) * (__int128(getInterior()[i]) + 1) >= *m)
      return emitOpError() << "axis " << i << " of " << *n
                           << " does not fit into " << *m;
  }
  return verifySameElement(*this, getInput(), getResult());
}

LogicalResult PadOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (!wanted[0])
    return success();
  Shape input = getShape(getInput());
  SmallVector<int64_t> starts(getLow()), steps;
  for (size_t i = 0; i < input.size(); ++i) {
    steps.push_back(getInterior()[i] + 1);
    if (getReverse().empty() || !getReverse()[i])
      continue;
    auto n = input[i].asConstant();
    if (!n)
      return emitOpError("has no gradient where it turns an axis whose size "
                         "is not a number");
    starts[i] += (*n - 1) * steps[i];
    steps[i] = -steps[i];
  }
  result[0] = g.make<SliceOp>(getInput().getType(), grads[0], starts, steps,
                              ArrayRef<bool>());
  return success();
}

ShardingRule PadOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape part = getShape(getInput()), whole = getShape(getResult());
  for (size_t i = 0; i < whole.size(); ++i) {
    bool turned = !getReverse().empty() && getReverse()[i];
    Letters in, out;
    partAxis(b, whole[i], part[i], getLow()[i],
             getInterior()[i] == 0 && !turned, out, in);
    b.operandDim(0, i, in);
    b.resultDim(0, i, out);
  }
  if (getValue().isZero())
    b.linear({0});
  return b.finish();
}

ItemState PadOp::inferItems(ItemStates operands, const ItemContext &) {
  ItemState state = operands[0];
  if (state.is(ItemState::Sum))
    return getValue().isZero()
               ? state
               : ItemState::coupled(*this, "pads a sum over items");
  if (!state.is(ItemState::PerItem))
    return state;
  if (getShape(getInput())[state.axis] != getShape(getResult())[state.axis])
    return ItemState::coupled(*this, "adds rows to the items");
  state.isOwnNumber = state.leadsWithOwnNumber = false;
  return state;
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                         Adaptor op, Types &out) {
  if (op.getInputs().empty())
    return fail(loc, "needs an input");
  if (failed(checkAxis(loc, op.getAxis(), op.getInputs()[0])))
    return failure();
  size_t axis = op.getAxis();
  Shape shape = getShape(op.getInputs()[0]);
  for (Value v : op.getInputs().drop_front()) {
    Shape s = getShape(v);
    bool fits = s.size() == shape.size() &&
                elementOf(v) == elementOf(op.getInputs()[0]);
    for (size_t i = 0; fits && i < s.size(); ++i)
      fits = i == axis || s[i] == shape[i];
    if (!fits)
      return fail(loc, shapeToString(s) + " does not join " +
                           shapeToString(shape) + " on axis " + Twine(axis));
    shape[axis] = shape[axis] + s[axis];
  }
  out.push_back(makeTensorType(shape, elementOf(op.getInputs()[0])));
  return success();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1)
    return getInputs()[0];
  return {};
}

LogicalResult ConcatOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  auto rank = static_cast<int64_t>(getShape(getResult()).size());
  int64_t axis = static_cast<int64_t>(getAxis());
  axis = axis < 0 ? axis + rank : axis;
  DimExpr first = 0;
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    DimExpr count = getShape(input)[axis];
    if (wanted[i])
      result[i] = takeRange(g, grads[0], axis, first, count);
    first = first + count;
  }
  return success();
}

/// What is written to its columns by who makes it costs nothing more.
DimExpr ConcatOp::getBytes() {
  DimExpr bytes;
  for (Value input : getInputs()) {
    auto made = dyn_cast<OpResult>(getMade(input));
    if (!made || !getColumns(made))
      bytes = bytes + DimExpr(2) * getNumBytes(input.getType());
  }
  return bytes;
}

ShardingRule ConcatOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape result = getShape(getResult());
  int64_t axis = getAxis();
  axis += axis < 0 ? static_cast<int64_t>(result.size()) : 0;
  Letters list = b.letters(result);
  DimExpr first = getShape(getInputs()[0])[axis];
  bool equal = llvm::all_of(
      getInputs(), [&](Value v) { return getShape(v)[axis] == first; });
  unsigned whole = list[axis], piece = 0;
  if (equal) {
    // [parts, piece]: pieces may be cut, all alike.
    b.rule.factors[whole] = {DimExpr(getInputs().size()),
                             FactorKind::replicate};
    piece = b.factor(first);
  } else {
    b.rule.factors[whole].kind = FactorKind::replicate;
  }
  b.result(0, list);
  b.resultDim(0, axis, equal ? Letters{whole, piece} : Letters{whole});
  SmallVector<unsigned> all;
  for (auto [i, v] : llvm::enumerate(getInputs())) {
    b.operand(i, list);
    unsigned own =
        equal ? piece : b.factor(getShape(v)[axis], FactorKind::replicate);
    b.operandDim(i, axis, {own});
    all.push_back(i);
  }
  b.linear(all);
  return b.finish();
}

ItemState ConcatOp::inferItems(ItemStates operands, const ItemContext &) {
  if (allAre(operands, ItemState::Sum))
    return ItemState::sum();
  if (allAre(operands, ItemState::Invariant)) // a table of angles
    return ItemState();
  if (!allAre(operands, ItemState::PerItem))
    return ItemState::coupled(*this, "joins items with other values");
  int64_t axis = getAxis();
  ItemState result = operands[0];
  for (const ItemState &state : operands) {
    if (state.axis != result.axis || state.major != result.major)
      return ItemState::coupled(*this, "joins items in different orders");
    result.declaredIndex &= state.declaredIndex;
  }
  result.isOwnNumber = false;
  result.leadsWithOwnNumber = operands[0].isOwnNumber &&
                              axis == getRank(getResult()) - 1 &&
                              axis != result.axis;
  if (axis != result.axis)
    return result;
  DimExpr size = getShape(getOperand(0))[axis];
  for (Value operand : getInputs())
    if (getShape(operand)[axis] != size || result.major != DimExpr(1))
      return ItemState::coupled(*this, "joins items along their own axis");
  result.major = int64_t(getInputs().size());
  return result;
}
