//===- Activity.cpp - What varies and what counts ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/Activity.h"
#include "dialects/nn/NNOps.h"

using namespace mlir;

namespace dt::differentiate {

bool isDifferentiable(Value value) {
  return isa<RankedTensorType>(value.getType()) &&
         isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

bool isTrainedRead(Operation *op, SymbolTableCollection &tables) {
  auto read = dyn_cast_or_null<nn::ReadOp>(op);
  if (!read || !isDifferentiable(read))
    return false;
  auto parameter = tables.lookupNearestSymbolFrom<nn::ParameterOp>(
      read, read.getParameterAttr());
  return parameter && parameter.getTrainable();
}

func::FuncOp getCallee(func::CallOp call, SymbolTableCollection &tables) {
  return tables.lookupNearestSymbolFrom<func::FuncOp>(call,
                                                      call.getCalleeAttr());
}

/// Gradients stop at ops that say so and at the end of the function.
static bool stopsGradients(Operation *op) {
  return op->hasTrait<nn::ZeroGradient>() ||
         op->hasTrait<OpTrait::IsTerminator>() || op->getNumResults() == 0;
}

Flags Activity::resultsThatVary(Operation *op, const ValueSet &values) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    Flags args;
    for (Value v : call.getOperands())
      args.push_back(values.contains(v));
    if (func::FuncOp callee = getCallee(call, tables))
      return variedResults(callee, args);
  }
  bool varies =
      isTrainedRead(op, tables) ||
      (!stopsGradients(op) && llvm::any_of(op->getOperands(), [&](Value v) {
        return values.contains(v);
      }));
  return Flags(op->getNumResults(), varies);
}

Flags Activity::operandsThatCount(Operation *op, const ValueSet &values) {
  Flags results;
  for (Value v : op->getResults())
    results.push_back(values.contains(v));
  if (auto call = dyn_cast<func::CallOp>(op))
    if (func::FuncOp callee = getCallee(call, tables))
      return countingArguments(callee, results);
  bool counts = !stopsGradients(op) && llvm::is_contained(results, true);
  return Flags(op->getNumOperands(), counts);
}

ValueSet Activity::variedValues(func::FuncOp function, ArrayRef<bool> args) {
  ValueSet values;
  if (function.isExternal())
    return values;
  Block &body = function.front();
  for (auto [arg, flag] : llvm::zip(body.getArguments(), args))
    if (flag && isDifferentiable(arg))
      values.insert(arg);
  for (Operation &op : body)
    for (auto [result, flag] :
         llvm::zip(op.getResults(), resultsThatVary(&op, values)))
      if (flag && isDifferentiable(result))
        values.insert(result);
  return values;
}

ValueSet Activity::countingValues(func::FuncOp function,
                                  ArrayRef<bool> results) {
  ValueSet values;
  if (function.isExternal())
    return values;
  Block &body = function.front();
  for (auto [value, flag] :
       llvm::zip(body.getTerminator()->getOperands(), results))
    if (flag && isDifferentiable(value))
      values.insert(value);
  for (Operation &op : llvm::reverse(body))
    for (auto [operand, flag] :
         llvm::zip(op.getOperands(), operandsThatCount(&op, values)))
      if (flag && isDifferentiable(operand))
        values.insert(operand);
  return values;
}

Flags Activity::variedResults(func::FuncOp function, ArrayRef<bool> args) {
  std::pair<Operation *, Flags> key(function, args);
  auto [it, isNew] = varied.try_emplace(key, Flags(function.getNumResults()));
  if (!isNew || function.isExternal())
    return it->second;
  ValueSet values = variedValues(function, args);
  Flags flags;
  for (Value v : function.front().getTerminator()->getOperands())
    flags.push_back(values.contains(v));
  return varied[key] = flags;
}

Flags Activity::countingArguments(func::FuncOp function,
                                  ArrayRef<bool> results) {
  std::pair<Operation *, Flags> key(function, results);
  auto [it, isNew] =
      counting.try_emplace(key, Flags(function.getNumArguments()));
  if (!isNew || function.isExternal())
    return it->second;
  ValueSet values = countingValues(function, results);
  Flags flags;
  for (Value v : function.getArguments())
    flags.push_back(values.contains(v));
  return counting[key] = flags;
}

} // namespace dt::differentiate
