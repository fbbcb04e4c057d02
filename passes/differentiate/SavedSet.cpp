//===- SavedSet.cpp - What one half keeps for the other ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/SavedSet.h"
#include "passes/differentiate/Passes.h"

#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNShape.h"

using namespace mlir;
using namespace dt;
using namespace dt::differentiate;

static bool widens(Operation *op) {
  return op->getNumResults() == 1 && nn::widened(op->getResult(0));
}

/// Ops that depend on nothing but the program and the rank: constants, index
/// functions, parameters.
bool SavedSet::isFree(Operation *op) const {
  return op->getNumOperands() == 0 &&
         (op->hasTrait<nn::Recomputable>() || isMemoryEffectFree(op));
}

bool SavedSet::canRecompute(Operation *op) const {
  return isFree(op) || isa<nn::ReshapeOp>(op) || widens(op) || mayRecompute(op);
}

/// A reshape is the same buffer, and what is widened has half the bytes: what
/// they are made of stands for them.
static Value throughViews(Value v) {
  while (Operation *op = v.getDefiningOp()) {
    if (!isa<nn::ReshapeOp>(op) && !widens(op))
      break;
    v = op->getOperand(0);
  }
  return v;
}

/// Bytes with symbols at their bounds; unbound ones count as a typical batch.
int64_t SavedSet::bytes(Value v) {
  auto value = [&](StringRef symbol) -> std::optional<int64_t> {
    auto dim = SymbolTable::lookupNearestSymbolFrom<nn::DimOp>(
        function, StringAttr::get(function.getContext(), symbol));
    return dim && dim.getMax() ? std::max<int64_t>(*dim.getMax(), 1) : 8;
  };
  return nn::getNumBytes(v.getType()).evaluate(value).value_or(0);
}

/// Values that must be there to compute `v` again, not looking behind kept
/// ones.
void SavedSet::findLeaves(Value v, OrderedValues &leaves,
                          ValueSet &seen) const {
  if (!seen.insert(v).second || isa<BlockArgument>(v) || saved.contains(v))
    return;
  Operation *op = v.getDefiningOp();
  if (!canRecompute(op)) {
    leaves.insert(v);
    return;
  }
  for (Value operand : op->getOperands())
    findLeaves(operand, leaves, seen);
}

void SavedSet::chooseFor(Value v) {
  Value root = throughViews(v);
  if (isa<BlockArgument>(root) || saved.contains(root) ||
      isFree(root.getDefiningOp()))
    return;
  OrderedValues leaves;
  ValueSet seen;
  findLeaves(root, leaves, seen);
  int64_t cost = 0;
  for (Value leaf : leaves)
    cost += bytes(leaf);
  if (!always && !leaves.empty() && cost >= bytes(root))
    saved.insert(root);
  else
    saved.insert(leaves.begin(), leaves.end());
}

void SavedSet::choose(const OrderedValues &required) {
  for (Value v : required) {
    Value root = throughViews(v);
    if (!isa<BlockArgument>(root) && !canRecompute(root.getDefiningOp()))
      saved.insert(root);
  }
  // In program order, so that decisions build on kept values before them.
  for (Operation &op : function.front())
    for (Value v : op.getResults())
      if (required.contains(v))
        chooseFor(v);
  ValueSet seen;
  for (Value v : required)
    findInputs(v, seen);
}

void SavedSet::findInputs(Value v, ValueSet &seen) {
  if (!seen.insert(v).second)
    return;
  if (isa<BlockArgument>(v)) {
    arguments.insert(v);
    return;
  }
  if (saved.contains(v)) {
    kept.insert(v);
    return;
  }
  for (Value operand : v.getDefiningOp()->getOperands())
    findInputs(operand, seen);
}

Value dt::differentiate::materialise(Value v, OpBuilder &builder,
                                     IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(v))
    return known;
  Operation *op = v.getDefiningOp();
  for (Value operand : op->getOperands())
    materialise(operand, builder, mapping);
  builder.clone(*op, mapping);
  return mapping.lookup(v);
}
