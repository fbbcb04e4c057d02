//===- RTKernel.cpp - rt.kernel and what stands in it -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTShape.h"

using namespace mlir;
using namespace dt::rt;
using dt::nn::DimExpr;
using dt::nn::Shape;

//===----------------------------------------------------------------------===//
// rt.kernel
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                     ArrayRef<DimExpr> bounds, ValueRange buffers,
                     TypeRange argTypes) {
  OpBuilder::InsertionGuard guard(builder);
  state.addAttribute("name", builder.getStringAttr(name));
  state.addAttribute("bounds", nn::DimsAttr::get(builder.getContext(), bounds));
  state.addOperands(buffers);
  Block *body = builder.createBlock(state.addRegion());
  for (size_t i = 0; i < bounds.size(); ++i)
    body->addArgument(builder.getIndexType(), state.location);
  for (Type type : argTypes)
    body->addArgument(type, state.location);
}

DimExpr KernelOp::getNumPoints() { return nn::getNumElements(getBounds()); }

template <typename Access> static bool hasAccess(KernelOp kernel, unsigned i) {
  return llvm::any_of(kernel.getBufferArgs()[i].getUsers(),
                      [&](Operation *u) { return isa<Access>(u); });
}

bool KernelOp::reads(unsigned i) { return hasAccess<LoadOp>(*this, i); }
bool KernelOp::writes(unsigned i) { return hasAccess<StoreOp>(*this, i); }

void KernelOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  for (auto [i, operand] : llvm::enumerate(getBuffersMutable())) {
    if (reads(i))
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
    if (writes(i))
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
  }
}

/// That the body allows what the shape promises.
static LogicalResult verifyShape(KernelOp kernel) {
  switch (kernel.getShape().value_or(KernelShape::point)) {
  case KernelShape::point:
    return success();
  case KernelShape::row:
    if (getLaneNests(kernel).empty())
      return kernel.emitOpError("is 'row', but has no rt.simd loop whose "
                                "carried values may be combined in any order");
    return success();
  case KernelShape::column:
    if (!getColumnSum(kernel))
      return kernel.emitOpError("is 'column', but does not add up rows into "
                                "cells of its own");
    return success();
  case KernelShape::all:
    if (!getSplitNest(kernel))
      return kernel.emitOpError("is 'all', but does not begin with its one "
                                "loop, which makes carried values");
    return success();
  }
  llvm_unreachable("all shapes are listed");
}

LogicalResult KernelOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getBounds().size() + getBuffers().size())
    return emitOpError() << "body must have an argument a bound and a buffer";
  for (Value index : getIndices())
    if (!index.getType().isIndex())
      return emitOpError("a bound's body argument must be an index");
  for (auto [buffer, arg] : llvm::zip(getBuffers(), getBufferArgs())) {
    auto from = cast<BufferType>(buffer.getType());
    auto to = dyn_cast<BufferType>(arg.getType());
    if (!to || to.getElementType() != from.getElementType() ||
        to.getNumElements() != from.getNumElements())
      return emitOpError() << "captures " << from << " as " << arg.getType()
                           << ": element types and numbers differ";
  }
  WalkResult walk = getBody().walk([&](Operation *op) {
    for (Type made : op->getResultTypes())
      if (getScalarType(made) != made) {
        op->emitOpError() << "makes a value of " << made
                          << ", which scalar code does not have";
        return WalkResult::interrupt();
      }
    StringRef dialect = op->getName().getDialectNamespace();
    if (isa<LoadOp, StoreOp, SizeOp, scf::ForOp, scf::IfOp, scf::YieldOp>(op) ||
        dialect == "arith" || dialect == "math")
      return WalkResult::advance();
    op->emitOpError("does not belong in a kernel");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted() || failed(verifyShape(*this)));
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  if (parser.parseSymbolName(name, "name", result.attributes))
    return failure();
  std::string word;
  if (succeeded(parser.parseOptionalKeywordOrString(&word))) {
    std::optional<KernelShape> shape = symbolizeKernelShape(word);
    if (!shape)
      return parser.emitError(parser.getCurrentLocation(),
                              "'" + word + "' is no shape of a kernel");
    result.addAttribute("shape",
                        KernelShapeAttr::get(parser.getContext(), *shape));
  }
  SmallVector<OpAsmParser::Argument> args;
  SmallVector<nn::DimAttr> bounds;
  Type index = parser.getBuilder().getIndexType();
  auto parseBound = [&]() -> ParseResult {
    OpAsmParser::Argument &arg = args.emplace_back();
    arg.type = index;
    if (parser.parseArgument(arg) || parser.parseLess())
      return failure();
    return nn::parseDim(parser, bounds.emplace_back());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseBound))
    return failure();
  result.addAttribute(
      "bounds",
      nn::DimsAttr::get(parser.getContext(), ArrayRef<nn::DimAttr>(bounds)));

  auto parseBuffer = [&]() -> ParseResult {
    OpAsmParser::Argument &arg = args.emplace_back();
    OpAsmParser::UnresolvedOperand operand;
    Type type;
    if (parser.parseArgument(arg) || parser.parseEqual() ||
        parser.parseOperand(operand) || parser.parseColonType(type) ||
        parser.resolveOperand(operand, type, result.operands))
      return failure();
    arg.type = type;
    if (succeeded(parser.parseOptionalKeyword("as")))
      return parser.parseType(arg.type);
    return success();
  };
  return failure(parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren,
                                                parseBuffer) ||
                 parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
                 parser.parseRegion(*result.addRegion(), args));
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getName());
  if (getShape())
    printer << ' ' << stringifyKernelShape(*getShape());
  printer << " [";
  llvm::interleaveComma(
      llvm::zip(getIndices(), getBounds()), printer, [&](auto pair) {
        printer << std::get<0>(pair) << " < " << std::get<1>(pair).str();
      });
  printer << "] (";
  llvm::interleaveComma(
      llvm::zip(getBufferArgs(), getBuffers()), printer, [&](auto pair) {
        auto [arg, buffer] = pair;
        printer << arg << " = " << buffer << " : " << buffer.getType();
        if (arg.getType() != buffer.getType())
          printer << " as " << arg.getType();
      });
  printer << ")";
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"name", "shape", "bounds"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

