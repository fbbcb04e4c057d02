//===- NNInfer.cpp - Result types of nn ops ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a result looks like follows from the operands' symbolic shapes; an
// impossible combination is reported here, at the op, with both shapes.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNOps.h"

using namespace mlir;
using namespace dt::nn;

namespace {
using Loc = std::optional<Location>;
using Types = SmallVectorImpl<Type>;

LogicalResult fail(Loc loc, const Twine &what) {
  return emitOptionalError(loc, what);
}

Type elementOf(Value v) {
  return cast<RankedTensorType>(v.getType()).getElementType();
}

/// One tensor of the operands' common shape.
LogicalResult inferBroadcast(Loc loc, ValueRange operands, Type element,
                             Types &out) {
  SmallVector<Shape> shapes;
  for (Value v : operands)
    shapes.push_back(getShape(v));
  std::optional<Shape> shape = broadcastShapes(shapes);
  if (!shape) {
    std::string text;
    for (const Shape &s : shapes)
      text += (text.empty() ? "" : " and ") + shapeToString(s);
    return fail(loc, "operands do not broadcast: " + text);
  }
  out.push_back(makeTensorType(*shape, element));
  return success();
}

/// Drops or keeps (as 1) the reduced axes.
Shape reduceShape(const Shape &in, ArrayRef<int64_t> axes, bool keep) {
  Shape out;
  for (auto [i, d] : llvm::enumerate(in)) {
    bool reduced = llvm::is_contained(axes, static_cast<int64_t>(i));
    if (!reduced)
      out.push_back(d);
    else if (keep)
      out.push_back(DimExpr(1));
  }
  return out;
}

LogicalResult checkAxis(Loc loc, int64_t axis, Value v) {
  int64_t rank = cast<RankedTensorType>(v.getType()).getRank();
  if (axis < 0 || axis >= rank)
    return fail(loc,
                "axis " + Twine(axis) + " is not in [0, " + Twine(rank) + ")");
  return success();
}

LogicalResult sameTypes(Loc loc, Value a, Value b) {
  if (a.getType() == b.getType())
    return success();
  return fail(loc,
              "operands must have one shape: " + shapeToString(getShape(a)) +
                  " and " + shapeToString(getShape(b)));
}

/// [c] for the channel axis, trailing dims for norms over the last axes.
Shape lastAxes(Value v, int64_t axes) {
  Shape s = getShape(v);
  size_t n = std::min<size_t>(std::max<int64_t>(axes, 0), s.size());
  return Shape(s.end() - n, s.end());
}
} // namespace

#define INFER(OP)                                                              \
  LogicalResult OP::inferReturnTypes(MLIRContext *, Loc loc, Adaptor op,       \
                                     Types &out)

#define INFER_LIKE_INPUT(OP)                                                   \
  INFER(OP) {                                                                  \
    out.push_back(op.getOperands()[0].getType());                              \
    return success();                                                          \
  }

