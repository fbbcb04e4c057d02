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

/// Which of `list` are in `values`.
static Flags flagsOf(ValueRange list, const ValueSet &values) {
  Flags flags;
  for (Value v : list)
    flags.push_back(values.contains(v));
  return flags;
}

/// Adds what of `list` is flagged and has a derivative.
static void addFlagged(ValueRange list, ArrayRef<bool> flags,
                       ValueSet &values) {
  for (auto [value, flag] : llvm::zip(list, flags))
    if (flag && isDifferentiable(value))
      values.insert(value);
}

Flags Activity::resultsThatVary(Operation *op, const ValueSet &values) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    if (func::FuncOp callee = getCallee(call, tables))
      return variedResults(callee, flagsOf(call.getOperands(), values));
  }
  bool varies =
      isTrainedRead(op, tables) ||
      (!stopsGradients(op) && llvm::any_of(op->getOperands(), [&](Value v) {
        return values.contains(v);
      }));
  return Flags(op->getNumResults(), varies);
}

Flags Activity::operandsThatCount(Operation *op, const ValueSet &values) {
  Flags results = flagsOf(op->getResults(), values);
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
  addFlagged(body.getArguments(), args, values);
  for (Operation &op : body)
    addFlagged(op.getResults(), resultsThatVary(&op, values), values);
  return values;
}

ValueSet Activity::countingValues(func::FuncOp function,
                                  ArrayRef<bool> results) {
  ValueSet values;
  if (function.isExternal())
    return values;
  Block &body = function.front();
  addFlagged(body.getTerminator()->getOperands(), results, values);
  for (Operation &op : llvm::reverse(body))
    addFlagged(op.getOperands(), operandsThatCount(&op, values), values);
  return values;
}

Flags Activity::variedResults(func::FuncOp function, ArrayRef<bool> args) {
  std::pair<Operation *, Flags> key(function, args);
  auto [it, isNew] = varied.try_emplace(key, Flags(function.getNumResults()));
  if (!isNew || function.isExternal())
    return it->second;
  ValueSet values = variedValues(function, args);
  return varied[key] =
             flagsOf(function.front().getTerminator()->getOperands(), values);
}

Flags Activity::countingArguments(func::FuncOp function,
                                  ArrayRef<bool> results) {
  std::pair<Operation *, Flags> key(function, results);
  auto [it, isNew] =
      counting.try_emplace(key, Flags(function.getNumArguments()));
  if (!isNew || function.isExternal())
    return it->second;
  ValueSet values = countingValues(function, results);
  return counting[key] = flagsOf(function.getArguments(), values);
}

} // namespace dt::differentiate
