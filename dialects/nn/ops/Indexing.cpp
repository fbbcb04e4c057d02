//===- Indexing.cpp - Gather, scatter and their gradients -------*- C++ -*-===//
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
// Slices along an axis
//===----------------------------------------------------------------------===//

/// gather(table, indices) -> taken, or its gradient (taken, indices) -> table.
/// The axis that is looked up may be cut: a block answers for its own indices,
/// and the sum over blocks is the lookup.
static ShardingRule lookupRule(Operation *op, int64_t axis, bool gradient) {
  RuleBuilder b(op);
  Value table = gradient ? op->getResult(0) : op->getOperand(0);
  Shape t = getShape(table), i = getShape(op->getOperand(1));
  axis += axis < 0 ? static_cast<int64_t>(t.size()) : 0;
  Letters ofTable = b.letters(t), ofIndices = b.letters(i);
  b.rule.factors[ofTable[axis]].kind = FactorKind::blocked;
  Letters taken(ArrayRef(ofTable).take_front(axis));
  taken.append(ofIndices);
  taken.append(ofTable.begin() + axis + 1, ofTable.end());
  b.operand(1, ofIndices);
  b.operand(0, gradient ? taken : ofTable);
  b.result(0, gradient ? ofTable : taken);
  b.linear({0});
  return b.finish();
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                         Adaptor op, Types &out) {
  if (failed(checkAxis(loc, op.getAxis(), op.getInput())))
    return failure();
  Shape in = getShape(op.getInput()), indices = getShape(op.getIndices());
  Shape shape(in.begin(), in.begin() + op.getAxis());
  shape.append(indices.begin(), indices.end());
  shape.append(in.begin() + op.getAxis() + 1, in.end());
  out.push_back(makeTensorType(shape, elementOf(op.getInput())));
  return success();
}

LogicalResult GatherOp::verify() {
  if (getInOrder() && (!getZeroOutOfRange() || getAxis() != 0))
    return emitOpError("in_order needs zero_out_of_range and axis 0");
  return success();
}

LogicalResult GatherOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] =
        g.make<GatherGradOp>(getInput().getType(), grads[0], getIndices(),
                             getAxis(), getZeroOutOfRange());
  return success();
}

ShardingRule GatherOp::getShardingRule() {
  return lookupRule(*this, getAxis(), false);
}

/// Whether own numbers count the rows of `value` along `axis`, so that each
/// picks from its item.
static bool walksOver(const ItemState &index, const ItemState &data,
                      Value value, int64_t axis) {
  return data.major == DimExpr(1) && index.major == DimExpr(1) &&
         getShape(value)[axis] == index.ownRange;
}

static constexpr llvm::StringLiteral kUndeclared =
    "picks among all items by positions that the recipe's "
    "`inputs` does not declare as an index";

static int64_t tupleOf(Value indices) {
  return getShape(indices).back().asConstant().value_or(0);
}

bool GatherOp::picksItems(ItemStates operands) {
  return operands[0].is(ItemState::PerItem) &&
         operands[0].axis == int64_t(getAxis());
}

ItemState GatherOp::inferItems(ItemStates operands, const ItemContext &) {
  const ItemState &data = operands[0], &index = operands[1];
  int64_t axis = getAxis(), width = getRank(getIndices());
  if (data.is(ItemState::Sum) || index.is(ItemState::Sum))
    return data.is(ItemState::Sum) && index.is(ItemState::Invariant)
               ? data
               : ItemState::coupled(*this, kNotLinearInSum);
  if (picksItems(operands))
    return index.declaredIndex ||
                   (index.isOwnNumber &&
                    walksOver(index, data, getInput(), axis)) ||
                   (index.isRunningCount && data.major == DimExpr(1))
               ? ItemState::perItem(axis + index.axis, index.major)
               : ItemState::coupled(*this, kUndeclared);
  if (data.is(ItemState::PerItem) && index.is(ItemState::PerItem))
    return ItemState::coupled(*this, "picks from every item for every other",
                              true);
  if (data.is(ItemState::PerItem))
    return ItemState::perItem(
        data.axis < axis ? data.axis : data.axis + width - 1, data.major);
  return index.is(ItemState::PerItem)
             ? ItemState::perItem(axis + index.axis, index.major)
             : ItemState();
}

