//===- Views.cpp - Reshape, broadcast and transpose -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Movement is linear: the gradient moves back the same way, adding where one
// element went to several places.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNRuleBuilder.h"

using namespace mlir;
using namespace dt::nn;

LogicalResult ReshapeOp::verify() {
  DimExpr in = getNumElements(getShape(getInput()));
  DimExpr out = getNumElements(getShape(getResult()));
  if (in != out)
    return emitOpError() << "has " << in.str()
                         << " elements but its result has " << out.str();
  return verifySameElement(*this, getInput(), getResult());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor op) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto elements = dyn_cast_or_null<DenseElementsAttr>(op.getInput()))
    if (getType().hasStaticShape())
      return elements.reshape(cast<ShapedType>(getType()));
  return {};
}

LogicalResult ReshapeOp::canonicalize(ReshapeOp op, PatternRewriter &rewriter) {
  if (auto inner = op.getInput().getDefiningOp<ReshapeOp>()) {
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), inner.getInput());
    return success();
  }
  return failure();
}

LogicalResult ReshapeOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                  Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.reshape(grads[0], getShape(getInput()));
  return success();
}

/// Splits both sides of a group into the same factors, from the minor end.
/// False where sizes do not divide (2 * 3 against 3 * 2).
static bool alignGroup(RuleBuilder &b, ArrayRef<DimExpr> from,
                       ArrayRef<DimExpr> to, SmallVector<Letters> &fromLists,
                       SmallVector<Letters> &toLists) {
  fromLists.assign(from.size(), {});
  toLists.assign(to.size(), {});
  size_t i = from.size(), j = to.size();
  DimExpr x = 1, y = 1; // what is left of dims i and j
  while (true) {
    while (x == DimExpr(1) && i > 0)
      x = from[--i];
    while (y == DimExpr(1) && j > 0)
      y = to[--j];
    if (x == DimExpr(1) || y == DimExpr(1))
      return x == y;
    DimExpr atom = 1;
    if (auto q = x.exactDiv(y)) {
      atom = y;
      x = *q;
      y = 1;
    } else if (auto r = y.exactDiv(x)) {
      atom = x;
      y = *r;
      x = 1;
    } else {
      return false;
    }
    unsigned f = b.factor(atom);
    fromLists[i].insert(fromLists[i].begin(), f);
    toLists[j].insert(toLists[j].begin(), f);
  }
}

ShardingRule ReshapeOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape from = getShape(getInput()), to = getShape(getResult());
  b.linear({0});
  SmallVector<ReassociationGroup> groups{
      {llvm::to_vector<2>(llvm::seq<int64_t>(0, from.size())),
       llvm::to_vector<2>(llvm::seq<int64_t>(0, to.size()))}};
  if (auto fine = getReassociation(from, to))
    groups = *fine;
  for (auto &[in, out] : groups) {
    SmallVector<DimExpr> inDims, outDims;
    for (int64_t d : in)
      inDims.push_back(from[d]);
    for (int64_t d : out)
      outDims.push_back(to[d]);
    SmallVector<Letters> inLists, outLists;
    size_t before = b.rule.factors.size();
    if (!alignGroup(b, inDims, outDims, inLists, outLists)) {
      // Opaque: nothing of this group can be cut.
      b.rule.factors.resize(before);
      for (auto [i, d] : llvm::enumerate(inDims))
        inLists[i] = {b.factor(d, FactorKind::replicate)};
      for (auto [i, d] : llvm::enumerate(outDims))
        outLists[i] = {b.factor(d, FactorKind::replicate)};
    }
    for (auto [i, d] : llvm::enumerate(in))
      b.operandDim(0, d, inLists[i]);
    for (auto [i, d] : llvm::enumerate(out))
      b.resultDim(0, d, outLists[i]);
  }
  return b.finish();
}

static DimExpr outerSize(Value value, int64_t axis) {
  return getNumElements(ArrayRef(getShape(value)).take_front(axis));
}

/// Row-major order is kept, hence what stands outside the item stays outside.
ItemState ReshapeOp::inferItems(ItemStates operands,
                                const ItemContext &context) {
  ItemState state = operands[0];
  if (!state.is(ItemState::PerItem))
    return state;
  SmallVector<int64_t> axes = context.getItemAxes(getType());
  if (axes.size() != 1)
    return ItemState::coupled(*this, "spreads the items over axes");
  DimExpr outer = outerSize(getInput(), state.axis) * state.major;
  auto major = outer.exactDiv(outerSize(getResult(), axes[0]));
  if (!major)
    return ItemState::coupled(*this, "changes the order of items");
  state.axis = axes[0];
  state.major = *major;
  Shape from = getShape(getInput()), to = getShape(getResult());
  state.leadsWithOwnNumber &=
      !from.empty() && !to.empty() && from.back() == to.back();
  return state;
}

