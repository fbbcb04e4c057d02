//===- NNColumns.cpp - Results that are columns of wider rows ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNColumns.h"

using namespace mlir;
using namespace dt::nn;

Value dt::nn::getMade(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    if (!reshape.getInput().hasOneUse())
      break;
    value = reshape.getInput();
  }
  return value;
}

bool dt::nn::canWriteColumns(OpResult result) {
  return isa<ScalarOpInterface, FusedOp, RotaryOp, AttentionGradOp>(
      result.getOwner());
}

/// The first dim from which on the shape is a part of a row, where `rows` rows
/// stand before it.
static std::optional<unsigned> findAxis(const Shape &shape,
                                        const DimExpr &rows) {
  DimExpr count(1);
  for (unsigned axis = 0; axis <= shape.size(); ++axis) {
    if (count == rows)
      return axis;
    if (axis < shape.size())
      count = count * shape[axis];
  }
  return std::nullopt;
}

std::optional<Columns> dt::nn::getColumns(OpResult result) {
  if (!result.hasOneUse() || !canWriteColumns(result))
    return std::nullopt;
  Value part = result;
  OpOperand *use = &*part.use_begin();
  while (auto reshape = dyn_cast<ReshapeOp>(use->getOwner())) {
    part = reshape.getResult();
    if (!part.hasOneUse())
      return std::nullopt;
    use = &*part.use_begin();
  }
  auto concat = dyn_cast<ConcatOp>(use->getOwner());
  if (!concat || concat->getBlock() != result.getOwner()->getBlock() ||
      getElementTypeOrSelf(concat.getResult()) != getElementTypeOrSelf(result))
    return std::nullopt;
  Shape whole = getShape(concat.getResult()), own = getShape(result);
  int64_t axis = concat.getAxis();
  if (axis < 0)
    axis += whole.size();
  auto rowOf = [&](const Shape &shape) {
    return getNumElements(ArrayRef<DimExpr>(shape).drop_front(axis));
  };
  DimExpr rows = getNumElements(ArrayRef<DimExpr>(whole).take_front(axis));
  std::optional<unsigned> first = findAxis(own, rows);
  // Attention knows rows of all heads only.
  bool heads = isa<AttentionGradOp>(result.getOwner());
  if (!first ||
      (heads && getNumElements(ArrayRef<DimExpr>(own).take_front(2)) != rows))
    return std::nullopt;
  Columns columns{concat, heads ? 2 : *first, rowOf(whole), 0};
  for (Value before : concat.getInputs().take_front(use->getOperandNumber()))
    columns.offset = columns.offset + rowOf(getShape(before));
  return columns;
}
