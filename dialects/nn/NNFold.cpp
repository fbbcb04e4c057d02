//===- NNFold.cpp - Folders and canonical forms of nn ops -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Only what never changes a value in floating point: identities of movement,
// x + 0, x * 1, and splat arithmetic of constants.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNOps.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace dt::nn;

namespace {
/// The value of a splat constant as a double, if `attr` is one.
std::optional<double> splatOf(Attribute attr) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(attr);
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  if (elements.getElementType().isIntOrIndex())
    return static_cast<double>(elements.getSplatValue<APInt>().getSExtValue());
  return std::nullopt;
}

/// `lhs` when `rhs` is a splat of `neutral` and does not widen the result.
template <typename Op>
Value dropNeutral(Op op, Value kept, Attribute other, double neutral) {
  std::optional<double> splat = splatOf(other);
  if (splat && *splat == neutral && kept.getType() == op.getType())
    return kept;
  return {};
}

/// f(a, b) of two float splats as a splat of the result's type.
template <typename Op>
OpFoldResult foldSplats(Op op, Attribute a, Attribute b,
                        function_ref<APFloat(APFloat, APFloat)> f) {
  auto x = dyn_cast_or_null<DenseFPElementsAttr>(a),
       y = dyn_cast_or_null<DenseFPElementsAttr>(b);
  auto type = cast<RankedTensorType>(op.getType());
  if (!x || !y || !x.isSplat() || !y.isSplat() || !type.hasStaticShape())
    return {};
  return DenseElementsAttr::get(type, f(x.template getSplatValue<APFloat>(),
                                        y.template getSplatValue<APFloat>()));
}
} // namespace

OpFoldResult NegOp::fold(FoldAdaptor) {
  if (auto inner = getInput().getDefiningOp<NegOp>())
    return inner.getInput();
  return {};
}

OpFoldResult AddOp::fold(FoldAdaptor op) {
  if (Value v = dropNeutral(*this, getLhs(), op.getRhs(), 0))
    return v;
  if (Value v = dropNeutral(*this, getRhs(), op.getLhs(), 0))
    return v;
  return foldSplats(*this, op.getLhs(), op.getRhs(),
                    [](APFloat a, APFloat b) { return a + b; });
}

OpFoldResult SubOp::fold(FoldAdaptor op) {
  if (Value v = dropNeutral(*this, getLhs(), op.getRhs(), 0))
    return v;
  return foldSplats(*this, op.getLhs(), op.getRhs(),
                    [](APFloat a, APFloat b) { return a - b; });
}

OpFoldResult MulOp::fold(FoldAdaptor op) {
  if (Value v = dropNeutral(*this, getLhs(), op.getRhs(), 1))
    return v;
  if (Value v = dropNeutral(*this, getRhs(), op.getLhs(), 1))
    return v;
  return foldSplats(*this, op.getLhs(), op.getRhs(),
                    [](APFloat a, APFloat b) { return a * b; });
}

OpFoldResult DivOp::fold(FoldAdaptor op) {
  if (Value v = dropNeutral(*this, getLhs(), op.getRhs(), 1))
    return v;
  return foldSplats(*this, op.getLhs(), op.getRhs(),
                    [](APFloat a, APFloat b) { return a / b; });
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  if (getAxes().empty())
    return getInput();
  return {};
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

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

OpFoldResult BroadcastOp::fold(FoldAdaptor op) {
  if (getInput().getType() == getType())
    return getInput();
  auto elements = dyn_cast_or_null<DenseElementsAttr>(op.getInput());
  if (elements && elements.isSplat() && getType().hasStaticShape())
    return elements.resizeSplat(cast<ShapedType>(getType()));
  return {};
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

OpFoldResult SliceOp::fold(FoldAdaptor) {
  bool whole = getInput().getType() == getType() &&
               llvm::all_of(getSteps(), [](int64_t s) { return s == 1; });
  return whole ? OpFoldResult(getInput()) : OpFoldResult();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1)
    return getInputs()[0];
  return {};
}
