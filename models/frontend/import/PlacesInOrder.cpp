//===- PlacesInOrder.cpp - Rows that fill places in order -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/PlacesInOrder.h"
#include "dialects/nn/NNNumbers.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
/// Row k - 1 of `source` for the k-th place, 0 for places before the first:
/// `order` counts them.
Value rowsInOrder(NodeImporter &n, Value source, Value order) {
  Type element = getElementTypeOrSelf(order);
  Value at = n.make<nn::SubOp>({order, n.number(1, element)});
  return n.make<nn::GatherOp>(
      {source, at},
      {n.i64("axis", 0), n.unit("zero_out_of_range"), n.unit("in_order")});
}

/// Whether the sum is, up to each place, how often a mask is true.
bool countsTruths(nn::CumsumOp order) {
  Value mask = order.getInput();
  while (!getElementTypeOrSelf(mask).isInteger(1)) {
    Operation *op = mask.getDefiningOp();
    if (!isa_and_nonnull<nn::CastOp, nn::ReshapeOp>(op))
      return false;
    mask = op->getOperand(0);
  }
  return !order.getExclusive() && !order.getReverse();
}
} // namespace

std::optional<Value> models::gatherInOrder(NodeImporter &n, Value count) {
  while (auto view = count.getDefiningOp<nn::ReshapeOp>())
    count = view.getInput();
  auto padded = n.value(0).getDefiningOp<nn::ConcatOp>();
  auto order = count.getDefiningOp<nn::CumsumOp>();
  if (!padded || !order || nn::getRank(count) != 1)
    return std::nullopt;
  if (!countsTruths(order))
    return std::nullopt;
  ValueRange parts = padded.getInputs();
  if (padded.getAxis() != 0 || parts.size() != 2 ||
      nn::getShape(parts[0])[0] != DimExpr(1) || nn::splatOf(parts[0]) != 0.0)
    return std::nullopt;
  return rowsInOrder(n, parts[1], order);
}

LogicalResult models::maskedScatter(NodeImporter &n, Value mask,
                                    Value updates) {
  Value data = n.value(0);
  Shape shape = n.shape(0);
  if (!data || nn::getShape(mask) != shape)
    return n.fail("the mask behind the indices must have the data's shape");
  size_t rows = shape.size();
  Value narrow = mask;
  if (auto repeat = mask.getDefiningOp<nn::BroadcastOp>()) {
    Shape from = nn::getShape(repeat.getInput());
    while (from.size() == shape.size() && rows > 1 &&
           from[rows - 1] == DimExpr(1))
      --rows;
    if (from.size() == shape.size() &&
        llvm::equal(ArrayRef(from).take_front(rows),
                    ArrayRef(shape).take_front(rows)))
      narrow = repeat.getInput();
    else
      rows = shape.size();
  }
  ArrayRef<DimExpr> lead = ArrayRef(shape).take_front(rows);
  DimExpr width = nn::getNumElements(ArrayRef(shape).drop_front(rows));
  DimExpr count = nn::getNumElements(lead);
  std::optional<DimExpr> available =
      nn::getNumElements(nn::getShape(updates)).exactDiv(width);
  if (!available)
    return n.fail("the updates are no whole rows of " + width.str());
  Value flat = n.castTo(n.reshape(narrow, {count}), n.b.getI64Type());
  Value order = n.make<nn::CumsumOp>(flat, n.i64("axis", 0));
  Value source = n.reshape(updates, {*available, width});
  Value taken = rowsInOrder(n, source, order);
  return n.set(0, n.make<nn::WhereOp>({narrow, n.reshape(taken, shape), data}));
}
