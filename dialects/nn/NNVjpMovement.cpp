//===- NNVjpMovement.cpp - Gradients of data movement -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Movement is linear: the gradient moves back the same way, adding where one
// element went to several places.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNGradient.h"

using namespace mlir;
using namespace dt::nn;

LogicalResult ReshapeOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                  ArrayRef<bool> wanted,
                                  SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.reshape(grads[0], getShape(getInput()));
  return success();
}

LogicalResult BroadcastOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.sumTo(grads[0], getInput().getType());
  return success();
}

LogicalResult TransposeOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (!wanted[0])
    return success();
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, axis] : llvm::enumerate(getPermutation()))
    inverse[axis] = i;
  result[0] = g.transpose(grads[0], inverse);
  return success();
}

LogicalResult SliceOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                ArrayRef<bool> wanted,
                                SmallVectorImpl<Value> &result) {
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

LogicalResult PadOp::buildVjp(OpBuilder &builder, ValueRange grads,
                              ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &result) {
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

LogicalResult ConcatOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 ArrayRef<bool> wanted,
                                 SmallVectorImpl<Value> &result) {
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

//===----------------------------------------------------------------------===//
// Indexing
//===----------------------------------------------------------------------===//

LogicalResult GatherOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 ArrayRef<bool> wanted,
                                 SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] =
        g.make<GatherGradOp>(getInput().getType(), grads[0], getIndices(),
                             getAxisAttr(), getZeroOutOfRangeAttr());
  return success();
}

LogicalResult GatherElementsOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                         ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.make<GatherElementsGradOp>(getInput().getType(), grads[0],
                                             getIndices(), getAxisAttr());
  return success();
}

LogicalResult TopKOp::buildVjp(OpBuilder &builder, ValueRange grads,
                               ArrayRef<bool> wanted,
                               SmallVectorImpl<Value> &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0] && grads[0])
    result[0] = g.make<GatherElementsGradOp>(getInput().getType(), grads[0],
                                             getIndices(), getAxisAttr());
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
    auto op = g.make<GenerateOp>(makeTensorType(one, element));
    Block *body = g.b.createBlock(&op.getBody());
    for (size_t i = 0; i < one.size(); ++i)
      body->addArgument(g.b.getIndexType(), g.loc);
    Value v = g.make<arith::IndexCastOp>(element, body->getArgument(d));
    g.make<YieldOp>(v);
    parts.push_back(op);
  }
  parts.push_back(indices);
  return g.make<ConcatOp>(parts, static_cast<uint64_t>(shape.size() - 1));
}

LogicalResult GatherNdOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                   ArrayRef<bool> wanted,
                                   SmallVectorImpl<Value> &result) {
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
  void extremum(Value dy, ArrayRef<bool> wanted,
                SmallVectorImpl<Value> &result) {
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
                                    ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &result) {
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
