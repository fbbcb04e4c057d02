//===- BoundSizes.cpp - FLOPs and bytes at the bounds of a part -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/stages/BoundSizes.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace dt::stages {

double BoundSizes::atBounds(const nn::DimExpr &size) {
  double total = 0;
  for (const nn::DimExpr::Term &term : size.terms()) {
    double product = double(term.coefficient);
    for (const std::string &symbol : term.symbols) {
      auto dim = module.lookupSymbol<nn::DimOp>(symbol);
      product *= dim ? double(dim.getMax().value_or(0)) : 0;
    }
    total += product;
  }
  return total;
}

double BoundSizes::bytesOf(Type type) {
  return isa<RankedTensorType>(type) ? atBounds(nn::getNumBytes(type)) : 0;
}

double BoundSizes::flopsOf(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
    return callee ? flopsOf(callee) : 0;
  }
  auto model = dyn_cast<nn::CostOpInterface>(op);
  return model ? atBounds(model.getFlops()) : 0;
}

double BoundSizes::flopsOf(func::FuncOp function) {
  auto [known, fresh] = functions.try_emplace(function);
  if (!fresh)
    return known->second; // zero in a recursion, which is no valid IR
  double total = 0;
  // Bodies of ops are in the ops' own figures.
  for (Block &block : function.getBody())
    for (Operation &op : block)
      total += flopsOf(&op);
  return functions[function] = total;
}

int64_t toInteger(double ns) {
  constexpr double most = double(int64_t(1) << 40);
  return int64_t(std::llround(std::clamp(ns, 0.0, most)));
}

} // namespace dt::stages
