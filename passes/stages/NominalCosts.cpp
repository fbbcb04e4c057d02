//===- NominalCosts.cpp - Nominal times of functions ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/stages/NominalCosts.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace dt::stages {

double NominalCosts::atBounds(const nn::DimExpr &size) {
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

double NominalCosts::bytesOf(Type type) {
  return isa<RankedTensorType>(type) ? atBounds(nn::getNumBytes(type)) : 0;
}

NominalCost NominalCosts::of(Operation *op) {
  NominalCost cost;
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
    return callee ? of(callee) : cost;
  }
  auto model = dyn_cast<nn::CostOpInterface>(op);
  if (!model)
    return cost;
  cost.flops = atBounds(model.getFlops());
  cost.ns = std::max(cost.flops / kFlopsPerNs,
                     atBounds(model.getBytes()) / kBytesPerNs);
  return cost;
}

NominalCost NominalCosts::of(func::FuncOp function) {
  auto [known, fresh] = functions.try_emplace(function);
  if (!fresh)
    return known->second; // zero in a recursion, which is no valid IR
  NominalCost total;
  // Bodies of ops are in the ops' own figures.
  for (Block &block : function.getBody())
    for (Operation &op : block)
      total += of(&op);
  return functions[function] = total;
}

int64_t toInteger(double ns) {
  constexpr double most = double(int64_t(1) << 40);
  return int64_t(std::llround(std::clamp(ns, 0.0, most)));
}

} // namespace dt::stages
