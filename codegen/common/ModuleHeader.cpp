//===- ModuleHeader.cpp - What functions of a module are given ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The module's header: sizes, parameters, gradients and buffers by name, and
// the context that holds them, made of a task's.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/ModuleEmitter.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dt::codegen {

void ModuleEmitter::emitSizes() {
  OpBuilder::InsertionGuard guard(b);
  openClass(names.type + "Sizes",
            ("Sizes of one part of the batch in " + module.getSymName()).str());
  for (auto symbol : module.getBody().getOps<rt::SymbolOp>()) {
    std::string what =
        symbol.getItem() ? ("number of items '" + *symbol.getItem() + "'").str()
                         : "fixed by the data";
    field(identifier(symbol.getSymName()), b.getI64Type(),
          what + ", at most " + std::to_string(symbol.getMax()));
  }
}

LogicalResult ModuleEmitter::emitPointers(StringRef type, StringRef comment,
                                          bool gradients) {
  OpBuilder::InsertionGuard guard(b);
  openClass(names.type + type.str(), comment);
  for (auto decl : module.getBody().getOps<rt::ParameterDeclOp>()) {
    if (gradients && !decl.getTrainable())
      continue;
    auto buffer = gradients ? decl.getGradientType()
                            : cast<rt::BufferType>(decl.getType());
    if (cTypeName(buffer.getElementType()).empty())
      return decl.emitOpError()
             << "has elements of type " << buffer.getElementType()
             << ", which has no C++ type here";
    field(names.parameters[decl.getSymName()],
          pointer(buffer.getElementType(), !gradients),
          shapeText(buffer.getShape()));
  }
  return success();
}

LogicalResult ModuleEmitter::emitHeader() {
  OpBuilder::InsertionGuard guard(b);
  header = file(
      names.module + ".h",
      ("Module " + module.getSymName() + ": its buffers and functions.").str());
  line("#pragma once");
  for (StringRef path : target.includes())
    include(path);
  llvm::StringSet<> seen;
  for (auto symbol : module.getBody().getOps<rt::SymbolOp>())
    if (!seen.insert(identifier(symbol.getSymName())).second)
      return symbol.emitOpError(
          "has the same C++ name as another symbol of its module");
  NameScope parameterScope, bufferScope;
  for (auto decl : module.getBody().getOps<rt::ParameterDeclOp>())
    names.parameters[decl.getSymName()] =
        parameterScope.unique(decl.getSymName());
  for (auto decl : module.getBody().getOps<rt::BufferDeclOp>())
    names.buffers[decl.getSymName()] = bufferScope.unique(decl.getSymName());

  emitSizes();
  if (failed(emitPointers("Parameters", "Parameters by name", false)) ||
      failed(emitPointers("Gradients",
                          "Gradient sums of the parameters that train", true)))
    return failure();
  {
    OpBuilder::InsertionGuard inner(b);
    openClass(names.type + "Arena",
              "Tensors that outlive a task, in the task's slot");
    for (auto decl : module.getBody().getOps<rt::BufferDeclOp>()) {
      auto buffer = cast<rt::BufferType>(decl.getType());
      if (cTypeName(buffer.getElementType()).empty())
        return decl.emitOpError()
               << "has elements of type " << buffer.getElementType()
               << ", which has no C++ type here";
      field(names.buffers[decl.getSymName()],
            pointer(buffer.getElementType(), false),
            shapeText(buffer.getShape()));
    }
  }
  {
    OpBuilder::InsertionGuard inner(b);
    openClass(names.type + "Context",
              "All that a function of the module may need");
    field("size", opaque(names.type + "Sizes"), "");
    field("parameters", opaque(names.type + "Parameters"), "");
    field("gradients", opaque(names.type + "Gradients"), "");
    field("arena", opaque(names.type + "Arena"), "");
    field("scratch", emitc::PointerType::get(opaque("std::byte")),
          "shared by all tasks");
    field("seeds", emitc::PointerType::get(opaque("const float")),
          "per loss: its weight / the step's denominator");
    field("stream", emitc::PointerType::get(opaque("void")), "null on the CPU");
    field("tpStream", emitc::PointerType::get(opaque("void")),
          "of collectives beside the work of `stream`");
    field("listener",
          emitc::PointerType::get(opaque("dt::rt::GradientListener")),
          "sums gradients over replicas, or null");
    field("fault", emitc::PointerType::get(opaque("dt::rt::Fault")),
          "takes down an index that is out of range");
    field("group", emitc::PointerType::get(opaque("dt::rt::TensorParallel")),
          "the ranks of this replica");
  }
  line("");
  line((names.type + "Context " + names.module +
        "_context(const dt::rt::TaskContext &task);"));
  line("");
  return success();
}

void ModuleEmitter::emitContextFunction() {
  OpBuilder::InsertionGuard guard(b);
  line("");
  Type context = opaque(names.type + "Context");
  openFunction(
      names.module + "_context",
      b.getFunctionType(opaque("const dt::rt::TaskContext&"), context));
  auto argument = b.getInsertionBlock()->getArgument(0);
  line("const dt::rt::TaskContext &task = {};", argument);
  line(names.type + "Context context;");
  for (auto [i, symbol] :
       llvm::enumerate(module.getBody().getOps<rt::SymbolOp>()))
    line("context.size." + identifier(symbol.getSymName()) + " = task.dims[" +
         std::to_string(i) + "];");
  auto place = [&](StringRef target, Type element, const Twine &address) {
    line((target + " = reinterpret_cast<" + cTypeName(element) + " *>(" +
          address + ");")
             .str());
  };
  for (auto decl : module.getBody().getOps<rt::ParameterDeclOp>()) {
    Type element = cast<rt::BufferType>(decl.getType()).getElementType();
    std::string name = names.parameters[decl.getSymName()];
    place("context.parameters." + name, element,
          "task.parameters + " + Twine(decl.getOffset()));
    if (decl.getTrainable())
      place("context.gradients." + name,
            decl.getGradientType().getElementType(),
            "task.gradients + " + Twine(decl.getGradientPlace()));
  }
  for (auto decl : module.getBody().getOps<rt::BufferDeclOp>()) {
    auto type = cast<rt::BufferType>(decl.getType());
    std::string address = "task.arena + " + std::to_string(decl.getOffset());
    if (decl.getStride())
      address += std::string(" + task.") +
                 (decl.getSlots() == rt::SlotKind::Whole
                      ? "slot"
                      : rt::textOf(decl.getSlots())) +
                 " * int64_t(" + std::to_string(decl.getStride()) + ")";
    place("context.arena." + names.buffers[decl.getSymName()],
          type.getElementType(), address);
  }
  line("context.scratch = task.scratch;");
  line("context.seeds = task.seeds;");
  line("context.stream = task.stream;");
  line("context.tpStream = task.tpStream;");
  line("context.group = task.group;");
  line("context.listener = task.listener;");
  line("context.fault = task.fault;");
  Value result = emitc::LiteralOp::create(b, loc, context, "context");
  emitc::ReturnOp::create(b, loc, result);
}

} // namespace dt::codegen
