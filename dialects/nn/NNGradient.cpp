//===- NNGradient.cpp - Building blocks of gradients ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNInference.h"

using namespace mlir;
using namespace dt::nn;

Value GradientBuilder::widen(Value v) {
  if (!isNarrow(v))
    return v;
  return make<CastOp>(withElementType(v.getType(), b.getF32Type()), v);
}

Value GradientBuilder::number(Value like, double v) {
  auto type = RankedTensorType::get({}, getElementTypeOrSelf(like.getType()));
  auto attr = DenseElementsAttr::get(
      type, cast<Attribute>(b.getFloatAttr(type.getElementType(), v)));
  return make<ConstantOp>(type, attr);
}

Value GradientBuilder::zeros(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  Type element = type.getElementType();
  auto scalarType = RankedTensorType::get({}, element);
  auto attr = DenseElementsAttr::get(scalarType, b.getZeroAttr(element));
  Value zero = make<ConstantOp>(scalarType, attr);
  return type.getRank() ? make<BroadcastOp>(type, zero).getResult() : zero;
}

GenerateOp GradientBuilder::openGenerate(RankedTensorType type) {
  auto op = make<GenerateOp>(type);
  Block *body = b.createBlock(&op.getBody());
  for (int64_t i = 0; i < type.getRank(); ++i)
    body->addArgument(b.getIndexType(), loc);
  return op;
}

Value GradientBuilder::index(const DimExpr &expr) {
  if (auto c = expr.asConstant())
    return make<arith::ConstantOp>(b.getIndexAttr(*c));
  return make<SizeOp>(b.getIndexType(), DimAttr::get(b.getContext(), expr));
}

Value GradientBuilder::size(const DimExpr &expr, Type element) {
  auto type = RankedTensorType::get({}, element);
  if (auto c = expr.asConstant()) {
    Attribute value = isa<FloatType>(element)
                          ? cast<Attribute>(b.getFloatAttr(element, *c))
                          : cast<Attribute>(b.getIntegerAttr(element, *c));
    return make<ConstantOp>(type, DenseElementsAttr::get(type, value));
  }
  OpBuilder::InsertionGuard guard(b);
  auto op = openGenerate(type);
  Value v = make<arith::IndexCastOp>(b.getI64Type(), index(expr));
  if (isa<FloatType>(element))
    v = make<arith::SIToFPOp>(scalarOf(element), v);
  else if (element != v.getType())
    v = make<arith::TruncIOp>(element, v);
  make<YieldOp>(v);
  return op;
}

Value GradientBuilder::sequence(const DimExpr &first, int64_t step,
                                const DimExpr &count) {
  OpBuilder::InsertionGuard guard(b);
  auto op = openGenerate(makeTensorType({count}, b.getI64Type()));
  Value i = op.getBody().front().getArgument(0);
  if (step != 1)
    i = make<arith::MulIOp>(i, index(step));
  if (first != DimExpr(0))
    i = make<arith::AddIOp>(i, index(first));
  make<YieldOp>(make<arith::IndexCastOp>(b.getI64Type(), i).getResult());
  return op;
}

Value GradientBuilder::reshape(Value v, ArrayRef<DimExpr> shape) {
  auto type = makeTensorType(shape, getElementTypeOrSelf(v.getType()));
  return type == v.getType() ? v : make<ReshapeOp>(type, v).getResult();
}

Value GradientBuilder::broadcast(Value v, ArrayRef<DimExpr> shape) {
  auto type = makeTensorType(shape, getElementTypeOrSelf(v.getType()));
  return type == v.getType() ? v : make<BroadcastOp>(type, v).getResult();
}

Value GradientBuilder::transpose(Value v, ArrayRef<int64_t> permutation) {
  return make<TransposeOp>(v, permutation);
}

Value GradientBuilder::sum(Value v, ArrayRef<int64_t> axes, bool keepdims) {
  if (axes.empty())
    return v;
  return make<ReduceOp>(ReduceKind::sum, v, axes, keepdims);
}

Value GradientBuilder::sumTo(Value grad, Type target) {
  Shape have = getShape(grad), want = getShape(target);
  size_t extra = have.size() - want.size();
  SmallVector<int64_t> axes;
  for (size_t i = 0; i < have.size(); ++i) {
    bool broadcast =
        i < extra || (want[i - extra] == DimExpr(1) && have[i] != DimExpr(1));
    if (broadcast)
      axes.push_back(i);
  }
  return reshape(sum(grad, axes), want);
}

Value GradientBuilder::sumRows(Value grad, Type target) {
  Shape want = getShape(target);
  auto axes = llvm::to_vector(
      llvm::seq<int64_t>(0, getShape(grad).size() - want.size()));
  return reshape(sum(grad, axes), want);
}

Value GradientBuilder::sumChannels(Value grad) {
  SmallVector<int64_t> axes{0};
  axes.append(llvm::to_vector(llvm::seq<int64_t>(2, getShape(grad).size())));
  return sum(grad, axes);
}

Value dt::nn::placeBack(GradientBuilder &g, Value grad, Type whole,
                        ArrayRef<DimExpr> first, ArrayRef<int64_t> steps) {
  Shape to = getShape(whole), from = getShape(grad);
  Type element = getElementTypeOrSelf(whole);
  SmallVector<int64_t> low, interior;
  SmallVector<bool> reverse;
  for (size_t i = 0; i < to.size(); ++i) {
    // The pad counts from its smallest place.
    bool back = steps[i] < 0;
    DimExpr begin =
        back ? first[i] + (from[i] - DimExpr(1)) * DimExpr(steps[i]) : first[i];
    auto number = begin.asConstant();
    if (!number) {
      Value places = g.sequence(first[i], steps[i], from[i]);
      from[i] = to[i];
      grad = g.make<GatherGradOp>(makeTensorType(from, element), grad, places,
                                  static_cast<uint64_t>(i));
    }
    low.push_back(number.value_or(0));
    interior.push_back(number ? std::abs(steps[i]) - 1 : 0);
    reverse.push_back(number && back);
  }
  if (grad.getType() == whole && !llvm::is_contained(reverse, true))
    return grad;
  if (!llvm::is_contained(reverse, true))
    reverse.clear();
  return g.make<PadOp>(whole, grad, low, interior, reverse, APFloat(0.0));
}

Value dt::nn::takeRange(GradientBuilder &g, Value whole, int64_t axis,
                        const DimExpr &first, const DimExpr &count) {
  Shape shape = getShape(whole);
  DimExpr fromEnd = shape[axis] - first;
  shape[axis] = count;
  Type type = makeTensorType(shape, getElementTypeOrSelf(whole.getType()));
  auto start = first.asConstant();
  if (!start && !fromEnd.isConstant())
    return g.make<GatherOp>(whole, g.sequence(first, 1, count),
                            static_cast<uint64_t>(axis));
  SmallVector<int64_t> starts(shape.size(), 0), steps(shape.size(), 1);
  SmallVector<bool> ends;
  if (!start)
    ends.assign(shape.size(), false), ends[axis] = true;
  starts[axis] = start ? *start : fromEnd.constant();
  return g.make<SliceOp>(type, whole, starts, steps, ends);
}