INFER_LIKE_INPUT(NegOp)
INFER_LIKE_INPUT(AbsOp)
INFER_LIKE_INPUT(ExpOp)
INFER_LIKE_INPUT(LogOp)
INFER_LIKE_INPUT(SqrtOp)
INFER_LIKE_INPUT(RsqrtOp)
INFER_LIKE_INPUT(ReciprocalOp)
INFER_LIKE_INPUT(SinOp)
INFER_LIKE_INPUT(CosOp)
INFER_LIKE_INPUT(TanOp)
INFER_LIKE_INPUT(AsinOp)
INFER_LIKE_INPUT(AcosOp)
INFER_LIKE_INPUT(AtanOp)
INFER_LIKE_INPUT(SinhOp)
INFER_LIKE_INPUT(CoshOp)
INFER_LIKE_INPUT(TanhOp)
INFER_LIKE_INPUT(AsinhOp)
INFER_LIKE_INPUT(AcoshOp)
INFER_LIKE_INPUT(AtanhOp)
INFER_LIKE_INPUT(ErfOp)
INFER_LIKE_INPUT(SigmoidOp)
INFER_LIKE_INPUT(SiluOp)
INFER_LIKE_INPUT(SoftplusOp)
INFER_LIKE_INPUT(ReluOp)
INFER_LIKE_INPUT(GeluOp)
INFER_LIKE_INPUT(LeakyReluOp)
INFER_LIKE_INPUT(EluOp)
INFER_LIKE_INPUT(HardSigmoidOp)
INFER_LIKE_INPUT(FloorOp)
INFER_LIKE_INPUT(CeilOp)
INFER_LIKE_INPUT(RoundOp)
INFER_LIKE_INPUT(SignOp)
INFER_LIKE_INPUT(StopGradientOp)
INFER_LIKE_INPUT(NotOp)
INFER_LIKE_INPUT(SoftmaxOp)
INFER_LIKE_INPUT(LogSoftmaxOp)
INFER_LIKE_INPUT(CumsumOp)
INFER_LIKE_INPUT(LayerNormOp)
INFER_LIKE_INPUT(LayerNormDxOp)
INFER_LIKE_INPUT(RmsNormOp)
INFER_LIKE_INPUT(RmsNormDxOp)
INFER_LIKE_INPUT(GroupNormOp)
INFER_LIKE_INPUT(GroupNormDxOp)
INFER_LIKE_INPUT(RotaryOp)
INFER_LIKE_INPUT(PoolDxOp)
INFER_LIKE_INPUT(ScatterNdOp)
INFER_LIKE_INPUT(CrossEntropyGradOp)

#define INFER_PREDICATE(OP)                                                    \
  INFER(OP) {                                                                  \
    Value in = op.getOperands()[0];                                            \
    out.push_back(                                                             \
        withElementType(in.getType(), IntegerType::get(in.getContext(), 1)));  \
    return success();                                                          \
  }
INFER_PREDICATE(IsNanOp)
INFER_PREDICATE(IsInfOp)

#define INFER_BINARY(OP)                                                       \
  INFER(OP) {                                                                  \
    if (elementOf(op.getLhs()) != elementOf(op.getRhs()))                      \
      return fail(loc, "operands must have one element type");                 \
    return inferBroadcast(loc, op.getOperands(), elementOf(op.getLhs()), out); \
  }
INFER_BINARY(AddOp)
INFER_BINARY(SubOp)
INFER_BINARY(MulOp)
INFER_BINARY(DivOp)
INFER_BINARY(PowOp)
INFER_BINARY(MaxOp)
INFER_BINARY(MinOp)
INFER_BINARY(ModOp)
INFER_BINARY(AndOp)
INFER_BINARY(OrOp)
INFER_BINARY(XorOp)

