//===- Module.cpp - Dims and parameters of a module -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNLimits.h"
#include "dialects/nn/NNNames.h"
#include "dialects/nn/NNOps.h"

using namespace mlir;
using namespace dt::nn;

RankedTensorType ParameterOp::getStoredType() {
  auto type = cast<RankedTensorType>(getType());
  return getWorking() ? withElementType(type, *getWorking()) : type;
}

/// What the parameters of a read are together, that of `name` first.
static FailureOr<Type> getJoinedType(Operation *op, Type first, bool stored,
                                     SymbolTableCollection &tables) {
  auto beside = op->getAttrOfType<ArrayAttr>(kBesideAttr);
  if (!beside)
    return first;
  auto type = cast<RankedTensorType>(first);
  Shape shape = getShape(type);
  if (shape.empty())
    return op->emitOpError("joins parameters of no axes"), failure();
  for (Attribute each : beside) {
    auto name = dyn_cast<FlatSymbolRefAttr>(each);
    auto other = name ? tables.lookupNearestSymbolFrom<ParameterOp>(op, name)
                      : ParameterOp();
    if (!other)
      return op->emitOpError() << "names no nn.parameter: " << each, failure();
    auto have = cast<RankedTensorType>(stored ? other.getStoredType()
                                              : other.getType());
    Shape dims = getShape(have);
    if (have.getElementType() != type.getElementType() ||
        dims.size() != shape.size() ||
        !std::equal(dims.begin() + 1, dims.end(), shape.begin() + 1))
      return op->emitOpError() << "joins " << name << ", which is " << have
                               << ", to " << first,
             failure();
    shape[0] = shape[0] + dims[0];
  }
  return Type(makeTensorType(shape, type.getElementType()));
}

static LogicalResult verifyParameter(Operation *op, FlatSymbolRefAttr name,
                                     Type type, bool stored,
                                     SymbolTableCollection &tables) {
  auto parameter = tables.lookupNearestSymbolFrom<ParameterOp>(op, name);
  if (!parameter)
    return op->emitOpError() << "names no nn.parameter: " << name;
  FailureOr<Type> joined = getJoinedType(
      op, stored ? parameter.getStoredType() : parameter.getType(), stored,
      tables);
  if (failed(joined))
    return failure();
  if (Type expected = *joined; expected != type) {
    InFlightDiagnostic diagnostic = op->emitOpError()
                                    << "has type " << type << " but " << name
                                    << " is " << expected;
    diagnostic.attachNote(parameter.getLoc()) << "declared here";
    return diagnostic;
  }
  return success();
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyParameter(*this, getParameterAttr(), getType(), /*stored=*/true,
                         tables);
}

LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyParameter(*this, getParameterAttr(), getGrad().getType(),
                         /*stored=*/false, tables);
}

LogicalResult dt::nn::verifyLimit(DimOp dim, Location loc) {
  auto limit = dim->getAttrOfType<IntegerAttr>(kDimLimitAttr);
  if (!limit || !dim.getMax() || int64_t(*dim.getMax()) <= limit.getInt())
    return success();
  InFlightDiagnostic error = emitError(loc);
  error << "dim '" << dim.getSymName() << "' is up to "
        << int64_t(*dim.getMax()) << " in a part of the batch";
  if (dim.getItem())
    error << " (items '" << *dim.getItem() << "')";
  error << ", but may be at most " << limit.getInt();
  if (auto why = dim->getAttrOfType<StringAttr>(kDimLimitedByAttr))
    error << ": " << why.getValue();
  return error << "; lower the items' max or the microbatch";
}
