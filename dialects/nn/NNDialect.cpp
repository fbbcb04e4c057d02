//===- NNDialect.cpp - The nn dialect and its attributes --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNNames.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FoldInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dt::nn;

#include "dialects/nn/NNDialect.cpp.inc"
#include "dialects/nn/NNEnums.cpp.inc"
#include "dialects/nn/NNInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/nn/NNOps.cpp.inc"

namespace {
/// Constants of a scalar body stay in it: a kernel is made of the body alone.
struct FoldInterface : DialectFoldInterface {
  using DialectFoldInterface::DialectFoldInterface;
  bool shouldMaterializeInto(Region *) const final { return true; }
};
} // namespace

void NNDialect::initialize() {
  registerAttributes();
  addInterfaces<FoldInterface>();
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNOps.cpp.inc"
      >();
}

void NNDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/nn/NNAttrs.cpp.inc"
      >();
}

LogicalResult NNDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  StringRef name = attribute.getName();
  bool ofFunction = isa<FunctionOpInterface>(op);
  if (name == kNarrowNumbersAttr && ofFunction &&
      isa<UnitAttr>(attribute.getValue()))
    return success();
  auto word = dyn_cast<StringAttr>(attribute.getValue());
  if (name == kSaveAttr && ofFunction && word &&
      llvm::is_contained({"vjp", "all", "none"}, word.getValue()))
    return success();
  return op->emitOpError("'")
         << name << "' is no attribute of it, or not with this value";
}

/// What NNNames.h says of an argument or a result of a function.
static bool isMark(NamedAttribute attribute, bool isResult) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  if (name == kNameAttr)
    return isa<StringAttr>(value);
  if (name == kResidualAttr) {
    auto number = dyn_cast<IntegerAttr>(value);
    return isa<UnitAttr>(value) ||
           (number && number.getType().isSignlessInteger(64) &&
            number.getInt() >= 0);
  }
  if (auto gradient = dyn_cast<GradientAttr>(value))
    return name == kGradientAttr && gradient.getOf() &&
           !(gradient.getEdge() && gradient.getLoss());
  if (name == kWantsGradAttr)
    return !isResult && isa<UnitAttr>(value);
  if (name == kParamGradAttr)
    return isResult && isa<UnitAttr>(value);
  auto sources = dyn_cast<ArrayAttr>(value);
  return name == kGradientsAttr && isResult && sources &&
         llvm::all_of(sources, [](Attribute source) {
           auto gradient = dyn_cast<GradientAttr>(source);
           return gradient && !gradient.getOf() &&
                  !gradient.getEdge() != !gradient.getLoss();
         });
}

static LogicalResult verifyMark(Operation *op, unsigned index,
                                NamedAttribute attribute, bool isResult) {
  if (isMark(attribute, isResult))
    return success();
  return op->emitOpError(isResult ? "result " : "argument ")
         << index << ": '" << attribute.getName().getValue()
         << "' is no attribute of it, or not with this value";
}

LogicalResult NNDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned index,
                                                  NamedAttribute attribute) {
  return verifyMark(op, index, attribute, /*isResult=*/false);
}

LogicalResult NNDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                     unsigned index,
                                                     NamedAttribute attribute) {
  return verifyMark(op, index, attribute, /*isResult=*/true);
}

Operation *NNDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                          Type type, Location loc) {
  if (auto elements = dyn_cast<ElementsAttr>(value))
    if (elements.getType() == type)
      return ConstantOp::create(builder, loc, type, elements);
  return nullptr;
}

//===----------------------------------------------------------------------===//
// #nn.dims
//===----------------------------------------------------------------------===//

/// Reads up to what ends a size, as one polynomial. Tokens are pasted together,
/// so spaces do not matter.
ParseResult dt::nn::parseDim(AsmParser &parser, DimAttr &out) {
  SMLoc at = parser.getCurrentLocation();
  std::string text;
  while (true) {
    std::string keyword;
    int64_t number;
    OptionalParseResult integer = parser.parseOptionalInteger(number);
    if (integer.has_value()) {
      if (failed(*integer))
        return failure();
      text += (number < 0 ? "" : " ") + std::to_string(number);
    } else if (succeeded(parser.parseOptionalKeywordOrString(&keyword))) {
      text += keyword;
    } else if (succeeded(parser.parseOptionalPlus())) {
      text += "+";
    } else if (succeeded(parser.parseOptionalMinus())) {
      text += "-";
    } else if (succeeded(parser.parseOptionalStar())) {
      text += "*";
    } else {
      break;
    }
  }
  std::optional<DimExpr> e = DimExpr::parse(text);
  if (!e)
    return parser.emitError(
        at, "expected a size such as 'batch' or '16*images + 1'");
  out = DimAttr::get(parser.getContext(), *e);
  return success();
}

Attribute DimAttr::parse(AsmParser &parser, Type) {
  DimAttr dim;
  if (parser.parseLess() || parseDim(parser, dim) || parser.parseGreater())
    return {};
  return dim;
}

void DimAttr::print(AsmPrinter &printer) const {
  printer << "<" << getSize().str() << ">";
}

DimsAttr DimsAttr::get(MLIRContext *context, ArrayRef<DimExpr> shape) {
  return get(context, llvm::map_to_vector(shape, [&](const DimExpr &d) {
               return DimAttr::get(context, d);
             }));
}

Shape DimsAttr::getShape() const {
  return llvm::map_to_vector<4>(getDims(),
                                [](DimAttr d) { return d.getSize(); });
}

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SmallVector<DimAttr> dims;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, [&] {
        return parseDim(parser, dims.emplace_back());
      }))
    return {};
  return DimsAttr::get(parser.getContext(), ArrayRef<DimAttr>(dims));
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getDims(), printer,
                        [&](DimAttr d) { printer << d.getSize().str(); });
  printer << ">";
}

LogicalResult
DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                         function_ref<InFlightDiagnostic()> emitError) const {
  size_t dynamic = llvm::count_if(shape, ShapedType::isDynamic);
  if (dynamic != getDims().size())
    return emitError() << "has " << dynamic << " '?' dims but #nn.dims gives "
                       << getDims().size() << " sizes";
  for (DimAttr dim : getDims())
    if (dim.getSize().isConstant())
      return emitError() << "size '" << dim.getSize().str()
                         << "' is a number: write it into the type";
  return success();
}
