//===- NNLimits.cpp - Dims that a table bounds ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNLimits.h"

using namespace mlir;

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
