//===- NNVerify.cpp - What must hold for nn ops beyond their types --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNOps.h"

using namespace mlir;
using namespace dt::nn;

namespace {
Type elementOf(Value v) {
  return cast<RankedTensorType>(v.getType()).getElementType();
}

/// Scalar code handles unsigned elements as signless integers.
Type scalarOf(Value v) {
  Type e = elementOf(v);
  return e.isUnsignedInteger()
             ? IntegerType::get(e.getContext(), e.getIntOrFloatBitWidth())
             : e;
}

LogicalResult verifySameElement(Operation *op, Value a, Value b) {
  if (elementOf(a) != elementOf(b))
    return op->emitOpError() << "changes the element type from " << elementOf(a)
                             << " to " << elementOf(b);
  return success();
}

/// `scale` and `bias` have the shape of the input's last axes.
template <typename Op> LogicalResult verifyLastAxesNorm(Op op, Value bias) {
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

LogicalResult verifyWindow(Operation *op, Value input,
                           ArrayRef<int64_t> strides, ArrayRef<int64_t> pads,
                           ArrayRef<int64_t> dilations) {
  size_t rank = getShape(input).size();
  size_t spatial = rank < 3 ? 0 : rank - 2;
  if (spatial < 1 || spatial > 3 || strides.size() != spatial ||
      dilations.size() != spatial || pads.size() != 2 * spatial)
    return op->emitOpError(
        "needs 1 to 3 spatial axes with a stride, dilation and two pads each");
  if (llvm::any_of(strides, [](int64_t s) { return s < 1; }) ||
      llvm::any_of(dilations, [](int64_t d) { return d < 1; }))
    return op->emitOpError("needs positive strides and dilations");
  return success();
}
} // namespace

LogicalResult CastOp::verify() {
  if (getShape(getInput()) != getShape(getResult()))
    return emitOpError("must keep the shape");
  return success();
}

LogicalResult ConvDxOp::verify() {
  if (failed(verifyWindow(*this, getGrad(), getStrides(), getPads(),
                          getDilations())))
    return failure();
  Shape dy = getShape(getGrad()), w = getShape(getWeight()),
        dx = getShape(getResult());
  if (w.size() != dy.size() || dx.size() != dy.size() || dy[1] != w[0] ||
      dx[0] != dy[0] || dx[1] != w[1] * DimExpr(getGroups()))
    return emitOpError() << "gradient " << shapeToString(dy) << " and weight "
                         << shapeToString(w) << " do not give "
                         << shapeToString(dx);
  return success();
}

LogicalResult ConvDwOp::verify() {
  if (failed(verifyWindow(*this, getInput(), getStrides(), getPads(),
                          getDilations())))
    return failure();
  Shape x = getShape(getInput()), dy = getShape(getGrad()),
        dw = getShape(getResult());
  if (dy.size() != x.size() || dw.size() != x.size() || x[0] != dy[0] ||
      dw[0] != dy[1] || dw[1] * DimExpr(getGroups()) != x[1])
    return emitOpError() << "input " << shapeToString(x) << " and gradient "
                         << shapeToString(dy) << " do not give "
                         << shapeToString(dw);
  return success();
}

LogicalResult PoolOp::verify() {
  if (failed(verifyWindow(*this, getInput(), getStrides(), getPads(),
                          getDilations())))
    return failure();
  Shape in = getShape(getInput()), out = getShape(getResult());
  if (getKernel().size() + 2 != in.size() || out.size() != in.size() ||
      in[0] != out[0] || in[1] != out[1])
    return emitOpError() << "does not turn " << shapeToString(in) << " into "
                         << shapeToString(out);
  return success();
}

LogicalResult AttentionOp::verify() {
  if (!getMask())
    return success();
  Shape q = getShape(getQuery()), k = getShape(getKey()),
        mask = getShape(getMask());
  Shape scores = {q[0], q[2], q[1], k[1]};
  std::optional<Shape> together = broadcastShapes({scores, mask});
  if (!together || *together != scores)
    return emitOpError() << "mask " << shapeToString(mask)
                         << " does not broadcast to the scores "
                         << shapeToString(scores);
  Type element = elementOf(getMask());
  if (!element.isInteger(1) && !isa<FloatType>(element))
    return emitOpError("mask must be bool (visible) or float (added)");
  return success();
}

LogicalResult RotaryOp::verify() {
  Shape x = getShape(getInput()), c = getShape(getCos());
  if (c != getShape(getSin()) || x.size() != 4 ||
      (c.size() != 2 && c.size() != 3))
    return emitOpError("takes [batch, tokens, heads, size] and cos, sin "
                       "[tokens, pairs] or [batch, tokens, pairs]");
  std::optional<int64_t> d = x[3].asConstant(), r = c.back().asConstant();
  if (!d || !r || 2 * *r > *d || c[c.size() - 2] != x[1] ||
      (c.size() == 3 && c[0] != x[0] && c[0] != DimExpr(1)))
    return emitOpError() << "angles " << shapeToString(c) << " do not turn "
                         << shapeToString(x);
  return success();
}

LogicalResult LayerNormOp::verify() {
  return verifyLastAxesNorm(*this, getBias());
}
LogicalResult RmsNormOp::verify() { return verifyLastAxesNorm(*this, Value()); }

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

LogicalResult ConstantOp::verify() {
  constexpr int64_t limit = 65536;
  if (getValue().getType() != getType())
    return emitOpError() << "value is " << getValue().getType();
  if (!getValue().isSplat() && getValue().getNumElements() > limit)
    return emitOpError() << "has " << getValue().getNumElements()
                         << " elements, more than " << limit
                         << ": make it a parameter or an nn.generate";
  return success();
}

LogicalResult GenerateOp::verify() {
  Block &block = getBody().front();
  Type element = elementOf(getResult());
  if (block.getNumArguments() != getShape(getResult()).size() ||
      !llvm::all_of(block.getArgumentTypes(), llvm::IsaPred<IndexType>))
    return emitOpError("region must take one index a dim");
  auto yield =
      dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield || yield.getValues().size() != 1 ||
      yield.getValues()[0].getType() != element)
    return emitOpError() << "region must yield one " << element;
  return success();
}

