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

//===----------------------------------------------------------------------===//
// Sizes as text
//===----------------------------------------------------------------------===//

Type dt::rt::getScalarType(Type element) {
  if (element.isUnsignedInteger())
    return IntegerType::get(element.getContext(),
                            element.getIntOrFloatBitWidth());
  if (element.isBF16() || element.isF16())
    return Float32Type::get(element.getContext());
  return element;
}

DimExpr dt::rt::getDim(StringAttr text) {
  return *DimExpr::parse(text.getValue());
}

Shape dt::rt::getDims(ArrayAttr texts) {
  Shape shape;
  for (StringAttr text : texts.getAsRange<StringAttr>())
    shape.push_back(getDim(text));
  return shape;
}

StringAttr dt::rt::getDimAttr(MLIRContext *context, const DimExpr &dim) {
  return StringAttr::get(context, dim.str());
}

ArrayAttr dt::rt::getDimsAttr(MLIRContext *context, ArrayRef<DimExpr> dims) {
  return ArrayAttr::get(context,
                        llvm::map_to_vector(dims, [&](const DimExpr &d) {
                          return Attribute(getDimAttr(context, d));
                        }));
}

LogicalResult dt::rt::verifyDim(Operation *op, StringRef name,
                                StringAttr text) {
  std::optional<DimExpr> e = DimExpr::parse(text.getValue());
  if (!e)
    return op->emitOpError()
           << "'" << name << "': '" << text.getValue() << "' is not a size";
  if (e->str() != text.getValue())
    return op->emitOpError() << "'" << name << "': write '" << text.getValue()
                             << "' as '" << e->str() << "'";
  return success();
}

LogicalResult dt::rt::verifyDims(Operation *op, StringRef name,
                                 ArrayAttr texts) {
  for (Attribute element : texts) {
    auto text = dyn_cast<StringAttr>(element);
    if (!text)
      return op->emitOpError()
             << "'" << name << "': " << element << " is not the text of a size";
    if (failed(verifyDim(op, name, text)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// !rt.buffer
//===----------------------------------------------------------------------===//

static SmallVector<StringAttr> toTexts(MLIRContext *context,
                                       ArrayRef<DimExpr> shape) {
  return llvm::map_to_vector(
      shape, [&](const DimExpr &d) { return getDimAttr(context, d); });
}

BufferType BufferType::get(Type elementType, ArrayRef<DimExpr> shape) {
  MLIRContext *context = elementType.getContext();
  return get(context, elementType, toTexts(context, shape));
}

BufferType BufferType::get(RankedTensorType tensor) {
  return get(tensor.getElementType(), nn::getShape(tensor));
}

Shape BufferType::getShape() const {
  Shape shape;
  for (StringAttr text : getDims())
    shape.push_back(getDim(text));
  return shape;
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
                                 Type elementType, ArrayRef<StringAttr> dims) {
  if (!elementType.isIntOrFloat())
    return emitError() << "element type must be an integer or a float";
  for (StringAttr text : dims) {
    std::optional<DimExpr> e = DimExpr::parse(text.getValue());
    if (!e)
      return emitError() << "'" << text.getValue() << "' is not a size";
    if (e->str() != text.getValue())
      return emitError() << "write size '" << text.getValue() << "' as '"
                         << e->str() << "'";
  }
  return success();
}

Type BufferType::parse(AsmParser &parser) {
  Type element;
  SmallVector<StringAttr> dims;
  auto parseDim = [&]() -> ParseResult {
    int64_t number;
    OptionalParseResult integer = parser.parseOptionalInteger(number);
    std::string text;
    if (integer.has_value()) {
      if (failed(*integer))
        return failure();
      text = std::to_string(number);
    } else if (parser.parseString(&text)) {
      return failure();
    }
    dims.push_back(StringAttr::get(parser.getContext(), text));
    return success();
  };
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseType(element) || parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim) ||
      parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(at); }, parser.getContext(),
                    element, ArrayRef<StringAttr>(dims));
}

void BufferType::print(AsmPrinter &printer) const {
  printer << "<" << getElementType() << ", [";
  llvm::interleaveComma(getDims(), printer, [&](StringAttr text) {
    if (getDim(text).isConstant())
      printer << text.getValue();
    else
      printer << text;
  });
  printer << "]>";
}
