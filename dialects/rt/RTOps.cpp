//===- RTOps.cpp - Functions and buffers of the rt dialect ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTOps.h"

#include "dialects/nn/NNNames.h"

#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace dt::rt;
using dt::nn::DimExpr;

#define GET_OP_CLASSES
#include "dialects/rt/RTOps.cpp.inc"

//===----------------------------------------------------------------------===//
// rt.func, rt.call
//===----------------------------------------------------------------------===//

void FuncOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                   FunctionType type) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addRegion();
}

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  auto makeType = [](Builder &builder, ArrayRef<Type> arguments,
                     ArrayRef<Type> results,
                     function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), makeType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void FuncOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(
      printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

StringRef FuncOp::getAccess(unsigned argument) {
  if (auto access = getArgAttrOfType<StringAttr>(argument, RTDialect::kAccess))
    return access.getValue();
  return "in";
}

LogicalResult FuncOp::verify() {
  if (getNumResults())
    return emitOpError("has no results: write to arguments");
  for (unsigned i = 0; i < getNumArguments(); ++i) {
    if (!isa<BufferType>(getArgumentTypes()[i]))
      return emitOpError() << "argument " << i << " must be a buffer, not "
                           << getArgumentTypes()[i];
    StringRef access = getAccess(i);
    if (access != "in" && access != "out" && access != "inout")
      return emitOpError() << "rt.access of argument " << i
                           << " must be in, out or inout, not '" << access
                           << "'";
  }
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto callee = tables.lookupNearestSymbolFrom<FuncOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "calls no rt.func: " << getCalleeAttr();
  TypeRange expected = callee.getArgumentTypes();
  if (expected != getArguments().getTypes()) {
    InFlightDiagnostic diagnostic =
        emitOpError() << "arguments differ from those of " << getCalleeAttr();
    diagnostic.attachNote(callee.getLoc())
        << "which takes " << callee.getFunctionType();
    return diagnostic;
  }
  int64_t scratch = callee.getScratchBytes().value_or(0);
  if (getScratch()) {
    auto type = cast<BufferType>(getScratch().getType());
    std::optional<int64_t> bytes = type.getNumBytes().asConstant();
    if (!bytes || *bytes < scratch)
      return emitOpError() << "scratch of " << type << " is too small for "
                           << getCalleeAttr() << ", which needs " << scratch
                           << " bytes";
  }
  return success();
}

void CallOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  // What the callee does is known to its argument attributes only; both is
  // safe.
  for (OpOperand &operand : (*this)->getOpOperands()) {
    effects.emplace_back(MemoryEffects::Read::get(), &operand);
    effects.emplace_back(MemoryEffects::Write::get(), &operand);
  }
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

SmallVector<StringAttr> dt::rt::getJoined(Operation *op) {
  SmallVector<StringAttr> names;
  auto list = [&](auto address) {
    names.push_back(address.getParameterAttr().getAttr());
    if (ArrayAttr beside = address.getBesideAttr())
      for (auto name : beside.getAsRange<FlatSymbolRefAttr>())
        names.push_back(name.getAttr());
  };
  llvm::TypeSwitch<Operation *>(op).Case<ParameterOp, GradientOp>(list);
  return names;
}

namespace {
/// The parameters whose gradients a buffer is (a part of).
SmallVector<StringAttr> getGradientsOf(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewOp>())
    buffer = view.getSource();
  auto gradient = buffer.getDefiningOp<GradientOp>();
  return gradient ? getJoined(gradient) : SmallVector<StringAttr>();
}

using LastUses = llvm::MapVector<StringAttr, Operation *>;

/// Looks at each function once.
class GradientUses {
public:
  const LastUses &get(FuncOp function) {
    auto [it, fresh] = known.try_emplace(function);
    if (!fresh) // a function that calls itself is an error elsewhere
      return *it->second;
    it->second = std::make_unique<LastUses>();
    LastUses &last = *it->second; // `it` does not live on
    for (Operation &op : function.getBody().front())
      if (!isa<ViewOp>(op))
        visit(op, last);
    return last;
  }

private:
  void visit(Operation &op, LastUses &last) {
    for (Value operand : op.getOperands())
      for (StringAttr parameter : getGradientsOf(operand))
        last[parameter] = &op;
    auto call = dyn_cast<CallOp>(op);
    auto callee = call ? SymbolTable::lookupNearestSymbolFrom<FuncOp>(
                             call, call.getCalleeAttr())
                       : FuncOp();
    if (callee)
      for (auto &[parameter, use] : get(callee))
        last[parameter] = &op;
  }

  llvm::DenseMap<Operation *, std::unique_ptr<LastUses>> known;
};
} // namespace

llvm::MapVector<StringAttr, Operation *>
dt::rt::getLastGradientUses(FuncOp function) {
  return GradientUses().get(function);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

LogicalResult AllocOp::verify() {
  if (getOffset() && (*getOffset() < 0 || *getOffset() % 64))
    return emitOpError("offset must be a multiple of 64 bytes");
  return success();
}

Value ViewOp::getViewSource() { return getSource(); }

LogicalResult ViewOp::verify() {
  auto from = cast<BufferType>(getSource().getType());
  BufferType to = getType();
  if (from.getElementType() != to.getElementType())
    return emitOpError("cannot change the element type");
  DimExpr left = from.getNumElements() - to.getNumElements() - getOffset();
  // With symbols, only what is negative whatever their values can be refused.
  if (std::optional<int64_t> c = left.asConstant(); c && *c < 0)
    return emitOpError() << "reaches beyond the end of " << from;
  return success();
}

OpFoldResult ViewOp::fold(FoldAdaptor) {
  if (getSource().getType() == getType() && getOffset() == DimExpr(0))
    return getSource();
  return {};
}

LogicalResult GradientsReadyOp::verify() {
  int64_t begin = getBegin(), end = getEnd();
  if (begin < 0 || begin >= end || begin % kAlignment || end % kAlignment)
    return emitOpError() << "of " << begin << " to " << end
                         << " is no range of multiples of " << kAlignment;
  return success();
}

LogicalResult ConstantOp::verify() {
  auto value = cast<ShapedType>(getValue().getType());
  std::optional<int64_t> count = getType().getNumElements().asConstant();
  if (value.getElementType() != getType().getElementType() || !count ||
      *count != value.getNumElements())
    return emitOpError() << "of " << getValue().getType() << " cannot be "
                         << getType();
  return success();
}

LogicalResult FillOp::verify() {
  auto type = cast<BufferType>(getBuffer().getType());
  if (getValue().getType() != type.getElementType())
    return emitOpError() << "value must be " << type.getElementType()
                         << ", not " << getValue().getType();
  return success();
}

LogicalResult CopyOp::verify() {
  auto from = cast<BufferType>(getSource().getType());
  auto to = cast<BufferType>(getTarget().getType());
  if (from.getElementType() != to.getElementType() ||
      from.getNumElements() != to.getNumElements())
    return emitOpError() << "cannot copy " << from << " to " << to;
  return success();
}
