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
  openClass(camel(names.type, "Sizes"),
            {"Sizes of one part of the batch in", module.getSymName()});
  for (auto symbol : module.getBody().getOps<rt::SymbolOp>()) {
    std::string what =
        symbol.getItem()
            ? cpp::words({symbol.getMeasure() ? *symbol.getMeasure() : "number",
                          "of items", cpp::cited(*symbol.getItem())})
            : "fixed by the data";
    field(identifier(symbol.getSymName()), b.getI64Type(),
          cpp::listed({what, cpp::words({"at most", symbol.getMax()})}));
  }
}

LogicalResult ModuleEmitter::emitPointers(StringRef type, StringRef comment,
                                          bool gradients) {
  OpBuilder::InsertionGuard guard(b);
  openClass(camel(names.type, type), {comment});
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
  header = openFile(b, loc, dotted(names.module, "h"),
                    cpp::labelled(cpp::words({"Module", module.getSymName()}),
                                  "its buffers and functions."));
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
    openClass(camel(names.type, "Arena"),
              {"Tensors that outlive a task, in the task's slot"});
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
    openClass(camel(names.type, "Context"),
              {"All that a function of the module may need"});
    field("size", opaque(camel(names.type, "Sizes")), "");
    field("parameters", opaque(camel(names.type, "Parameters")), "");
    field("gradients", opaque(camel(names.type, "Gradients")), "");
    field("arena", opaque(camel(names.type, "Arena")), "");
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
  declareFunction(b, loc, snake(names.module, "context"), contextType());
  line("");
  return success();
}

FunctionType ModuleEmitter::contextType() {
  return b.getFunctionType(opaque("const dt::rt::TaskContext&"),
                           opaque(camel(names.type, "Context")));
}

/// Bytes of the task's regions as what a pointer of the context points at.
static std::string place(const cpp::Code &pointer, Type element,
                         const cpp::Code &region, const cpp::Code &offset) {
  return cpp::assign(
      cpp::member("context", pointer),
      cpp::castTo("reinterpret_cast", cTypeName(element),
                  cpp::sum(cpp::member("task", region), offset)));
}

void ModuleEmitter::emitContextFunction() {
  OpBuilder::InsertionGuard guard(b);
  line("");
  openFunction(snake(names.module, "context"), contextType());
  line(cpp::constant("dt::rt::TaskContext &", "task", "{}"),
       b.getInsertionBlock()->getArgument(0));
  line(cpp::declare(camel(names.type, "Context"), "context"));
  for (auto [i, symbol] :
       llvm::enumerate(module.getBody().getOps<rt::SymbolOp>()))
    line(cpp::assign(
        cpp::member("context.size", identifier(symbol.getSymName())),
        cpp::quotient(cpp::element("task.dims", i), symbol.getMultiple())));
  for (auto decl : module.getBody().getOps<rt::ParameterDeclOp>()) {
    std::string name = names.parameters[decl.getSymName()];
    line(place(cpp::member("parameters", name),
               cast<rt::BufferType>(decl.getType()).getElementType(),
               "parameters", decl.getOffset()));
    if (decl.getTrainable())
      line(place(cpp::member("gradients", name),
                 decl.getGradientType().getElementType(), "gradients",
                 decl.getGradientPlace()));
  }
  for (auto decl : module.getBody().getOps<rt::BufferDeclOp>()) {
    std::string offset = std::to_string(decl.getOffset());
    if (decl.getStride()) {
      StringRef slot = decl.getSlots() == rt::SlotKind::Whole
                           ? "slot"
                           : rt::textOf(decl.getSlots());
      offset = cpp::sum(offset,
                        cpp::product(cpp::member("task", slot),
                                     cpp::call("int64_t", {decl.getStride()})));
    }
    line(place(cpp::member("arena", names.buffers[decl.getSymName()]),
               cast<rt::BufferType>(decl.getType()).getElementType(), "arena",
               offset));
  }
  for (StringRef name :
       {"scratch", "seeds", "stream", "tpStream", "group", "listener", "fault"})
    line(cpp::assign(cpp::member("context", name), cpp::member("task", name)));
  Value result =
      emitc::LiteralOp::create(b, loc, contextType().getResult(0), "context");
  emitc::ReturnOp::create(b, loc, result);
}

} // namespace dt::codegen
