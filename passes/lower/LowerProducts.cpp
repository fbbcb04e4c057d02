//===- LowerProducts.cpp - Library calls: products, convolution, attention ===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/LowerStrips.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

DimExpr product(ArrayRef<DimExpr> dims) { return nn::getNumElements(dims); }

/// One product; sizes as in runtime/device/cpu/Matmul.h, operands dense.
struct Product {
  Value a, b, bias;
  DimExpr batch = 1, m = 1, n = 1, k = 1;
  bool transA = false, transB = false;
  /// The same matrix for the whole batch.
  bool sharedA = true, sharedB = true;
};

void emit(FunctionLowering &f, Location loc, const Product &p,
          const Destination &d) {
  MLIRContext *context = loc.getContext();
  auto dim = [&](const DimExpr &e) { return nn::DimAttr::get(context, e); };
  auto unit = [&](bool yes) {
    return yes ? UnitAttr::get(context) : UnitAttr();
  };
  DimExpr zero;
  auto call = rt::MatmulOp::create(
      f.builder(), loc, p.a, p.b, p.bias, d.buffer, dim(p.batch), dim(p.m),
      dim(p.n), dim(p.k), unit(p.transA), unit(p.transB),
      dim(p.sharedA ? zero : p.m * p.k), dim(p.sharedB ? zero : p.k * p.n),
      dim(p.batch == DimExpr(1) ? zero : p.m * p.n), dim(zero), dim(zero),
      dim(zero), unit(d.add));
  (void)call;
}

//===----------------------------------------------------------------------===//
// linear, matmul
//===----------------------------------------------------------------------===//

LogicalResult lowerLinear(nn::LinearOp op, FunctionLowering &f) {
  if (f.isLowered(op.getResult()) || lowerReducedStrips(op, f))
    return success();
  Shape x = nn::getShape(op.getInput()), y = nn::getShape(op.getResult());
  Product p;
  p.a = f.get(op.getInput());
  p.b = f.get(op.getWeight());
  p.bias = f.get(op.getBias());
  p.m = product(ArrayRef<DimExpr>(x).drop_back());
  p.n = y.back();
  p.k = x.back();
  p.transB = !op.getInOut();
  emit(f, op.getLoc(), p, f.accumulating(op.getResult()));
  return success();
}

LogicalResult lowerLinearDw(nn::LinearDwOp op, FunctionLowering &f) {
  Shape x = nn::getShape(op.getInput()), dy = nn::getShape(op.getGrad());
  Product p;
  p.transA = true;
  p.a = f.get(op.getInOut() ? op.getInput() : op.getGrad());
  p.b = f.get(op.getInOut() ? op.getGrad() : op.getInput());
  p.m = op.getInOut() ? x.back() : dy.back();
  p.n = op.getInOut() ? dy.back() : x.back();
  p.k = product(ArrayRef<DimExpr>(x).drop_back());
  emit(f, op.getLoc(), p, f.accumulating(op.getResult()));
  return success();
}

/// The operand repeated along the batch dims that it lacks.
Value repeat(FunctionLowering &f, Location loc, Value operand,
             const Shape &from, const Shape &to) {
  Value buffer = f.get(operand);
  Type element = cast<rt::BufferType>(buffer.getType()).getElementType();
  Value out = f.temporary(element, to, "repeated", loc);
  KernelBuilder k(f.builder(), loc, "repeat", to);
  SmallVector<Value> at;
  size_t missing = to.size() - from.size();
  for (auto [i, d] : llvm::enumerate(from))
    at.push_back(d == DimExpr(1) ? k.constant(0) : k.index(missing + i));
  k.store(k.load(k.use(buffer, from), at), k.use(out, to), k.indices());
  return out;
}