DimExpr GatherGradOp::getFlops() { return perElement(getGrad(), 1); }
PrecisionRule GatherGradOp::getPrecisionRule() { return sumsUp(*this); }
ShardingRule GatherGradOp::getShardingRule() {
  return lookupRule(*this, getAxis(), true);
}

//===----------------------------------------------------------------------===//
// Elements along an axis
//===----------------------------------------------------------------------===//

/// The gradient's axis that is looked up stays whole, and so do others where
/// the indices cover a part only.
static ShardingRule elementsRule(Operation *op, int64_t axis, bool gradient) {
  RuleBuilder b(op);
  Value table = gradient ? op->getResult(0) : op->getOperand(0);
  Shape t = getShape(table), i = getShape(op->getOperand(1));
  axis += axis < 0 ? static_cast<int64_t>(t.size()) : 0;
  Letters ofTable, ofIndices;
  for (size_t d = 0; d < t.size(); ++d) {
    bool looked = static_cast<int64_t>(d) == axis;
    bool shared = !looked && t[d] == i[d];
    // A block answers for its own indices, as in a lookup of slices.
    FactorKind own = looked && !gradient ? FactorKind::blocked
                     : shared            ? FactorKind::pass
                                         : FactorKind::replicate;
    ofTable.push_back(b.factor(t[d], own));
    if (shared)
      ofIndices.push_back(ofTable.back());
    else
      ofIndices.push_back(
          b.factor(i[d], looked ? FactorKind::pass : FactorKind::replicate));
  }
  b.operand(1, ofIndices);
  b.operand(0, gradient ? ofIndices : ofTable);
  b.result(0, gradient ? ofTable : ofIndices);
  b.linear({0});
  return b.finish();
}

LogicalResult GatherElementsOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                                 Adaptor op, Types &out) {
  if (failed(checkAxis(loc, op.getAxis(), op.getInput())))
    return failure();
  Shape in = getShape(op.getInput()), indices = getShape(op.getIndices());
  if (in.size() != indices.size())
    return fail(loc, "input and indices must have one rank");
  for (size_t i = 0; i < in.size(); ++i) {
    std::optional<int64_t> n = in[i].asConstant(), m = indices[i].asConstant();
    bool inside = n && m ? *m <= *n : in[i] == indices[i];
    if (!inside && i != static_cast<size_t>(op.getAxis()))
      return fail(loc, "indices " + shapeToString(indices) +
                           " do not lie inside " + shapeToString(in) +
                           " on axis " + Twine(i));
  }
  out.push_back(makeTensorType(indices, elementOf(op.getInput())));
  return success();
}

LogicalResult GatherElementsOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                         Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.make<GatherElementsGradOp>(getInput().getType(), grads[0],
                                             getIndices(), getAxisAttr());
  return success();
}

ShardingRule GatherElementsOp::getShardingRule() {
  return elementsRule(*this, getAxis(), false);
}

ItemState GatherElementsOp::inferItems(ItemStates operands,
                                       const ItemContext &) {
  if (anyIs(operands, ItemState::Sum))
    return ItemState::coupled(*this, kNotLinearInSum);
  for (const ItemState &state : operands)
    if (state.is(ItemState::PerItem) && state.axis == int64_t(getAxis()))
      return ItemState::coupled(*this, kUndeclared);
  return alignItems(*this, operands);
}

DimExpr GatherElementsGradOp::getFlops() { return perElement(getGrad(), 1); }
PrecisionRule GatherElementsGradOp::getPrecisionRule() {
  return sumsInFull(*this);
}
ShardingRule GatherElementsGradOp::getShardingRule() {
  return elementsRule(*this, getAxis(), true);
}

