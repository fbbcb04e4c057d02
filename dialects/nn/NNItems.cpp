//===- NNItems.cpp - What rules for items have in common --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNItems.h"
#include "dialects/nn/NNNumbers.h"
#include "dialects/nn/NNOps.h"

using namespace mlir;
using namespace dt::nn;

bool dt::nn::allAre(ItemStates states, ItemState::Kind kind) {
  return llvm::all_of(states, [&](const ItemState &s) { return s.is(kind); });
}
bool dt::nn::anyIs(ItemStates states, ItemState::Kind kind) {
  return llvm::any_of(states, [&](const ItemState &s) { return s.is(kind); });
}

ItemState dt::nn::alignItems(Operation *op, ItemStates operands) {
  int64_t rank = getRank(op->getResult(0));
  std::optional<ItemState> result;
  bool index = true;
  for (auto [operand, state] : llvm::zip(op->getOperands(), operands)) {
    if (state.is(ItemState::Invariant))
      continue;
    if (!state.is(ItemState::PerItem))
      return ItemState::coupled(op,
                                "combines a sum over items with other values");
    ItemState moved = state.onAxis(state.axis + rank - getRank(operand));
    if (result && result->axis != moved.axis)
      return ItemState::coupled(op, kEveryWithEvery, true);
    if (result && result->major != moved.major)
      return ItemState::coupled(op, kOtherOrder);
    index &= state.declaredIndex;
    result = moved;
  }
  if (!result)
    return {};
  *result = result->asNumber();
  result->declaredIndex = index;
  return *result;
}

bool dt::nn::arePairs(Operation *op, ItemStates operands) {
  auto wide = [](Value value) {
    Shape shape = getShape(value);
    llvm::erase_if(shape, [](const DimExpr &dim) { return dim == 1; });
    return shape;
  };
  if (isa<ReshapeOp>(op) ? wide(op->getOperand(0)) != wide(op->getResult(0))
                         : !isa<ScalarOpInterface, BroadcastOp>(op))
    return false;
  return llvm::all_of(operands, [](const ItemState &state) {
    bool isNumber = state.is(ItemState::PerItem) && !state.declaredIndex &&
                    !state.hasOwnNumber() && !state.isRunningCount;
    return isNumber || state.is(ItemState::Invariant) || state.isPairTable;
  });
}

/// Operands that are a sum over items together, in all of which the op is
/// linear; the others have no items.
static bool isSumOf(Operation *op, ItemStates operands,
                    ArrayRef<unsigned> group) {
  for (auto [i, state] : llvm::enumerate(operands)) {
    bool fits =
        llvm::is_contained(group, i)
            ? state.is(ItemState::Sum) || splatOf(op->getOperand(i)) == 0.0
            : state.is(ItemState::Invariant);
    if (!fits)
      return false;
  }
  return true;
}

ItemState dt::nn::elementwiseItems(Operation *op, ItemStates operands) {
  if (!anyIs(operands, ItemState::Sum))
    return alignItems(op, operands);
  for (bool exact : {false, true})
    for (const auto &group : getLinearGroups(op, exact))
      if (isSumOf(op, operands, group))
        return ItemState::sum();
  return ItemState::coupled(op, kNotLinearInSum);
}

ItemState dt::nn::itemsBesideAxis(Operation *op, const ItemState &state,
                                  int64_t axis) {
  if (state.is(ItemState::Sum))
    return ItemState::coupled(op, kNotLinearInSum);
  if (state.is(ItemState::PerItem) && state.axis == axis)
    return ItemState::coupled(op, "works along the axis of items");
  return state;
}

ItemState dt::nn::leadingItems(Operation *op, ItemStates operands,
                               unsigned data) {
  std::optional<ItemState> result;
  for (auto [i, state] : llvm::enumerate(operands)) {
    if (state.is(ItemState::Invariant))
      continue;
    if (!state.is(ItemState::PerItem) || state.axis != 0 || i >= data)
      return ItemState::coupled(op, "needs the items on the first axis");
    if (result && result->major != state.major)
      return ItemState::coupled(op, kOtherOrder);
    result = state;
  }
  return result.value_or(ItemState());
}