LogicalResult BroadcastOp::verify() {
  Shape in = getShape(getInput()), out = getShape(getResult());
  std::optional<Shape> together = broadcastShapes({in, out});
  if (!together || *together != out)
    return emitOpError() << shapeToString(in) << " does not broadcast to "
                         << shapeToString(out);
  return verifySameElement(*this, getInput(), getResult());
}

OpFoldResult BroadcastOp::fold(FoldAdaptor op) {
  if (getInput().getType() == getType())
    return getInput();
  auto elements = dyn_cast_or_null<DenseElementsAttr>(op.getInput());
  if (elements && elements.isSplat() && getType().hasStaticShape())
    return elements.resizeSplat(cast<ShapedType>(getType()));
  return {};
}

LogicalResult BroadcastOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.sumTo(grads[0], getInput().getType());
  return success();
}

ShardingRule BroadcastOp::getShardingRule() {
  RuleBuilder b(*this);
  Letters list = b.letters(getShape(getResult()));
  b.operand(0, list);
  b.result(0, list);
  b.linear({0});
  return b.finish();
}

ItemState BroadcastOp::inferItems(ItemStates operands,
                                  const ItemContext &context) {
  const ItemState &state = operands[0];
  SmallVector<int64_t> axes = context.getItemAxes(getType());
  if (state.is(ItemState::Sum))
    return axes.empty()
               ? state
               : ItemState::coupled(*this, "gives every item a sum over items");
  if (axes.size() > 1)
    return ItemState::coupled(*this, "repeats every item for every other",
                              true);
  if (state.is(ItemState::PerItem))
    return state.onAxis(axes[0]);
  return axes.empty() ? ItemState() : ItemState::perItem(axes[0]);
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                            Adaptor op, Types &out) {
  Shape in = getShape(op.getInput()), shape;
  SmallVector<bool> seen(in.size());
  for (int64_t axis : op.getPermutation()) {
    if (axis < 0 || axis >= static_cast<int64_t>(in.size()) || seen[axis])
      return fail(loc,
                  "permutation is not one of " + Twine(in.size()) + " axes");
    seen[axis] = true;
    shape.push_back(in[axis]);
  }
  if (shape.size() != in.size())
    return fail(loc, "permutation is not one of " + Twine(in.size()) + " axes");
  out.push_back(makeTensorType(shape, elementOf(op.getInput())));
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (llvm::is_sorted(getPermutation()))
    return getInput();
  return {};
}

/// Two transposes are one; a transpose that moves only dims of size 1 is a
/// reshape.
LogicalResult TransposeOp::canonicalize(TransposeOp op,
                                        PatternRewriter &rewriter) {
  if (auto inner = op.getInput().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> permutation;
    for (int64_t axis : op.getPermutation())
      permutation.push_back(inner.getPermutation()[axis]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, inner.getInput(), permutation);
    return success();
  }
  Shape in = getShape(op.getInput());
  SmallVector<int64_t> moved;
  for (int64_t axis : op.getPermutation())
    if (in[axis] != DimExpr(1))
      moved.push_back(axis);
  if (!llvm::is_sorted(moved) || llvm::is_sorted(op.getPermutation()))
    return failure();
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getInput());
  return success();
}

LogicalResult TransposeOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (!wanted[0])
    return success();
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, axis] : llvm::enumerate(getPermutation()))
    inverse[axis] = i;
  result[0] = g.transpose(grads[0], inverse);
  return success();
}

ShardingRule TransposeOp::getShardingRule() {
  RuleBuilder b(*this);
  Letters list = b.letters(getShape(getInput())), moved;
  for (int64_t axis : getPermutation())
    moved.push_back(list[axis]);
  b.operand(0, list);
  b.result(0, moved);
  b.linear({0});
  return b.finish();
}

ItemState TransposeOp::inferItems(ItemStates operands, const ItemContext &) {
  ItemState state = operands[0];
  if (!state.is(ItemState::PerItem))
    return state;
  state.axis =
      llvm::find(getPermutation(), state.axis) - getPermutation().begin();
  state.leadsWithOwnNumber = false;
  return state;
}