//===----------------------------------------------------------------------===//
// Index tuples
//===----------------------------------------------------------------------===//

namespace {
/// Factors of ONNX's index tuples: shared batch dims, dims that the tuple
/// addresses (whole), dims of a slice.
struct TupleFactors {
  TupleFactors(RuleBuilder &b, Value table, Value indices, int64_t batchDims) {
    Shape t = getShape(table), i = getShape(indices);
    size_t batch = static_cast<size_t>(batchDims);
    size_t k = static_cast<size_t>(i.back().asConstant().value_or(0));
    ofTable = b.letters(ArrayRef(t).take_front(batch));
    ofIndices = ofTable;
    for (size_t d = batch; d < t.size(); ++d)
      ofTable.push_back(b.factor(t[d], d < batch + k ? FactorKind::replicate
                                                     : FactorKind::pass));
    for (size_t d = batch; d + 1 < i.size(); ++d)
      ofIndices.push_back(b.factor(i[d]));
    taken = ofIndices;
    taken.append(ofTable.begin() + std::min(batch + k, ofTable.size()),
                 ofTable.end());
    ofIndices.push_back(b.factor(i.back(), FactorKind::replicate));
  }
  Letters ofTable, ofIndices, taken;
};
} // namespace

LogicalResult GatherNdOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                           Adaptor op, Types &out) {
  Shape in = getShape(op.getInput()), indices = getShape(op.getIndices());
  int64_t batch = op.getBatchDims();
  std::optional<int64_t> k =
      indices.empty() ? std::nullopt : indices.back().asConstant();
  if (!k || batch < 0 || batch >= static_cast<int64_t>(indices.size()) ||
      batch + *k > static_cast<int64_t>(in.size()))
    return fail(loc, "index tuples do not address the input");
  for (int64_t i = 0; i < batch; ++i)
    if (in[i] != indices[i])
      return fail(loc, "input " + shapeToString(in) + " and indices " +
                           shapeToString(indices) +
                           " must share their first dims (batch_dims = " +
                           Twine(batch) + ")");
  Shape shape(indices.begin(), indices.end() - 1);
  shape.append(in.begin() + batch + *k, in.end());
  out.push_back(makeTensorType(shape, elementOf(op.getInput())));
  return success();
}

/// Index tuples that also name the batch: [b..., rest, k] -> [b..., rest, nb +
/// k].
static Value withBatchIndices(GradientBuilder &g, Value indices,
                              int64_t batchDims) {
  Shape shape = getShape(indices);
  auto element = cast<IntegerType>(getElementTypeOrSelf(indices.getType()));
  Shape one = shape;
  one.back() = DimExpr(1);
  SmallVector<Value> parts;
  for (int64_t d = 0; d < batchDims; ++d) {
    OpBuilder::InsertionGuard guard(g.b);
    auto op = g.openGenerate(makeTensorType(one, element));
    Value place = op.getBody().front().getArgument(d);
    g.make<YieldOp>(g.make<arith::IndexCastOp>(element, place).getResult());
    parts.push_back(op);
  }
  parts.push_back(indices);
  return g.make<ConcatOp>(parts, static_cast<uint64_t>(shape.size() - 1));
}

LogicalResult GatherNdOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                   Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (!wanted[0])
    return success();
  Value indices = getIndices();
  if (int64_t n = getBatchDims())
    indices = withBatchIndices(g, indices, n);
  result[0] = g.make<ScatterNdOp>(
      ScatterKind::add, g.zeros(getInput().getType()), indices, grads[0]);
  return success();
}

ShardingRule GatherNdOp::getShardingRule() {
  RuleBuilder b(*this);
  TupleFactors f(b, getInput(), getIndices(), getBatchDims());
  b.operand(0, f.ofTable);
  b.operand(1, f.ofIndices);
  b.result(0, f.taken);
  b.linear({0});
  return b.finish();
}