LogicalResult FusedOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size())
    return emitOpError("region must take one scalar an input");
  SmallVector<Shape> shapes;
  for (auto [argument, input] : llvm::zip(block.getArguments(), getInputs())) {
    if (argument.getType() != scalarOf(input))
      return emitOpError() << "block argument " << argument.getArgNumber()
                           << " must be " << scalarOf(input);
    shapes.push_back(getShape(input));
  }
  auto yield =
      dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield || yield.getValues().size() != getResults().size())
    return emitOpError("region must yield one scalar a result");
  for (auto [value, result] : llvm::zip(yield.getValues(), getResults())) {
    if (value.getType() != scalarOf(result))
      return emitOpError() << "yields " << value.getType() << " for "
                           << result.getType();
    if (getShape(result) != getShape(getResults()[0]))
      return emitOpError("results must have one shape");
  }
  if (getResults().empty())
    return emitOpError("needs a result");
  Shape out = getShape(getResults()[0]);
  shapes.push_back(out);
  std::optional<Shape> together = broadcastShapes(shapes);
  if (!together || *together != out)
    return emitOpError() << "inputs do not broadcast to " << shapeToString(out);
  return success();
}

LogicalResult ReshapeOp::verify() {
  DimExpr in = getNumElements(getShape(getInput()));
  DimExpr out = getNumElements(getShape(getResult()));
  if (in != out)
    return emitOpError() << "has " << in.str()
                         << " elements but its result has " << out.str();
  return verifySameElement(*this, getInput(), getResult());
}

LogicalResult BroadcastOp::verify() {
  Shape in = getShape(getInput()), out = getShape(getResult());
  std::optional<Shape> together = broadcastShapes({in, out});
  if (!together || *together != out)
    return emitOpError() << shapeToString(in) << " does not broadcast to "
                         << shapeToString(out);
  return verifySameElement(*this, getInput(), getResult());
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