LogicalResult lowerMatmul(nn::MatmulOp op, FunctionLowering &f) {
  Shape a = nn::getShape(op.getLhs()), b = nn::getShape(op.getRhs()),
        c = nn::getShape(op.getResult());
  ArrayRef<DimExpr> batch = ArrayRef<DimExpr>(c).drop_back(2);
  auto leading = [](const Shape &s) {
    return product(ArrayRef<DimExpr>(s).drop_back(2));
  };
  Product p;
  p.batch = product(batch);
  p.m = c[c.size() - 2];
  p.n = c.back();
  p.k = a[a.size() - (op.getTransA() ? 2 : 1)];
  p.transA = op.getTransA();
  p.transB = op.getTransB();
  // An operand has the whole batch, is one matrix, or must be repeated.
  auto place = [&](Value v, const Shape &s, bool &shared) {
    shared = leading(s) == DimExpr(1);
    if (shared || leading(s) == p.batch)
      return f.get(v);
    Shape full(batch.begin(), batch.end());
    full.append(s.end() - 2, s.end());
    return repeat(f, op.getLoc(), v, s, full);
  };
  p.a = place(op.getLhs(), a, p.sharedA);
  p.b = place(op.getRhs(), b, p.sharedB);
  // One matrix on the right: the rows of the whole batch are one product.
  if (p.sharedB && !p.transA && !p.sharedA) {
    p.m = p.batch * p.m;
    p.batch = 1;
    p.sharedA = true;
  }
  if (p.batch == DimExpr(1))
    p.sharedA = p.sharedB = true;
  emit(f, op.getLoc(), p, f.accumulating(op.getResult()));
  return success();
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// One of the three calls with its buffers. `image` is the forward's input.
template <typename CallOp, typename OpTy>
FailureOr<CallOp> convCall(OpTy op, FunctionLowering &f, Value image,
                           Value weight, std::array<Value, 4> buffers) {
  MLIRContext *context = op.getContext();
  Shape x = nn::getShape(image), w = nn::getShape(weight);
  size_t dims = x.size() - 2;
  std::optional<int64_t> c = x[1].asConstant(), o = w[0].asConstant();
  if (!c || !o || dims < 1 || dims > 3)
    return op.emitOpError("cannot be lowered: needs 1 to 3 spatial axes and "
                          "numbers of channels");
  SmallVector<int64_t> kernel;
  for (const DimExpr &d : ArrayRef<DimExpr>(w).drop_front(2)) {
    std::optional<int64_t> k = d.asConstant();
    if (!k)
      return op.emitOpError("cannot be lowered: size of the kernel must be a "
                            "number");
    kernel.push_back(*k);
  }
  ArrayRef<int64_t> pads = op.getPads();
  return CallOp::create(
      f.builder(), op.getLoc(), buffers[0], buffers[1], buffers[2], buffers[3],
      x[0], *c, *o, op.getGroups(),
      nn::DimsAttr::get(context, ArrayRef<DimExpr>(x).drop_front(2)), kernel,
      op.getStrides(), op.getDilations(), pads.take_front(dims),
      pads.drop_front(dims));
}

LogicalResult lowerConv(nn::ConvOp op, FunctionLowering &f) {
  Destination d = f.destination(op.getResult());
  return convCall<rt::ConvOp>(op, f, op.getInput(), op.getWeight(),
                              {f.get(op.getInput()), f.get(op.getWeight()),
                               f.get(op.getBias()), d.buffer});
}

LogicalResult lowerConvDx(nn::ConvDxOp op, FunctionLowering &f) {
  Destination d = f.destination(op.getResult());
  return convCall<rt::ConvDxOp>(
      op, f, op.getResult(), op.getWeight(),
      {f.get(op.getGrad()), f.get(op.getWeight()), Value(), d.buffer});
}

LogicalResult lowerConvDw(nn::ConvDwOp op, FunctionLowering &f) {
  Destination d = f.summing(f.accumulating(op.getResult()));
  auto call = convCall<rt::ConvDwOp>(
      op, f, op.getInput(), op.getResult(),
      {f.get(op.getInput()), f.get(op.getGrad()), d.buffer, Value()});
  if (succeeded(call))
    call->setAccumulate(d.add);
  return call;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Fields of AttentionShape for [batch, tokens, heads, size] tensors.
struct AttentionAttributes {
  nn::DimAttr b, t, s, h, hk, d, dv;
  nn::DimsAttr o, mask, segments;
  rt::EmptyRow emptyRow;
};

/// Of the rows of [batch, tokens, heads, size], `pitch` elements apart.
nn::DimsAttr headStrides(const Shape &x, const DimExpr &pitch,
                         MLIRContext *context) {
  return nn::DimsAttr::get(context,
                           ArrayRef<DimExpr>{x[1] * pitch, pitch, x[3]});
}

nn::DimsAttr headStrides(const Shape &x, MLIRContext *context) {
  return headStrides(x, x[2] * x[3], context);
}

/// Queries, keys, values or their gradients: where they are, and how far apart.
struct HeadRows {
  Value buffer;
  nn::DimsAttr strides;
};

HeadRows headRows(FunctionLowering &f, Value tensor, Value buffer,
                  const std::optional<RowColumns> &columns) {
  MLIRContext *context = tensor.getContext();
  Shape x = nn::getShape(tensor);
  if (!columns)
    return {buffer, headStrides(x, context)};
  DimExpr all = cast<rt::BufferType>(buffer.getType()).getNumElements();
  buffer =
      f.view(buffer, {all - columns->offset}, tensor.getLoc(), columns->offset);
  return {buffer, headStrides(x, columns->pitch, context)};
}

HeadRows readHeads(FunctionLowering &f, Value tensor) {
  Source s = f.read(tensor);
  return headRows(f, tensor, s.buffer, s.columns);
}

/// Of a gradient; dense ones need no strides if they have those of `operand`.
HeadRows writeHeads(FunctionLowering &f, Value result,
                    const HeadRows &operand) {
  if (std::optional<Destination> d = f.columns(result))
    return headRows(f, result, d->buffer, d->columns);
  HeadRows rows =
      headRows(f, result, f.destination(result).buffer, std::nullopt);
  if (rows.strides == operand.strides)
    rows.strides = nullptr;
  return rows;
}

nn::DimsAttr maskStrides(const Shape &mask, MLIRContext *context) {
  Shape strides(4, DimExpr(0));
  DimExpr stride(1);
  for (size_t i = mask.size(); i-- > 0;) {
    if (mask[i] != DimExpr(1))
      strides[4 - mask.size() + i] = stride;
    stride = stride * mask[i];
  }
  return nn::DimsAttr::get(context, ArrayRef<DimExpr>(strides));
}

/// (b, t) of queries' segments, b of keys'; null if there are none.
template <typename OpTy> nn::DimsAttr segmentStrides(OpTy op) {
  if (!op.getQuerySegments())
    return {};
  Shape q = nn::getShape(op.getQuerySegments()),
        k = nn::getShape(op.getKeySegments());
  DimExpr one(1), zero(0);
  return nn::DimsAttr::get(op.getContext(),
                           ArrayRef<DimExpr>{q[0] == one ? zero : q[1],
                                             q[1] == one ? zero : one,
                                             k[0] == one ? zero : k[1]});
}

template <typename OpTy> AttentionAttributes attentionAttributes(OpTy op) {
  MLIRContext *context = op.getContext();
  Shape q = nn::getShape(op.getQuery()), k = nn::getShape(op.getKey()),
        v = nn::getShape(op.getValue());
  Shape o{q[0], q[1], q[2], v[3]};
  auto dim = [&](const DimExpr &e) { return nn::DimAttr::get(context, e); };
  return {dim(q[0]),
          dim(q[1]),
          dim(k[1]),
          dim(q[2]),
          dim(k[2]),
          dim(q[3]),
          dim(v[3]),
          headStrides(o, context),
          op.getMask() ? maskStrides(nn::getShape(op.getMask()), context)
                       : nn::DimsAttr::get(context, Shape()),
          segmentStrides(op),
          *rt::fromText<rt::EmptyRow>(nn::stringifyEmptyRow(op.getEmptyRow()))};
}

LogicalResult lowerAttention(nn::AttentionOp op, FunctionLowering &f) {
  AttentionAttributes a = attentionAttributes(op);
  HeadRows q = readHeads(f, op.getQuery()), k = readHeads(f, op.getKey()),
           v = readHeads(f, op.getValue());
  Destination o = f.destination(op.getResult()),
              lse = f.destination(op.getLse());
  rt::AttentionOp::create(
      f.builder(), op.getLoc(), q.buffer, k.buffer, v.buffer,
      f.get(op.getMask()), f.get(op.getQuerySegments()),
      f.get(op.getKeySegments()), o.buffer, lse.buffer, a.b, a.t, a.s, a.h,
      a.hk, a.d, a.dv, q.strides, k.strides, v.strides, a.o, a.mask, a.segments,
      op.getScaleAttr(), op.getCausalAttr(), op.getWindowAttr(),
      op.getSoftCapAttr(), op.getStripesAttr(), op.getKeyStripesAttr(),
      op.getPartialAttr(), rt::EmptyRowAttr::get(op.getContext(), a.emptyRow));
  return success();
}

LogicalResult lowerAttentionGrad(nn::AttentionGradOp op, FunctionLowering &f) {
  AttentionAttributes a = attentionAttributes(op);
  HeadRows q = readHeads(f, op.getQuery()), k = readHeads(f, op.getKey()),
           v = readHeads(f, op.getValue()),
           dq = writeHeads(f, op.getDquery(), q),
           dk = writeHeads(f, op.getDkey(), k),
           dv = writeHeads(f, op.getDvalue(), v);
  rt::AttentionGradOp::create(
      f.builder(), op.getLoc(), q.buffer, k.buffer, v.buffer,
      f.get(op.getMask()), f.get(op.getQuerySegments()),
      f.get(op.getKeySegments()), f.get(op.getResult()), f.get(op.getLse()),
      f.get(op.getGrad()), dq.buffer, dk.buffer, dv.buffer, a.b, a.t, a.s, a.h,
      a.hk, a.d, a.dv, q.strides, k.strides, v.strides, a.o, a.mask, a.segments,
      op.getScaleAttr(), op.getCausalAttr(), op.getWindowAttr(),
      op.getSoftCapAttr(), op.getStripesAttr(), op.getKeyStripesAttr(),
      op.getPartialAttr(), rt::EmptyRowAttr::get(op.getContext(), a.emptyRow),
      dq.strides, dk.strides, dv.strides);
  return success();
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

LogicalResult lowerRotary(nn::RotaryOp op, FunctionLowering &f) {
  Shape x = nn::getShape(op.getInput()), c = nn::getShape(op.getCos());
  bool perBatch = c.size() == 3 && c[0] != DimExpr(1);
  Shape angles = perBatch ? c : Shape{c[c.size() - 2], c.back()};
  bool half = op.getStyle() == nn::RotaryStyle::half;
  DimExpr pairs = c.back();
  std::optional<Destination> columns = f.columns(op.getResult());
  Destination d = columns ? *columns : f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), {x[0], x[1], x[2]});
  Source in = f.read(op.getInput());
  Value cos = k.use(f.get(op.getCos()), angles),
        sin = k.use(f.get(op.getSin()), angles);
  auto at = [&](Value i) {
    SmallVector<Value> indices = k.indices();
    indices.push_back(i);
    return indices;
  };
  k.forEach(Shape{pairs}, [&](ValueRange i) {
    Value first = half ? i[0] : k.mul(i[0], k.constant(2));
    Value second = k.add(first, half ? k.size(pairs) : k.constant(1));
    SmallVector<Value> angle;
    if (perBatch)
      angle.push_back(k.index(0));
    angle.push_back(k.index(1));
    angle.push_back(i[0]);
    Value co = k.load(cos, angle), si = k.load(sin, angle);
    Value a = k.load(in, x, at(first)), b = k.load(in, x, at(second));
    if (op.getInverse())
      si = k.make<arith::NegFOp>(si);
    k.write(d, k.sub(k.mul(a, co), k.mul(b, si)), x, at(first));
    k.write(d, k.add(k.mul(b, co), k.mul(a, si)), x, at(second));
  });
  DimExpr rest = x[3] - pairs * DimExpr(2);
  if (rest != DimExpr(0))
    k.forEach(Shape{rest}, [&](ValueRange i) {
      Value j = k.add(i[0], k.size(pairs * DimExpr(2)));
      k.write(d, k.load(in, x, at(j)), x, at(j));
    });
  return success();
}

} // namespace

void dt::lower::attachProductLowerings(MLIRContext *context) {
  attachLowering<nn::LinearOp, lowerLinear>(context);
  attachLowering<nn::LinearDwOp, lowerLinearDw>(context);
  attachLowering<nn::MatmulOp, lowerMatmul>(context);
  attachLowering<nn::ConvOp, lowerConv>(context);
  attachLowering<nn::ConvDxOp, lowerConvDx>(context);
  attachLowering<nn::ConvDwOp, lowerConvDw>(context);
  attachLowering<nn::AttentionOp, lowerAttention>(context);
  attachLowering<nn::AttentionGradOp, lowerAttentionGrad>(context);
  attachLowering<nn::RotaryOp, lowerRotary>(context);
}