bool GatherNdOp::picksItems(ItemStates operands) {
  int64_t batch = getBatchDims(), axis = operands[0].axis;
  return operands[0].is(ItemState::PerItem) && axis >= batch &&
         axis < batch + tupleOf(getIndices());
}

ItemState GatherNdOp::inferItems(ItemStates operands, const ItemContext &) {
  const ItemState &data = operands[0], &index = operands[1];
  if (anyIs(operands, ItemState::Sum))
    return ItemState::coupled(*this, kNotLinearInSum);
  int64_t batch = getBatchDims(), width = getRank(getIndices());
  auto tuple = getShape(getIndices()).back().asConstant();
  if (!tuple)
    return ItemState::coupled(*this, "has index tuples of unknown size");
  if (!data.is(ItemState::PerItem))
    return index.is(ItemState::PerItem)
               ? ItemState::perItem(index.axis, index.major)
               : ItemState();
  if (data.axis < batch)
    return index.is(ItemState::PerItem) && index.axis == data.axis &&
                   index.major == data.major
               ? ItemState::perItem(data.axis, data.major)
               : ItemState::coupled(*this, kUndeclared);
  if (data.axis < batch + *tuple) {
    bool own = data.axis == batch &&
               walksOver(index, data, getInput(), batch) &&
               (index.leadsWithOwnNumber || (*tuple == 1 && index.isOwnNumber));
    return own || (index.declaredIndex && *tuple == 1)
               ? ItemState::perItem(index.axis, index.major)
               : ItemState::coupled(*this, kUndeclared);
  }
  if (index.is(ItemState::PerItem))
    return ItemState::coupled(*this, "picks from every item for every other",
                              true);
  return ItemState::perItem(width - 1 + data.axis - batch - *tuple, data.major);
}

namespace {
/// Gradients of a scatter that combines. Both are as PyTorch's scatter_reduce
/// has them.
struct ScatterGradient {
  ScatterGradient(GradientBuilder &g, ScatterNdOp op) : g(g), op(op) {}

  Value ones(Value like) {
    return g.broadcast(g.number(like, 1), getShape(like));
  }
  Value oneWhere(Value condition, Value like) {
    return g.select(condition, g.number(like, 1), g.number(like, 0));
  }
  Value scatter(ScatterKind kind, Value into, Value updates) {
    return g.make<ScatterNdOp>(kind, into, op.getIndices(), updates);
  }
  /// How much of `updates` meets at each place.
  Value sumOf(Value updates) {
    return scatter(ScatterKind::add, g.zeros(op.getInput().getType()), updates);
  }
  Value at(Value v) { return g.make<GatherNdOp>(v, op.getIndices()); }

  /// dy times the product of all updates there, without a division.
  Value productInput(Value dy) {
    return g.mul(dy, scatter(ScatterKind::mul, ones(dy), op.getUpdates()));
  }
  /// dy times the product of the input and all other updates there: where one
  /// update is 0 only its own is not 0, where several are none.
  Value productUpdates(Value dy) {
    Value u = op.getUpdates(), isZero = g.compare(Compare::eq, u, 0);
    Value others = g.select(isZero, g.number(u, 1), u);
    Value product = scatter(ScatterKind::mul, op.getInput(), others);
    Value whole = at(g.mul(dy, product));
    Value zeros = at(sumOf(oneWhere(isZero, u)));
    Value own = g.keepWhere(g.compare(Compare::eq, zeros, 1), whole);
    Value rest = g.keepWhere(g.compare(Compare::eq, zeros, 0), g.div(whole, u));
    return g.select(isZero, own, rest);
  }
  /// Equals share.
  void extremum(Value dy, Wanted wanted, Gradients &result) {
    Value x = op.getInput(), u = op.getUpdates(), y = op.getResult();
    Value ofInput = g.compare(Compare::eq, x, y);
    Value ofUpdates = g.compare(Compare::eq, u, at(y));
    Value equals = g.add(oneWhere(ofInput, x), sumOf(oneWhere(ofUpdates, u)));
    Value share = g.div(dy, equals);
    if (wanted[0])
      result[0] = g.keepWhere(ofInput, share);
    if (wanted[2])
      result[2] = g.keepWhere(ofUpdates, at(share));
  }

