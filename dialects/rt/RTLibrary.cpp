//===- RTLibrary.cpp - Verifiers of library calls ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Sizes in attributes and sizes of buffers say the same thing twice, because
// the callee gets addresses only: here they are compared.
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTOps.h"

using namespace mlir;
using namespace dt::rt;
using dt::nn::DimExpr;
using dt::nn::Shape;

static LogicalResult verifyElement(Operation *op, StringRef name, Value buffer,
                                   ArrayRef<Type> expected) {
  if (!buffer)
    return success();
  Type have = cast<BufferType>(buffer.getType()).getElementType();
  if (llvm::is_contained(expected, have))
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError()
                                  << "'" << name << "' has elements of " << have
                                  << ", expected ";
  llvm::interleave(
      expected, [&](Type t) { diagnostic << t; },
      [&] { diagnostic << " or "; });
  return diagnostic;
}

namespace {
struct NamedBuffer {
  StringRef name;
  Value buffer;
};

/// Element types of a call: its operands are floats, all f32 or all bf16.
struct CallElements {
  Type operand;
  /// What may be read or written beside the operands.
  SmallVector<Type, 2> others;

  static FailureOr<CallElements> verify(Operation *op,
                                        ArrayRef<NamedBuffer> operands) {
    Type f32 = Float32Type::get(op->getContext()),
         bf16 = BFloat16Type::get(op->getContext());
    NamedBuffer first = operands.front();
    if (failed(verifyElement(op, first.name, first.buffer, {f32, bf16})))
      return failure();
    CallElements elements;
    elements.operand =
        cast<BufferType>(first.buffer.getType()).getElementType();
    elements.others = {f32};
    if (elements.operand == bf16)
      elements.others.push_back(bf16);
    for (NamedBuffer other : operands.drop_front())
      if (failed(verifyElement(op, other.name, other.buffer, elements.operand)))
        return failure();
    return elements;
  }
};
} // namespace

/// What is added to outside of products is f32.
static LogicalResult verifyAccumulate(Operation *op, NamedBuffer result) {
  return verifyElement(op, result.name, result.buffer,
                       Type(Float32Type::get(op->getContext())));
}

