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

RankedTensorType ParameterOp::getGradientType() {
  return getNarrowGradient() ? getStoredType()
                             : cast<RankedTensorType>(getType());
}

/// What the parameters of a read are together, of which `first` is the first's.
static FailureOr<Type> getJoinedType(Operation *op, Type first,
                                     ArrayAttr beside, bool stored,
                                     SymbolTableCollection &tables) {
  if (!beside)
    return first;
  auto type = cast<RankedTensorType>(first);
  Shape shape = getShape(type);
  if (shape.empty())
    return op->emitOpError("joins parameters of no axes"), failure();
  for (auto name : beside.getAsRange<FlatSymbolRefAttr>()) {
    auto other = tables.lookupNearestSymbolFrom<ParameterOp>(op, name);
    if (!other)
      return op->emitOpError() << "names no nn.parameter: " << name, failure();
    auto have = stored ? other.getStoredType() : other.getGradientType();
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

template <typename OpT>
static LogicalResult verifyParameter(OpT op, Type type, bool stored,
                                     SymbolTableCollection &tables) {
  FlatSymbolRefAttr name = op.getParameterAttr();
  auto parameter = tables.lookupNearestSymbolFrom<ParameterOp>(op, name);
  if (!parameter)
    return op.emitOpError() << "names no nn.parameter: " << name;
  FailureOr<Type> joined = getJoinedType(
      op, stored ? parameter.getStoredType() : parameter.getGradientType(),
      op.getBesideAttr(), stored, tables);
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
  return verifyParameter(*this, getType(), /*stored=*/true, tables);
}

LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyParameter(*this, getGrad().getType(),
                         /*stored=*/false, tables);
}

LogicalResult AdapterOp::verify() {
  if (!getScale().isFinite() || getScale().isZero())
    return emitOpError("has a scale that is 0 or no number");
  return success();
}

LogicalResult AdapterOp::verifySymbolUses(SymbolTableCollection &tables) {
  RankedTensorType types[3];
  FlatSymbolRefAttr names[] = {getBaseAttr(), getDownAttr(), getUpAttr()};
  for (auto [name, type] : llvm::zip_equal(names, types)) {
    auto parameter = tables.lookupNearestSymbolFrom<ParameterOp>(*this, name);
    if (!parameter)
      return emitOpError() << "names no nn.parameter: " << name;
    type = cast<RankedTensorType>(parameter.getType());
    if (!isa<FloatType>(type.getElementType()) || !type.hasStaticShape() ||
        type.getRank() != 2)
      return emitOpError() << "needs matrices of floats, but " << name << " is "
                           << type;
  }
  auto [base, down, up] = types;
  int64_t rank = down.getDimSize(0), in = down.getDimSize(1),
          out = up.getDimSize(0);
  bool fits = up.getDimSize(1) == rank && base.getNumElements() == in * out &&
              (base.getDimSize(0) == out || base.getDimSize(0) == in);
  if (!fits || base.getElementType() != down.getElementType() ||
      base.getElementType() != up.getElementType())
    return emitOpError() << "has down " << down << " and up " << up << " for "
                         << base;
  return success();
}

std::string DimOp::getQuantity() {
  std::string text = getItem().value_or("").str();
  return getMeasure() ? text + "." + getMeasure()->str() : text;
}

std::optional<int64_t> DimOp::getBound() {
  if (auto max = getMax())
    return int64_t(*max) * int64_t(getMultiple());
  return std::nullopt;
}

int64_t DimOp::count(int64_t sum) {
  return llvm::divideCeil(sum, int64_t(getMultiple()));
}

void DimOp::setBound(int64_t bound) { setMax(count(bound)); }

LogicalResult DimOp::verify() {
  if (getMeasure().has_value() != getLargest().has_value())
    return emitOpError("has 'measure' and 'largest' together or neither");
  if (getMeasure() && !getItem())
    return emitOpError("adds up '") << *getMeasure() << "' of no kind of item";
  if (getLargest() && int64_t(*getLargest()) < 0)
    return emitOpError("has a 'largest' below 0");
  if (int64_t(getMultiple()) < 1 || (getMultiple() > 1 && !getItem()))
    return emitOpError("has a 'multiple' of at least 1, of items");
  return success();
}

LogicalResult dt::nn::verifyLimit(DimOp dim, Location loc) {
  std::optional<uint64_t> limit = dim.getLimit();
  if (!limit || !dim.getMax() || *dim.getMax() <= *limit)
    return success();
  InFlightDiagnostic error = emitError(loc);
  error << "dim '" << dim.getSymName() << "' is up to " << *dim.getBound()
        << " in a part of the batch";
  if (dim.getItem())
    error << " (items '" << dim.getQuantity() << "')";
  error << ", but may be at most "
        << int64_t(*limit) * int64_t(dim.getMultiple());
  if (auto why = dim.getLimitedBy())
    error << ": " << *why;
  return error << "; lower the items' max or the microbatch";
}
