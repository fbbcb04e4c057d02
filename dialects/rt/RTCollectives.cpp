//===- RTCollectives.cpp - Verifiers of collectives -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "dialects/rt/RTOps.h"

using namespace mlir;
using namespace dt::rt;
using dt::nn::DimExpr;

static BufferType bufferOf(Value v) { return cast<BufferType>(v.getType()); }

/// Numbers that are added or compared; one type on both sides.
template <typename OpTy> static LogicalResult verifyNumbers(OpTy op) {
  Type element = bufferOf(op.getIn()).getElementType();
  if (!element.isF32() && !element.isInteger(64))
    return op.emitOpError()
           << "combines f32 or i64, not " << op.getIn().getType();
  return success();
}

/// `whole` has `over` times the elements of `part`, in rows of over * chunk.
template <typename OpTy>
static LogicalResult verifyParts(OpTy op, Value whole, Value part) {
  if (failed(dt::dist::verifyAxis(op)) ||
      failed(verifyDim(op, "chunk", op.getChunkAttr())))
    return failure();
  BufferType a = bufferOf(whole), b = bufferOf(part);
  if (a.getElementType() != b.getElementType())
    return op.emitOpError() << "element types differ: " << a << " and " << b;
  DimExpr n = b.getNumElements(), over(op.getOver());
  if (a.getNumElements() != n * over)
    return op.emitOpError()
           << "expected " << (n * over).str() << " elements in the whole, got "
           << a.getNumElements().str();
  DimExpr chunk = getDim(op.getChunkAttr());
  if (chunk == DimExpr(0) ? n != DimExpr(0) : !n.exactDiv(chunk))
    return op.emitOpError() << "chunk " << chunk.str() << " does not divide "
                            << n.str() << " elements";
  return success();
}

static LogicalResult verifySame(Operation *op, Value in, Value out) {
  BufferType a = bufferOf(in), b = bufferOf(out);
  if (a.getElementType() == b.getElementType() &&
      a.getNumElements() == b.getNumElements())
    return success();
  return op->emitOpError() << "element types or numbers differ: " << a
                           << " and " << b;
}

LogicalResult AllReduceOp::verify() {
  return failure(failed(dt::dist::verifyAxis(*this)) ||
                 failed(verifyNumbers(*this)) ||
                 failed(verifySame(*this, getIn(), getOut())));
}
LogicalResult AllGatherOp::verify() {
  return verifyParts(*this, getOut(), getIn());
}
LogicalResult ReduceScatterOp::verify() {
  return failure(failed(verifyNumbers(*this)) ||
                 failed(verifyParts(*this, getIn(), getOut())));
}
LogicalResult AllToAllOp::verify() {
  if (failed(dt::dist::verifyAxis(*this)) ||
      failed(verifySame(*this, getIn(), getOut())))
    return failure();
  DimExpr n = bufferOf(getIn()).getNumElements();
  if (!n.exactDiv(DimExpr(getOver())))
    return emitOpError() << getOver() << " ranks do not divide " << n.str()
                         << " elements";
  return success();
}
LogicalResult RankPlaceOp::verify() {
  if (failed(dt::dist::verifyAxis(*this)))
    return failure();
  BufferType type = bufferOf(getBuffer());
  if (!type.getElementType().isInteger(64) ||
      type.getNumElements() != DimExpr(1))
    return emitOpError() << "writes one i64, not " << type;
  return success();
}