static LogicalResult verifyCount(Operation *op, StringRef name, Value buffer,
                                 const DimExpr &expected) {
  if (!buffer)
    return success();
  DimExpr have = cast<BufferType>(buffer.getType()).getNumElements();
  if (have != expected)
    return op->emitOpError() << "'" << name << "' has " << have.str()
                             << " elements, expected " << expected.str();
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LogicalResult MatmulOp::verify() {
  FailureOr<CallElements> elements =
      CallElements::verify(*this, {{"a", getA()}, {"b", getB()}});
  if (failed(elements) ||
      failed(verifyElement(*this, "bias", getBias(), elements->others)) ||
      failed(verifyElement(*this, "c", getC(), elements->others)))
    return failure();
  DimExpr batch = getBatch(), m = getM(), n = getN(), k = getK(), zero;
  // Only dense operands have a size that follows.
  auto check = [&](StringRef name, Value v, DimExpr rows, DimExpr cols,
                   DimExpr stride, DimExpr ld) -> LogicalResult {
    if (ld != zero && ld != cols)
      return success();
    if (stride == zero)
      return verifyCount(*this, name, v, rows * cols);
    if (stride == rows * cols)
      return verifyCount(*this, name, v, batch * rows * cols);
    return success();
  };
  if (getTransA() ? failed(check("a", getA(), k, m, getStrideA(), getLda()))
                  : failed(check("a", getA(), m, k, getStrideA(), getLda())))
    return failure();
  if (getTransB() ? failed(check("b", getB(), n, k, getStrideB(), getLdb()))
                  : failed(check("b", getB(), k, n, getStrideB(), getLdb())))
    return failure();
  if (failed(verifyCount(*this, "bias", getBias(), n)))
    return failure();
  return check("c", getC(), m, n, getStrideC(), getLdc());
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

namespace {
/// Element counts of a convolution's tensors.
struct ConvCounts {
  DimExpr x, y, w;
};
} // namespace

template <typename OpTy> static FailureOr<ConvCounts> verifyConvShape(OpTy op) {
  size_t dims = op.getIn().size();
  if (dims < 1 || dims > 3)
    return op.emitOpError("has 1 to 3 spatial dims");
  for (ArrayRef<int64_t> list :
       {op.getKernel(), op.getStrides(), op.getDilations(), op.getPadBegin(),
        op.getPadEnd()})
    if (list.size() != dims)
      return op.emitOpError() << "needs " << dims << " numbers in each list";
  if (op.getGroups() < 1 || op.getC() % op.getGroups() ||
      op.getO() % op.getGroups())
    return op.emitOpError("channels must be multiples of groups");
  ConvCounts counts;
  counts.x = op.getN() * DimExpr(op.getC());
  counts.w = DimExpr(op.getO()) * DimExpr(op.getC() / op.getGroups());
  for (auto [in, kernel] : llvm::zip(op.getIn(), op.getKernel())) {
    counts.x = counts.x * in;
    counts.w = counts.w * DimExpr(kernel);
  }
  return counts;
}

/// A convolution or the way back to its input: `image` on the input's side,
/// `bias` added to `channels` channels of the result.
template <typename OpTy>
static LogicalResult verifyConv(OpTy op, ArrayRef<NamedBuffer> operands,
                                NamedBuffer image, int64_t channels) {
  FailureOr<ConvCounts> counts = verifyConvShape(op);
  if (failed(counts))
    return failure();
  auto elements = CallElements::verify(op, operands);
  return failure(
      failed(elements) ||
      failed(verifyElement(op, "bias", op.getBias(), elements->others)) ||
      failed(verifyCount(op, image.name, image.buffer, counts->x)) ||
      failed(verifyCount(op, "w", op.getW(), counts->w)) ||
      failed(verifyCount(op, "bias", op.getBias(), channels)));
}

LogicalResult ConvOp::verify() {
  return verifyConv(*this, {{"x", getX()}, {"w", getW()}, {"y", getY()}},
                    {"x", getX()}, getO());
}
LogicalResult ConvDxOp::verify() {
  return verifyConv(*this, {{"dy", getDy()}, {"w", getW()}, {"dx", getDx()}},
                    {"dx", getDx()}, getC());
}

LogicalResult ConvDwOp::verify() {
  FailureOr<ConvCounts> counts = verifyConvShape(*this);
  if (failed(counts))
    return failure();
  auto elements = CallElements::verify(*this, {{"x", getX()}, {"dy", getDy()}});
  if (failed(elements) ||
      failed(verifyElement(*this, "dw", getDw(), elements->others)) ||
      (getAccumulate() && failed(verifyAccumulate(*this, {"dw", getDw()}))))
    return failure();
  Type written = cast<BufferType>(getDw().getType()).getElementType();
  return failure(failed(verifyElement(*this, "db", getDb(), written)) ||
                 failed(verifyCount(*this, "x", getX(), counts->x)) ||
                 failed(verifyCount(*this, "dw", getDw(), counts->w)) ||
                 failed(verifyCount(*this, "db", getDb(), getO())));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Heads of [batch, tokens, heads, size]: as many elements if they are dense,
/// else no fewer than the strides reach.
static LogicalResult verifyHeads(Operation *op, NamedBuffer heads,
                                 ArrayRef<DimExpr> shape,
                                 ArrayRef<DimExpr> by) {
  DimExpr row = shape[2] * shape[3];
  if (by[2] == shape[3] && by[1] == row && by[0] == shape[1] * row)
    return verifyCount(op, heads.name, heads.buffer, shape[0] * by[0]);
  DimExpr reach = shape[3];
  for (unsigned i = 0; i < 3; ++i)
    reach = reach + (shape[i] - DimExpr(1)) * by[i];
  DimExpr have = cast<BufferType>(heads.buffer.getType()).getNumElements();
  std::optional<int64_t> left = (have - reach).asConstant();
  if (left && *left < 0)
    return op->emitOpError() << "'" << heads.name << "' has " << have.str()
                             << " elements, its strides reach " << reach.str();
  return success();
}

/// Numbers of segments and a window.
template <typename OpTy> static LogicalResult verifySegments(OpTy op) {
  if (std::optional<int64_t> window = op.getWindow(); window && *window < 1)
    return op.emitOpError() << "a window has 1 key or more, not " << *window;
  Value queries = op.getQuerySegments(), keys = op.getKeySegments();
  if (!queries != !keys)
    return op.emitOpError("needs segments of queries and of keys, or none");
  std::optional<Shape> by = op.getSegmentStrides();
  if (!queries != !by || (by && by->size() != 3))
    return op.emitOpError("strides of segments are three numbers");
  if (!queries)
    return success();
  Type element = cast<BufferType>(queries.getType()).getElementType();
  if (!element.isInteger(32) && !element.isInteger(64))
    return op.emitOpError() << "segments are i32 or i64, not " << element;
  return verifyElement(op, "key_segments", keys, element);
}

/// `operands`: all that are of one type.
template <typename OpTy>
static LogicalResult verifyAttention(OpTy op, ArrayRef<NamedBuffer> operands) {
  for (const Shape &strides :
       {op.getQStrides(), op.getKStrides(), op.getVStrides(), op.getOStrides()})
    if (strides.size() != 3)
      return op.emitOpError("strides of q, k, v, o are three numbers each");
  if (op.getMaskStrides().size() != (op.getMask() ? 4 : 0))
    return op.emitOpError("strides of a mask are four numbers");
  if (failed(verifySegments(op)))
    return failure();
  FailureOr<CallElements> elements = CallElements::verify(op, operands);
  if (failed(elements))
    return failure();
  SmallVector<Type> masks = llvm::to_vector(elements->others);
  masks.push_back(IntegerType::get(op.getContext(), 1));
  if (failed(verifyElement(op, "lse", op.getLse(), masks.front())) ||
      failed(verifyElement(op, "mask", op.getMask(), masks)))
    return failure();
  DimExpr b = op.getB(), t = op.getT(), s = op.getS(), h = op.getH(),
          hk = op.getHk(), d = op.getD(), dv = op.getDv();
  return failure(failed(verifyHeads(op, {"q", op.getQ()}, {b, t, h, d},
                                    op.getQStrides())) ||
                 failed(verifyHeads(op, {"k", op.getK()}, {b, s, hk, d},
                                    op.getKStrides())) ||
                 failed(verifyHeads(op, {"v", op.getV()}, {b, s, hk, dv},
                                    op.getVStrides())) ||
                 failed(verifyHeads(op, {"o", op.getO()}, {b, t, h, dv},
                                    op.getOStrides())) ||
                 failed(verifyCount(op, "lse", op.getLse(), b * h * t)));
}

LogicalResult AttentionOp::verify() {
  return verifyAttention(
      *this, {{"q", getQ()}, {"k", getK()}, {"v", getV()}, {"o", getO()}});
}
LogicalResult AttentionGradOp::verify() {
  for (const std::optional<Shape> &strides :
       {getDqStrides(), getDkStrides(), getDvStrides()})
    if (strides && strides->size() != 3)
      return emitOpError("strides of gradients are three numbers each");
  return verifyAttention(*this, {{"q", getQ()},
                                 {"k", getK()},
                                 {"v", getV()},
                                 {"o", getO()},
                                 {"do", getDout()},
                                 {"dq", getDq()},
                                 {"dk", getDk()},
                                 {"dv", getDv_()}});
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

/// Numbers of rows, `count` of them.
static LogicalResult verifyRows(Operation *op, StringRef name, Value buffer,
                                const DimExpr &count) {
  Type i32 = IntegerType::get(op->getContext(), 32);
  return failure(failed(verifyElement(op, name, buffer, i32)) ||
                 failed(verifyCount(op, name, buffer, count)));
}

LogicalResult LimitChoicesOp::verify() {
  Type element = cast<BufferType>(getExperts().getType()).getElementType();
  if (!element.isInteger(32) && !element.isInteger(64))
    return emitOpError() << "experts are i32 or i64, not " << element;
  DimExpr all = getSamples() * getChoices();
  std::optional<DimExpr> numbers = all.exactDiv(DimExpr(getEach()));
  if (!numbers)
    return emitOpError() << all.str() << " choices are not " << getEach()
                         << " for each number";
  Type i1 = IntegerType::get(getContext(), 1),
       i64 = IntegerType::get(getContext(), 64);
  return failure(
      failed(verifyCount(*this, "experts", getExperts(), all)) ||
      failed(verifyElement(*this, "segments", getSegments(), i64)) ||
      failed(verifyCount(*this, "segments", getSegments(), *numbers)) ||
      failed(verifyElement(*this, "kept", getKept(), i1)) ||
      failed(verifyCount(*this, "kept", getKept(), all)));
}

LogicalResult RouteOp::verify() {
  Type element = cast<BufferType>(getExperts().getType()).getElementType();
  if (!element.isInteger(32) && !element.isInteger(64))
    return emitOpError() << "experts are i32 or i64, not " << element;
  DimExpr rows = getRows();
  uint64_t placed = getPlaced() * getGroup();
  if (getFirst() ? placed > getCount() : placed != getCount())
    return emitOpError() << "places " << placed << " of " << getCount()
                         << " experts";
  if (getSlots() && getRoom() != *getSlots() * DimExpr(int64_t(getPlaced())))
    return emitOpError() << "has room for " << getRoom().str()
                         << " rows, not for " << getSlots()->str() << " of "
                         << getPlaced() << " parts";
  Type i64 = IntegerType::get(getContext(), 64);
  return failure(
      failed(verifyCount(*this, "experts", getExperts(), rows)) ||
      failed(verifyElement(*this, "first", getFirst(), i64)) ||
      failed(verifyRows(*this, "order", getOrder(), getRoom())) ||
      failed(verifyRows(*this, "place", getPlace(), rows)) ||
      failed(verifyRows(*this, "offsets", getOffsets(), getPlaced() + 1)));
}

LogicalResult GroupedMatmulOp::verify() {
  auto elements = CallElements::verify(*this, {{"a", getA()}, {"b", getB()}});
  DimExpr m = getM(), n = getN(), k = getK(), count(getCount());
  return failure(
      failed(elements) ||
      failed(verifyElement(*this, "bias", getBias(), elements->others)) ||
      failed(verifyElement(*this, "c", getC(), elements->others)) ||
      failed(verifyRows(*this, "offsets", getOffsets(), getCount() + 1)) ||
      failed(verifyCount(*this, "a", getA(), m * k)) ||
      failed(verifyCount(*this, "b", getB(), count * k * n)) ||
      failed(verifyCount(*this, "bias", getBias(), count * n)) ||
      failed(verifyCount(*this, "c", getC(), m * n)));
}

LogicalResult GroupedMatmulDwOp::verify() {
  auto elements = CallElements::verify(*this, {{"a", getA()}, {"b", getB()}});
  DimExpr m = getM(), n = getN(), k = getK(), count(getCount());
  return failure(
      failed(elements) ||
      failed(verifyElement(*this, "c", getC(), elements->others)) ||
      (getAccumulate() && failed(verifyAccumulate(*this, {"c", getC()}))) ||
      failed(verifyRows(*this, "offsets", getOffsets(), getCount() + 1)) ||
      failed(verifyCount(*this, "a", getA(), m * k)) ||
      failed(verifyCount(*this, "b", getB(), m * n)) ||
      failed(verifyCount(*this, "c", getC(), count * k * n)));
}

LogicalResult CheckIndicesOp::verify() {
  Type element = cast<BufferType>(getIndices().getType()).getElementType();
  if (!element.isIntOrIndex() || element.isInteger(1))
    return emitOpError() << "indices are integers, not " << element;
  if (int64_t(getStride()) < 1 || int64_t(getOffset()) < 0)
    return emitOpError("needs a stride of at least 1 and an offset of at "
                       "least 0");
  if (auto block = getBlock(); block && (block->empty() || block->size() % 3))
    return emitOpError("block is chunk, over and stride, of each cut");
  if (getOp().empty())
    return emitOpError("must say what uses the indices");
  return success();
}
