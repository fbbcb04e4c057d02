//===- SharedHeads.cpp - Heads that several query heads read ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Exporters repeat heads by a broadcast along an axis of its own, which is then
// merged with the heads' axis, and transpose before, behind and in between. So
// each axis of the operand is followed back to the axes of the broadcast that
// it is made of.
//
//===----------------------------------------------------------------------===//

#include "passes/import/SharedHeads.h"

#include "dialects/nn/NNOps.h"

using namespace mlir;
using namespace dt;

namespace {

using Axes = SmallVector<int64_t>;

/// The axes of `op`'s input that each axis of its result is made of, of a
/// reshape that only merges.
std::optional<SmallVector<Axes>> getMergedAxes(nn::ReshapeOp op) {
  nn::Shape from = nn::getShape(op.getInput()),
            to = nn::getShape(op.getResult());
  auto groups = nn::getReassociation(from, to);
  if (!groups)
    return std::nullopt;
  SmallVector<Axes> parts(to.size());
  for (auto &[froms, tos] : *groups) {
    if (tos.size() != 1)
      return std::nullopt;
    parts[tos[0]].append(froms.begin(), froms.end());
  }
  return parts;
}

/// A repetition, and which of its axes each axis of a value is made of.
struct Repetition {
  nn::BroadcastOp op;
  SmallVector<Axes> axes;

