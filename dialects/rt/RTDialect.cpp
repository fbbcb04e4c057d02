//===- RTDialect.cpp - The rt dialect and its buffer type -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTOps.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dt::rt;
using dt::nn::DimExpr;
using dt::nn::Shape;

#include "dialects/rt/RTDialect.cpp.inc"
#include "dialects/rt/RTEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/rt/RTTypes.cpp.inc"

void RTDialect::initialize() {
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "dialects/rt/RTOps.cpp.inc"
      >();
}

void RTDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/rt/RTTypes.cpp.inc"
      >();
}

Type dt::rt::getScalarType(Type element) {
  if (element.isUnsignedInteger())
    return IntegerType::get(element.getContext(),
                            element.getIntOrFloatBitWidth());
  if (element.isBF16() || element.isF16())
    return Float32Type::get(element.getContext());
  return element;
}

//===----------------------------------------------------------------------===//
// !rt.buffer
//===----------------------------------------------------------------------===//

BufferType BufferType::get(Type elementType, ArrayRef<DimExpr> shape) {
  MLIRContext *context = elementType.getContext();
  return get(context, elementType, nn::DimsAttr::get(context, shape).getDims());
}

BufferType BufferType::get(RankedTensorType tensor) {
  return get(tensor.getElementType(), nn::getShape(tensor));
}

Shape BufferType::getShape() const {
  return llvm::map_to_vector<4>(getDims(),
                                [](nn::DimAttr d) { return d.getSize(); });
}

DimExpr BufferType::getNumElements() const {
  return nn::getNumElements(getShape());
}

DimExpr BufferType::getNumBytes() const {
  return getNumElements() * DimExpr(nn::getElementBytes(getElementType()));
}

BufferType BufferType::withShape(ArrayRef<DimExpr> shape) const {
  return get(getElementType(), shape);
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Type elementType, ArrayRef<nn::DimAttr>) {
  if (!elementType.isIntOrFloat())
    return emitError() << "element type must be an integer or a float";
  return success();
}

Type BufferType::parse(AsmParser &parser) {
  Type element;
  SmallVector<nn::DimAttr> dims;
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseType(element) || parser.parseComma() ||
      parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Square,
          [&] { return nn::parseDim(parser, dims.emplace_back()); }) ||
      parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(at); }, parser.getContext(),
                    element, ArrayRef<nn::DimAttr>(dims));
}

void BufferType::print(AsmPrinter &printer) const {
  printer << "<" << getElementType() << ", [";
  llvm::interleaveComma(getDims(), printer,
                        [&](nn::DimAttr d) { printer << d.getSize().str(); });
  printer << "]>";
}
