//===- Module.cpp - Dims and parameters of a module -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNLimits.h"
#include "dialects/nn/NNOps.h"

using namespace mlir;
using namespace dt::nn;

RankedTensorType ParameterOp::getStoredType() {
  auto type = cast<RankedTensorType>(getType());
  return getWorking() ? withElementType(type, *getWorking()) : type;
}

static LogicalResult verifyParameter(Operation *op, FlatSymbolRefAttr name,
                                     Type type, bool stored,
                                     SymbolTableCollection &tables) {
  auto parameter = tables.lookupNearestSymbolFrom<ParameterOp>(op, name);
  if (!parameter)
    return op->emitOpError() << "names no nn.parameter: " << name;
  Type expected = stored ? parameter.getStoredType() : parameter.getType();
  if (expected != type) {
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