  /// The value's axis as it was before.
  nn::DimExpr getDim(size_t axis) {
    nn::DimExpr dim(1);
    for (int64_t part : axes[axis])
      dim = dim * nn::getShape(op.getInput())[part];
    return dim;
  }
};

constexpr size_t kHeads = 2; ///< of [batch, tokens, heads, size]

std::optional<Repetition> findRepetition(Value v) {
  Repetition found;
  for (int64_t i = 0; i < nn::getRank(v); ++i)
    found.axes.push_back({i});
  while (!(found.op = v.getDefiningOp<nn::BroadcastOp>())) {
    SmallVector<Axes> parts;
    if (auto transpose = v.getDefiningOp<nn::TransposeOp>()) {
      for (int64_t axis : transpose.getPermutation())
        parts.push_back({axis});
      v = transpose.getInput();
    } else if (auto reshape = v.getDefiningOp<nn::ReshapeOp>()) {
      auto merged = getMergedAxes(reshape);
      if (!merged)
        return std::nullopt;
      parts = std::move(*merged);
      v = reshape.getInput();
    } else {
      return std::nullopt;
    }
    for (Axes &axes : found.axes) {
      Axes before;
      for (int64_t axis : axes)
        llvm::append_range(before, parts[axis]);
      axes = std::move(before);
    }
  }
  return found;
}

/// [batch, tokens, heads, size] whose heads are each repeated one after
/// another: the repetition.
std::optional<Repetition> matchRepeatedHeads(Value v) {
  std::optional<Repetition> found = findRepetition(v);
  if (!found)
    return std::nullopt;
  nn::Shape narrow = nn::getShape(found->op.getInput()),
            wide = nn::getShape(found->op.getResult());
  if (narrow.size() != wide.size())
    return std::nullopt;
  bool any = false;
  for (auto [i, axes] : llvm::enumerate(found->axes)) {
    int64_t last = -1; // of those that are not 1
    for (int64_t axis : axes)
      last = wide[axis] != nn::DimExpr(1) ? axis : last;
    for (int64_t axis : axes)
      if (narrow[axis] != wide[axis]) {
        if (i != kHeads || axis != last)
          return std::nullopt;
        any = true;
      }
  }
  return any ? found : std::nullopt;
}

/// The value with its heads as they were before their repetition.
Value unrepeated(Repetition &repetition, PatternRewriter &rewriter) {
  nn::BroadcastOp op = repetition.op;
  Location loc = op.getLoc();
  nn::Shape narrow = nn::getShape(op.getInput()),
            wide = nn::getShape(op.getResult()), kept, result;
  auto reshape = [&](Value x, const nn::Shape &shape) -> Value {
    auto type = nn::makeTensorType(shape, op.getType().getElementType());
    return nn::ReshapeOp::create(rewriter, loc, type, x);
  };
  // First of all the axis of the repetition goes, which has one element.
  SmallVector<int64_t> place(narrow.size(), -1), permutation;
  for (size_t i = 0; i < narrow.size(); ++i)
    if (narrow[i] == wide[i]) {
      place[i] = kept.size();
      kept.push_back(narrow[i]);
    }
  for (auto [i, axes] : llvm::enumerate(repetition.axes)) {
    result.push_back(repetition.getDim(i));
    for (int64_t axis : axes)
      if (place[axis] >= 0)
        permutation.push_back(place[axis]);
  }
  Value x = reshape(op.getInput(), kept);
  x = nn::TransposeOp::create(rewriter, loc, x, permutation);
  return reshape(x, result);
}

LogicalResult shareHeads(nn::AttentionOp op, PatternRewriter &rewriter) {
  auto k = matchRepeatedHeads(op.getKey()),
       v = matchRepeatedHeads(op.getValue());
  if (!k || !v || k->getDim(kHeads) != v->getDim(kHeads))
    return failure();
  Value key = unrepeated(*k, rewriter), value = unrepeated(*v, rewriter);
  rewriter.modifyOpInPlace(op, [&] {
    op.getKeyMutable().assign(key);
    op.getValueMutable().assign(value);
  });
  return success();
}

/// The axes of x that each axis of reshape(x) carries in transpose(reshape(x)).
/// Axes of one element carry none; axes that were one carry it together, the
/// first of them, where the permutation leaves them side by side in order.
std::optional<SmallVector<Axes>> getCarriedAxes(nn::ReshapeOp op,
                                                ArrayRef<int64_t> permutation) {
  nn::Shape from = nn::getShape(op.getInput()),
            to = nn::getShape(op.getResult());
  auto groups = nn::getReassociation(from, to);
  if (!groups)
    return std::nullopt;
  SmallVector<Axes> parts(to.size());
  for (auto &[froms, tos] : *groups) {
    Axes wide;
    for (int64_t axis : tos)
      if (to[axis] != nn::DimExpr(1) || tos.size() == 1)
        wide.push_back(axis);
    if (wide.empty() || (wide.size() > 1 && froms.size() != 1))
      return std::nullopt;
    const int64_t *at = llvm::find(permutation, wide[0]);
    for (size_t i = 1; i < wide.size(); ++i)
      if (++at == permutation.end() || *at != wide[i])
        return std::nullopt;
    parts[wide[0]].append(froms.begin(), froms.end());
  }
  return parts;
}

/// reshape(transpose(reshape(x))) of which both reshapes merge and split what
/// the other splits and merges: one transpose, then at most a reshape that
/// merges (exporters write K^T like this, and heads in groups).
LogicalResult transposeInReshapes(nn::ReshapeOp outer,
                                  PatternRewriter &rewriter) {
  auto transpose = outer.getInput().getDefiningOp<nn::TransposeOp>();
  auto inner = transpose ? transpose.getInput().getDefiningOp<nn::ReshapeOp>()
                         : nn::ReshapeOp();
  if (!inner)
    return failure();
  auto parts = getCarriedAxes(inner, transpose.getPermutation());
  if (!parts)
    return failure();
  nn::Shape x = nn::getShape(inner.getInput()), moved;
  SmallVector<int64_t> permutation;
  for (int64_t axis : transpose.getPermutation())
    for (int64_t part : (*parts)[axis]) {
      permutation.push_back(part);
      moved.push_back(x[part]);
    }
  auto groups = nn::getReassociation(moved, nn::getShape(outer.getResult()));
  if (!groups || llvm::any_of(*groups, [](const nn::ReassociationGroup &group) {
        return group.second.size() != 1;
      }))
    return failure();
  Value result = nn::TransposeOp::create(rewriter, outer.getLoc(),
                                         inner.getInput(), permutation);
  if (moved != nn::getShape(outer.getResult()))
    result = nn::ReshapeOp::create(rewriter, outer.getLoc(), outer.getType(),
                                   result);
  rewriter.replaceOp(outer, result);
  return success();
}

} // namespace

void dt::import::populateSharedHeadsPatterns(RewritePatternSet &patterns) {
  patterns.add(transposeInReshapes).add(shareHeads);
}
