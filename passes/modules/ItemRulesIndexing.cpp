//===- ItemRulesIndexing.cpp - Items that indices pick ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An index may pick any item of the batch, and a part has only some. It stays
// inside the part if the recipe declares it as an index (the data path rebases
// it) or if the graph itself shows that every item picks from its own rows.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/ItemRules.h"

using namespace mlir;

namespace dt::modules {

namespace {

/// Whether own numbers count the rows of `value` along `axis`, so that each
/// picks from its item.
bool walksOver(const ItemState &index, const ItemState &data, Value value,
               int64_t axis) {
  return data.major == nn::DimExpr(1) && index.major == nn::DimExpr(1) &&
         nn::getShape(value)[axis] == index.ownRange;
}

const char *kOrders = "combines items in different orders";
const char *kUndeclared =
    "picks among all items by positions that the recipe's "
    "`inputs` does not declare as an index";

int64_t tupleOf(Value indices) {
  return nn::getShape(indices).back().asConstant().value_or(0);
}

} // namespace

bool picksItems(Operation *op, States operands) {
  if (!isa<nn::GatherOp, nn::GatherNdOp, nn::ScatterNdOp>(op) ||
      !operands[0].is(kPerItem))
    return false;
  int64_t axis = operands[0].axis;
  if (auto gather = dyn_cast<nn::GatherOp>(op))
    return axis == int64_t(gather.getAxis());
  if (auto gather = dyn_cast<nn::GatherNdOp>(op)) {
    int64_t batch = gather.getBatchDims();
    return axis >= batch && axis < batch + tupleOf(gather.getIndices());
  }
  return axis < tupleOf(cast<nn::ScatterNdOp>(op).getIndices());
}

ItemState gather(nn::GatherOp op, States operands) {
  const ItemState &data = operands[0], &index = operands[1];
  int64_t axis = op.getAxis(), width = rankOf(op.getIndices());
  if (data.is(kSum) || index.is(kSum))
    return data.is(kSum) && index.is(kInvariant)
               ? data
               : ItemState::coupled(op, "is not linear in a sum over items");
  if (picksItems(op, operands))
    return index.declaredIndex ||
                   (index.isOwnNumber &&
                    walksOver(index, data, op.getInput(), axis)) ||
                   (index.isRunningCount && data.major == nn::DimExpr(1))
               ? ItemState::perItem(axis + index.axis, index.major)
               : ItemState::coupled(op, kUndeclared);
  if (data.is(kPerItem) && index.is(kPerItem))
    return ItemState::coupled(op, "picks from every item for every other",
                              true);
  if (data.is(kPerItem))
    return ItemState::perItem(
        data.axis < axis ? data.axis : data.axis + width - 1, data.major);
  return index.is(kPerItem) ? ItemState::perItem(axis + index.axis, index.major)
                            : ItemState();
}

ItemState gatherElements(nn::GatherElementsOp op, States operands) {
  if (anyIs(operands, kSum))
    return ItemState::coupled(op, "is not linear in a sum over items");
  for (const ItemState &state : operands)
    if (state.is(kPerItem) && state.axis == int64_t(op.getAxis()))
      return ItemState::coupled(op, kUndeclared);
  return aligned(op, operands);
}

ItemState gatherNd(nn::GatherNdOp op, States operands) {
  const ItemState &data = operands[0], &index = operands[1];
  if (anyIs(operands, kSum))
    return ItemState::coupled(op, "is not linear in a sum over items");
  int64_t batch = op.getBatchDims(), width = rankOf(op.getIndices());
  auto tuple = nn::getShape(op.getIndices()).back().asConstant();
  if (!tuple)
    return ItemState::coupled(op, "has index tuples of unknown size");
  if (!data.is(kPerItem))
    return index.is(kPerItem) ? ItemState::perItem(index.axis, index.major)
                              : ItemState();
  if (data.axis < batch)
    return index.is(kPerItem) && index.axis == data.axis &&
                   index.major == data.major
               ? ItemState::perItem(data.axis, data.major)
               : ItemState::coupled(op, kUndeclared);
  if (data.axis < batch + *tuple) {
    bool own = data.axis == batch &&
               walksOver(index, data, op.getInput(), batch) &&
               (index.leadsWithOwnNumber || (*tuple == 1 && index.isOwnNumber));
    return own || (index.declaredIndex && *tuple == 1)
               ? ItemState::perItem(index.axis, index.major)
               : ItemState::coupled(op, kUndeclared);
  }
  if (index.is(kPerItem))
    return ItemState::coupled(op, "picks from every item for every other",
                              true);
  return ItemState::perItem(width - 1 + data.axis - batch - *tuple, data.major);
}

ItemState scatterNd(nn::ScatterNdOp op, States operands) {
  const ItemState &data = operands[0], &index = operands[1],
                  &updates = operands[2];
  if (anyIs(operands, kSum))
    return ItemState::coupled(op, "is not linear in a sum over items");
  auto tuple = nn::getShape(op.getIndices()).back().asConstant();
  if (!data.is(kPerItem) || !tuple)
    return ItemState::coupled(op, "writes items into what belongs to none");
  if (data.axis < *tuple) {
    bool own = data.axis == 0 && walksOver(index, data, op.getInput(), 0) &&
               (index.leadsWithOwnNumber || (*tuple == 1 && index.isOwnNumber));
    return own || (index.declaredIndex && *tuple == 1)
               ? ItemState::perItem(data.axis, data.major)
               : ItemState::coupled(op, kUndeclared);
  }
  int64_t shift = rankOf(op.getIndices()) - 1 - *tuple;
  if (!index.is(kInvariant) ||
      (updates.is(kPerItem) &&
       (updates.axis != data.axis + shift || updates.major != data.major)))
    return ItemState::coupled(op, kUndeclared);
  return ItemState::perItem(data.axis, data.major);
}

ItemState crossEntropy(nn::CrossEntropyOp op, States operands) {
  for (const ItemState &state : operands)
    if (state.is(kSum))
      return ItemState::coupled(op, "is not linear in a sum over items");
  if (operands[0].is(kPerItem) &&
      operands[0].axis == rankOf(op.getLogits()) - 1)
    return ItemState::coupled(op, "takes items as classes", true);
  if (operands[0].is(kPerItem) && operands[1].is(kPerItem) &&
      operands[0].axis != operands[1].axis)
    return ItemState::coupled(op, "combines every item with every other", true);
  if (operands[0].is(kPerItem) && operands[1].is(kPerItem) &&
      operands[0].major != operands[1].major)
    return ItemState::coupled(op, kOrders);
  ItemState result = operands[0].is(kPerItem) ? operands[0] : operands[1];
  result.declaredIndex = result.isOwnNumber = result.leadsWithOwnNumber = false;
  return result;
}

} // namespace dt::modules
