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
  Columns columns{concat.getResult(), heads ? 2 : *first, rowOf(whole), 0};
  for (Value before : concat.getInputs().take_front(use->getOperandNumber()))
    columns.offset = columns.offset + rowOf(getShape(before));
  return columns;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// The axis along which the slice takes a part of each row; nothing if it is no
/// such slice.
static std::optional<unsigned> findSlicedAxis(SliceOp slice) {
  Shape in = getShape(slice.getInput()), out = getShape(slice.getResult());
  std::optional<unsigned> axis;
  for (unsigned i = 0; i < in.size(); ++i) {
    if (slice.getSteps()[i] != 1)
      return std::nullopt;
    if (in[i] == out[i])
      continue;
    if (axis)
      return std::nullopt;
    axis = i;
  }
  // Of one row they are a range of elements.
  bool rows = axis && getNumElements(ArrayRef<DimExpr>(in).take_front(*axis)) !=
                          DimExpr(1);
  return rows ? axis : std::nullopt;
}

bool dt::nn::isColumns(SliceOp slice) {
  return findSlicedAxis(slice).has_value();
}

static DimExpr startOf(SliceOp slice, unsigned axis) {
  DimExpr start(slice.getStarts()[axis]);
  bool fromEnd = !slice.getFromEnd().empty() && slice.getFromEnd()[axis];
  return fromEnd ? getShape(slice.getInput())[axis] - start : start;
}

std::optional<Columns> dt::nn::getReadColumns(Value value) {
  Shape own = getShape(value);
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  auto slice = value.getDefiningOp<SliceOp>();
  std::optional<unsigned> axis =
      slice ? findSlicedAxis(slice) : std::optional<unsigned>();
  if (!axis)
    return std::nullopt;
  Shape whole = getShape(slice.getInput());
  ArrayRef<DimExpr> dims(whole);
  DimExpr inner = getNumElements(dims.drop_front(*axis + 1));
  std::optional<unsigned> first =
      findAxis(own, getNumElements(dims.take_front(*axis)));
  if (!first)
    return std::nullopt;
  return Columns{slice.getInput(), *first, whole[*axis] * inner,
                 startOf(slice, *axis) * inner};
}

static bool isNorm(Operation *op) {
  return isa<LayerNormOp, LayerNormDxOp, LayerNormDscaleOp, RmsNormOp,
             RmsNormDxOp, RmsNormDscaleOp>(op);
}

/// Whether the lowering of who uses it reads columns.
static bool canReadColumns(OpOperand &use) {
  Operation *op = use.getOwner();
  std::optional<Columns> columns = getReadColumns(use.get());
  if (!columns)
    return false;
  unsigned number = use.getOperandNumber();
  Shape own = getShape(use.get());
  if (isa<ScalarOpInterface, FusedOp>(op))
    return own == getShape(op->getResult(0));
  if (isa<RotaryOp>(op))
    return number == 0;
  // Strides of tokens and of heads.
  if (isa<AttentionOp, AttentionGradOp>(op))
    return number < 3 && columns->axis == 2;
  if (isNorm(op)) {
    auto axes = op->getAttrOfType<IntegerAttr>("axes");
    int64_t inner = axes ? axes.getInt() : 1;
    return number == 0 && int64_t(own.size()) >= int64_t(columns->axis) + inner;
  }
  return false;
}

/// Whether all uses of the value read columns, or are `other` than that.
static bool areUsesReads(Value value,
                         llvm::function_ref<bool(OpOperand &)> other) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    auto reshape = dyn_cast<ReshapeOp>(use.getOwner());
    return reshape ? areUsesReads(reshape.getResult(), other)
                   : canReadColumns(use) || other(use);
  });
}

bool dt::nn::isReadInPlace(SliceOp slice,
                           llvm::function_ref<bool(OpOperand &)> other) {
  return isColumns(slice) && areUsesReads(slice.getResult(), other);
}