  GradientBuilder &g;
  ScatterNdOp op;
};
} // namespace

LogicalResult ScatterNdOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  ScatterGradient s(g, *this);
  Value dy = grads[0];
  switch (getKind()) {
  case ScatterKind::max:
  case ScatterKind::min:
    s.extremum(dy, wanted, result);
    break;
  case ScatterKind::mul:
    if (wanted[0])
      result[0] = s.productInput(dy);
    if (wanted[2])
      result[2] = s.productUpdates(dy);
    break;
  case ScatterKind::add:
  case ScatterKind::set:
    if (wanted[0])
      result[0] = getKind() == ScatterKind::add
                      ? dy
                      : s.scatter(ScatterKind::set, dy,
                                  g.zeros(getUpdates().getType()));
    if (wanted[2])
      result[2] = s.at(dy);
  }
  return success();
}

DimExpr ScatterNdOp::getFlops() {
  return getKind() == ScatterKind::set ? DimExpr(0) : elements(getUpdates());
}
PrecisionRule ScatterNdOp::getPrecisionRule() {
  ScatterKind kind = getKind();
  PrecisionRule rule =
      PrecisionRule::anyNarrow(*this, kind != ScatterKind::set);
  // The gradient asks which elements are the result: none may be rounded.
  if (kind == ScatterKind::max || kind == ScatterKind::min) {
    rule.operands.assign(rule.operands.size(), false);
    rule.results.assign(rule.results.size(), false);
  }
  return rule;
}

ShardingRule ScatterNdOp::getShardingRule() {
  RuleBuilder b(*this);
  TupleFactors f(b, getInput(), getIndices(), 0);
  ScatterKind kind = getKind();
  bool adds = kind == ScatterKind::add;
  // Other kinds need all updates of a place: of equal tuples the last wins.
  for (unsigned letter : ArrayRef(f.ofIndices).drop_back())
    b.rule.factors[letter].kind =
        adds ? FactorKind::sum : FactorKind::replicate;
  b.operand(0, f.ofTable);
  b.operand(1, f.ofIndices);
  b.operand(2, f.taken);
  b.result(0, f.ofTable);
  if (adds)
    b.rule.addends.push_back(0);
  if (adds || kind == ScatterKind::set)
    b.linear({0, 2});
  return b.finish();
}

bool ScatterNdOp::picksItems(ItemStates operands) {
  return operands[0].is(ItemState::PerItem) &&
         operands[0].axis < tupleOf(getIndices());
}

ItemState ScatterNdOp::inferItems(ItemStates operands, const ItemContext &) {
  const ItemState &data = operands[0], &index = operands[1],
                  &updates = operands[2];
  if (anyIs(operands, ItemState::Sum))
    return ItemState::coupled(*this, kNotLinearInSum);
  auto tuple = getShape(getIndices()).back().asConstant();
  if (!data.is(ItemState::PerItem) || !tuple)
    return ItemState::coupled(*this, "writes items into what belongs to none");
  if (data.axis < *tuple) {
    bool own = data.axis == 0 && walksOver(index, data, getInput(), 0) &&
               (index.leadsWithOwnNumber || (*tuple == 1 && index.isOwnNumber));
    return own || (index.declaredIndex && *tuple == 1)
               ? ItemState::perItem(data.axis, data.major)
               : ItemState::coupled(*this, kUndeclared);
  }
  int64_t shift = getRank(getIndices()) - 1 - *tuple;
  if (!index.is(ItemState::Invariant) ||
      (updates.is(ItemState::PerItem) &&
       (updates.axis != data.axis + shift || updates.major != data.major)))
    return ItemState::coupled(*this, kUndeclared);
  return ItemState::perItem(data.axis, data.major);
}