//===----------------------------------------------------------------------===//
// rt.load, rt.store
//===----------------------------------------------------------------------===//

static LogicalResult verifyAccess(Operation *op, Type buffer, Type element,
                                  size_t indices) {
  auto type = cast<BufferType>(buffer);
  Type scalar = getScalarType(type.getElementType());
  if (scalar != element)
    return op->emitOpError() << "element of " << type << " is " << scalar
                             << " in scalar code, not " << element;
  if (size_t(type.getRank()) != indices)
    return op->emitOpError()
           << "needs " << type.getRank() << " indices, has " << indices;
  return success();
}

void LoadOp::build(OpBuilder &builder, OperationState &state, Value buffer,
                   ValueRange indices) {
  build(builder, state,
        getScalarType(cast<BufferType>(buffer.getType()).getElementType()),
        buffer, indices);
}

LogicalResult LoadOp::verify() {
  return verifyAccess(*this, getBuffer().getType(), getType(),
                      getIndices().size());
}

LogicalResult StoreOp::verify() {
  return verifyAccess(*this, getBuffer().getType(), getValue().getType(),
                      getIndices().size());
}

static ParseResult
parseAccess(OpAsmParser &parser, OperationState &result,
            std::optional<OpAsmParser::UnresolvedOperand> value) {
  OpAsmParser::UnresolvedOperand buffer;
  SmallVector<OpAsmParser::UnresolvedOperand> indices;
  BufferType type;
  if (parser.parseOperand(buffer) ||
      parser.parseOperandList(indices, OpAsmParser::Delimiter::Square) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type))
    return failure();
  if (value &&
      parser.resolveOperand(*value, getScalarType(type.getElementType()),
                            result.operands))
    return failure();
  if (!value)
    result.addTypes(getScalarType(type.getElementType()));
  return failure(parser.resolveOperand(buffer, type, result.operands) ||
                 parser.resolveOperands(indices,
                                        parser.getBuilder().getIndexType(),
                                        result.operands));
}

ParseResult LoadOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseAccess(parser, result, std::nullopt);
}

void LoadOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getBuffer() << '[' << getIndices() << ']';
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : " << getBuffer().getType();
}

ParseResult StoreOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::UnresolvedOperand value;
  if (parser.parseOperand(value) || parser.parseComma())
    return failure();
  return parseAccess(parser, result, value);
}

void StoreOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getValue() << ", " << getBuffer() << '[' << getIndices()
          << ']';
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : " << getBuffer().getType();
}

//===----------------------------------------------------------------------===//
// rt.size
//===----------------------------------------------------------------------===//

OpFoldResult SizeOp::fold(FoldAdaptor) {
  if (std::optional<int64_t> c = getSize().asConstant())
    return IntegerAttr::get(getType(), *c);
  return {};
}
