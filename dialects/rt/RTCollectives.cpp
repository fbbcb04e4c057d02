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

DimExpr CollectiveOp::getBlock() {
  const CollectiveForm &form = getForm();
  DimExpr n = bufferOf(form.gathers && getPitchAttr() ? getOut() : getIn())
                  .getNumElements();
  return form.scatters || getPitchAttr() ? *n.exactDiv(DimExpr(getOver())) : n;
}

/// Element types, and what the kind can combine.
static LogicalResult verifyElements(CollectiveOp op) {
  BufferType in = bufferOf(op.getIn()), out = bufferOf(op.getOut());
  Type element = in.getElementType();
  if (element != out.getElementType())
    return op.emitOpError() << "element types differ: " << in << " and " << out;
  bool combines = op.getForm().combines;
  if (combines && !element.isF32() && !element.isBF16() &&
      !element.isInteger(64))
    return op.emitOpError() << "combines f32, bf16 or i64, not " << in;
  if (op.getReduction() && !combines)
    return op.emitOpError("combines nothing");
  return success();
}

LogicalResult CollectiveOp::verify() {
  if (failed(dt::dist::verifyAxis(*this)) || failed(verifyElements(*this)))
    return failure();
  bool pitched = bool(getPitchAttr());
  if (pitched && (getForm().gathers == getForm().scatters || !getChunkAttr()))
    return emitOpError("has a pitch, which is of chunks of a kind that either "
                       "gathers or scatters");
  DimExpr n = bufferOf(getForm().gathers && pitched ? getOut() : getIn())
                  .getNumElements(),
          over(getOver());
  if ((getForm().scatters || pitched) && !n.exactDiv(over))
    return emitOpError() << over.str() << " ranks do not divide " << n.str()
                         << " elements";
  DimExpr block = getBlock(), wanted = getForm().gathers ? block * over : block,
          got = bufferOf(getOut()).getNumElements();
  if (wanted != got && !(pitched && getForm().scatters))
    return emitOpError() << "expected a result of " << wanted.str()
                         << " elements, got " << got.str();
  if (!getChunk())
    return success();
  DimExpr chunk = *getChunk();
  if (chunk == DimExpr(0) ? block != DimExpr(0) : !block.exactDiv(chunk))
    return emitOpError() << "chunk " << chunk.str() << " does not divide "
                         << block.str() << " elements";
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
