//===- RTAlign.cpp - What addresses are multiples of ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTAlign.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dt::rt;

static int64_t getAlignment(int64_t number) {
  return number ? std::min(int64_t(1) << llvm::countr_zero(uint64_t(number)),
                           kMostAlignment)
                : kMostAlignment;
}

int64_t dt::rt::getAlignment(const nn::DimExpr &size) {
  int64_t least = kMostAlignment;
  for (const nn::DimExpr::Term &term : size.terms())
    least = std::min(least, ::getAlignment(term.coefficient));
  return least;
}

BufferAlignment::BufferAlignment(ModuleOp module) : module(module) {
  for (auto entry : module.getBody().getOps<EntryOp>()) {
    auto function = module.lookupSymbol<FuncOp>(entry.getCallee());
    if (!function)
      continue;
    for (auto [argument, name] :
         llvm::zip(function.getArguments(),
                   entry.getBuffers().getAsRange<FlatSymbolRefAttr>())) {
      auto decl = module.lookupSymbol<BufferDeclOp>(name.getAttr());
      int64_t place = decl ? std::min(::getAlignment(int64_t(decl.getOffset())),
                                      ::getAlignment(int64_t(decl.getStride())))
                           : 1;
      auto known = arguments.try_emplace(argument, place).first;
      known->second = std::min(known->second, place);
    }
  }
  for (auto caller : module.getBody().getOps<FuncOp>())
    for (auto call : caller.getBody().getOps<CallOp>())
      if (auto function = module.lookupSymbol<FuncOp>(call.getCallee()))
        for (auto [argument, value] :
             llvm::zip(function.getArguments(), call.getArguments()))
          handed[argument].push_back(value);
}

int64_t BufferAlignment::get(Value buffer) {
  if (auto view = buffer.getDefiningOp<ViewOp>()) {
    Type element = view.getType().getElementType();
    int64_t offset = dt::rt::getAlignment(
        view.getOffset() * nn::DimExpr(nn::getElementBytes(element)));
    return std::min(offset, get(view.getSource()));
  }
  if (auto alloc = buffer.getDefiningOp<AllocOp>())
    return alloc.getOffset() ? ::getAlignment(int64_t(*alloc.getOffset())) : 1;
  auto declared = [&](auto op, auto place) {
    auto decl = module.lookupSymbol<ParameterDeclOp>(op.getParameter());
    return decl ? ::getAlignment(int64_t(place(decl))) : 1;
  };
  if (auto p = buffer.getDefiningOp<ParameterOp>())
    return declared(p, [](ParameterDeclOp d) { return d.getOffset(); });
  if (auto g = buffer.getDefiningOp<GradientOp>())
    return declared(g, [](ParameterDeclOp d) { return d.getGradientPlace(); });
  if (buffer.getDefiningOp<ConstantOp>())
    return kMostAlignment;
  auto callers = handed.find(buffer);
  auto known = arguments.find(buffer);
  if (callers == handed.end())
    return known == arguments.end() ? 1 : known->second;
  int64_t least = known == arguments.end() ? kMostAlignment : known->second;
  for (Value value : callers->second)
    least = std::min(least, get(value));
  handed.erase(buffer);
  return arguments[buffer] = least;
}