INFER(CmpOp) {
  if (elementOf(op.getLhs()) != elementOf(op.getRhs()))
    return fail(loc, "operands must have one element type");
  Type i1 = IntegerType::get(op.getLhs().getContext(), 1);
  return inferBroadcast(loc, op.getOperands(), i1, out);
}
INFER(WhereOp) {
  if (elementOf(op.getLhs()) != elementOf(op.getRhs()))
    return fail(loc, "operands must have one element type");
  return inferBroadcast(loc, op.getOperands(), elementOf(op.getLhs()), out);
}
INFER(GeluGradOp) {
  return inferBroadcast(loc, op.getOperands(), elementOf(op.getInput()), out);
}
INFER(SiluGradOp) {
  return inferBroadcast(loc, op.getOperands(), elementOf(op.getInput()), out);
}
INFER(SoftmaxGradOp) {
  out.push_back(op.getOutput().getType());
  return sameTypes(loc, op.getOutput(), op.getGrad());
}
INFER(LogSoftmaxGradOp) {
  out.push_back(op.getOutput().getType());
  return sameTypes(loc, op.getOutput(), op.getGrad());
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

INFER(LinearOp) {
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

INFER(LinearDwOp) {
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

INFER(MatmulOp) {
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

INFER(ConvOp) {
  Shape x = getShape(op.getInput()), w = getShape(op.getWeight());
  size_t spatial = x.size() < 3 ? 0 : x.size() - 2;
  if (spatial < 1 || spatial > 3 || w.size() != x.size() ||
      op.getStrides().size() != spatial ||
      op.getDilations().size() != spatial || op.getPads().size() != 2 * spatial)
    return fail(
        loc,
        "needs 1 to 3 spatial axes with a stride, dilation and two pads each");
  if (x[1] != w[1] * DimExpr(op.getGroups()))
    return fail(loc, "input has " + x[1].str() +
                         " channels, the weight takes " +
                         (w[1] * DimExpr(op.getGroups())).str());
  if (op.getBias() && getShape(op.getBias()) != Shape{w[0]})
    return fail(loc, "bias must be [" + w[0].str() + "]");
  Shape y = {x[0], w[0]};
  for (size_t i = 0; i < spatial; ++i) {
    std::optional<int64_t> in = x[i + 2].asConstant(),
                           k = w[i + 2].asConstant();
    int64_t stride = op.getStrides()[i];
    if (!k || stride < 1)
      return fail(loc, "kernel sizes must be numbers and strides positive");
    // Numbers of a file: a kernel's reach and the padding are bounded, so that
    // what follows fits into 64 bits.
    constexpr int64_t most = int64_t(1) << 40;
    int64_t reach, pad;
    if (*k < 1 || op.getDilations()[i] < 1 ||
        llvm::MulOverflow<int64_t>(op.getDilations()[i], *k - 1, reach) ||
        reach >= most)
      return fail(loc,
                  "kernel sizes and dilations must be at least 1 and reach "
                  "over less than 2^40 elements");
    ++reach;
    if (llvm::AddOverflow<int64_t>(op.getPads()[i], op.getPads()[i + spatial],
                                   pad) ||
        std::abs(pad) >= most ||
        (in && *in >= std::numeric_limits<int64_t>::max() - most))
      return fail(loc, "paddings must be less than 2^40");
    if (in) {
      if (*in + pad < reach)
        return fail(loc, "kernel is larger than the padded input");
      y.push_back(DimExpr((*in + pad - reach) / stride + 1));
    } else if (stride == 1) {
      y.push_back(x[i + 2] + DimExpr(pad - reach + 1));
    } else {
      // floor division of a symbol is no polynomial
      std::optional<DimExpr> steps =
          (x[i + 2] + DimExpr(pad - reach)).exactDiv(DimExpr(stride));
      if (!steps)
        return fail(loc, "spatial size " + x[i + 2].str() +
                             " must be bound to a number under stride " +
                             Twine(stride));
      y.push_back(*steps + DimExpr(1));
    }
  }
  out.push_back(makeTensorType(y, elementOf(op.getInput())));
  return success();
}

INFER(AttentionOp) {
  Shape q = getShape(op.getQuery()), k = getShape(op.getKey()),
        v = getShape(op.getValue());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return fail(loc, "query, key and value are [batch, tokens, heads, size]");
  if (k[0] != q[0] || v[0] != q[0] || k[1] != v[1] || k[2] != v[2] ||
      q[3] != k[3] || !q[2].exactDiv(k[2]))
    return fail(loc, "query " + shapeToString(q) + ", key " + shapeToString(k) +
                         " and value " + shapeToString(v) + " do not fit");
  Type element = elementOf(op.getQuery());
  out.push_back(makeTensorType({q[0], q[1], q[2], v[3]}, element));
  out.push_back(makeTensorType({q[0], q[2], q[1]},
                               Float32Type::get(element.getContext())));
  return success();
}

INFER(AttentionGradOp) {
  for (Value v : {op.getQuery(), op.getKey(), op.getValue()})
    out.push_back(v.getType());
  return success();
}

//===----------------------------------------------------------------------===//
// Norms, reductions, losses
//===----------------------------------------------------------------------===//

INFER(LayerNormDscaleOp) {
  out.push_back(makeTensorType(lastAxes(op.getInput(), op.getAxes()),
                               elementOf(op.getInput())));
  return sameTypes(loc, op.getInput(), op.getGrad());
}
INFER(RmsNormDscaleOp) {
  out.push_back(makeTensorType(lastAxes(op.getInput(), op.getAxes()),
                               elementOf(op.getInput())));
  return sameTypes(loc, op.getInput(), op.getGrad());
}
INFER(GroupNormDscaleOp) {
  Shape x = getShape(op.getInput());
  if (x.size() < 2)
    return fail(loc, "input needs a channel axis");
  out.push_back(makeTensorType({x[1]}, elementOf(op.getInput())));
  return sameTypes(loc, op.getInput(), op.getGrad());
}

INFER(ReduceOp) {
  for (int64_t axis : op.getAxes())
    if (failed(checkAxis(loc, axis, op.getInput())))
      return failure();
  out.push_back(makeTensorType(
      reduceShape(getShape(op.getInput()), op.getAxes(), op.getKeepdims()),
      elementOf(op.getInput())));
  return success();
}

INFER(ArgMaxOp) {
  if (failed(checkAxis(loc, op.getAxis(), op.getInput())))
    return failure();
  out.push_back(makeTensorType(
      reduceShape(getShape(op.getInput()), {static_cast<int64_t>(op.getAxis())},
                  op.getKeepdims()),
      IntegerType::get(op.getInput().getContext(), 64)));
  return success();
}

INFER(CrossEntropyOp) {
  Shape logits = getShape(op.getLogits()), labels = getShape(op.getLabels());
  if (logits.empty() || Shape(logits.begin(), logits.end() - 1) != labels)
    return fail(loc, "labels " + shapeToString(labels) +
                         " must be the logits' dims " + shapeToString(logits) +
                         " without the last");
  out.push_back(makeTensorType(labels, elementOf(op.getLogits())));
  return success();
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

INFER(TransposeOp) {
  Shape in = getShape(op.getInput()), shape;
  SmallVector<bool> seen(in.size());
  for (int64_t axis : op.getPermutation()) {
    if (axis < 0 || axis >= static_cast<int64_t>(in.size()) || seen[axis])
      return fail(loc,
                  "permutation is not one of " + Twine(in.size()) + " axes");
    seen[axis] = true;
    shape.push_back(in[axis]);
  }
  if (shape.size() != in.size())
    return fail(loc, "permutation is not one of " + Twine(in.size()) + " axes");
  out.push_back(makeTensorType(shape, elementOf(op.getInput())));
  return success();
}

INFER(ConcatOp) {
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

INFER(GatherOp) {
  if (failed(checkAxis(loc, op.getAxis(), op.getInput())))
    return failure();
  Shape in = getShape(op.getInput()), indices = getShape(op.getIndices());
  Shape shape(in.begin(), in.begin() + op.getAxis());
  shape.append(indices.begin(), indices.end());
  shape.append(in.begin() + op.getAxis() + 1, in.end());
  out.push_back(makeTensorType(shape, elementOf(op.getInput())));
  return success();
}

INFER(GatherElementsOp) {
  if (failed(checkAxis(loc, op.getAxis(), op.getInput())))
    return failure();
  Shape in = getShape(op.getInput()), indices = getShape(op.getIndices());
  if (in.size() != indices.size())
    return fail(loc, "input and indices must have one rank");
  if (failed(checkAxis(loc, op.getAxis(), op.getInput())))
    return failure();
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

INFER(GatherNdOp) {
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
