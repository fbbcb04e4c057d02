//===- RaiseLosses.cpp - Recover cross-entropy ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Match.h"
#include "passes/import/Passes.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace dt::import {
#define GEN_PASS_DEF_RAISELOSSES
#include "passes/import/Passes.h.inc"
} // namespace dt::import

namespace {

/// A bool, without the negations around it.
struct Condition {
  Value value;
  bool holds = true; ///< false: it is the opposite
};
Condition readCondition(Value v) {
  Condition c{nn::throughReshapes(v)};
  while (auto negation = c.value.getDefiningOp<nn::NotOp>())
    c = {nn::throughReshapes(negation.getInput()), !c.holds};
  return c;
}

/// The ignored label when the condition holds exactly where labels != ignore.
std::optional<int64_t> matchValid(Condition c, Value labels) {
  auto cmp = c.value.getDefiningOp<nn::CmpOp>();
  if (!cmp ||
      cmp.getPredicate() != (c.holds ? nn::Compare::ne : nn::Compare::eq) ||
      nn::throughReshapes(cmp.getLhs()) != labels)
    return std::nullopt;
  std::optional<double> number = getSplat(cmp.getRhs());
  if (!number || *number != std::trunc(*number) ||
      std::abs(*number) > (int64_t(1) << 31))
    return std::nullopt;
  return static_cast<int64_t>(*number);
}

/// Two conditions on `labels` that hold for the same elements.
bool isSame(Condition a, Condition b, Value labels) {
  if (a.value == b.value)
    return a.holds == b.holds;
  std::optional<int64_t> x = matchValid(a, labels), y = matchValid(b, labels);
  return x && y && *x == *y;
}

nn::DimExpr countOf(Value v) { return nn::getNumElements(nn::getShape(v)); }

/// Labels with `ignored` where the condition does not hold; null if the index
/// may be none there.
Value labelsOf(Value index, Condition condition, const nn::Shape &rows,
               int64_t &ignored, Location loc, PatternRewriter &rewriter) {
  index = nn::throughReshapes(index);
  Value labels;
  if (auto clamp = matchWithSplat<nn::MaxOp>(index);
      clamp && clamp->second == 0 && countOf(clamp->first) == countOf(index)) {
    labels = index; // of the others no class is looked at
  } else if (auto where = index.getDefiningOp<nn::WhereOp>()) {
    Condition own = readCondition(where.getCondition());
    for (bool first : {true, false}) {
      Value kept = nn::throughReshapes(first ? where.getLhs() : where.getRhs());
      Condition needed{own.value, own.holds == first};
      if (countOf(kept) != countOf(index) ||
          countOf(own.value) != countOf(index) ||
          !isSame(needed, condition, kept))
        continue;
      labels = kept;
      if (auto ignore = matchValid(condition, kept);
          ignore && nn::getShape(kept) == rows) {
        ignored = *ignore; // the labels say it themselves
        return kept;
      }
    }
  }
  if (!labels)
    return {};
  auto shaped = [&](Value v) -> Value {
    Type type = nn::makeTensorType(rows, getElementTypeOrSelf(v));
    return v.getType() == type
               ? v
               : Value(nn::ReshapeOp::create(rewriter, loc, type, v));
  };
  Type element = getElementTypeOrSelf(labels);
  auto number = DenseElementsAttr::get(
      RankedTensorType::get({}, element),
      Attribute(rewriter.getIntegerAttr(element, ignored)));
  Value none = nn::ConstantOp::create(rewriter, loc, number.getType(), number);
  Value test = shaped(condition.value), own = shaped(labels);
  return condition.holds ? nn::WhereOp::create(rewriter, loc, test, own, none)
                         : nn::WhereOp::create(rewriter, loc, test, none, own);
}

/// gather_elements(log_softmax(x), index) * (condition ? 1 : 0) ->
/// -cross_entropy(x, condition ? index : ignored). The index must be a label
/// where the condition holds: where(condition, labels, any) or max(labels, 0).
/// With another condition in the index the graph looks at other classes.
LogicalResult raiseCrossEntropy(nn::MulOp mul, PatternRewriter &rewriter) {
  auto pair = matchEither<nn::MulOp>(mul, [](Value v) {
    return nn::throughReshapes(v).getDefiningOp<nn::GatherElementsOp>() !=
           nullptr;
  });
  if (!pair)
    return failure();
  auto gather =
      nn::throughReshapes(pair->first).getDefiningOp<nn::GatherElementsOp>();
  auto logs = gather.getInput().getDefiningOp<nn::LogSoftmaxOp>();
  int64_t last = gather.getInput().getType().getRank() - 1;
  if (!logs || static_cast<int64_t>(gather.getAxis()) != last ||
      static_cast<int64_t>(logs.getAxis()) != last)
    return failure();
  auto cast = nn::throughReshapes(pair->second).getDefiningOp<nn::CastOp>();
  if (!cast || !cast.getInput().getType().getElementType().isInteger(1))
    return failure();
  Condition condition = readCondition(cast.getInput());
  nn::Shape rows = nn::getShape(logs.getInput());
  rows.pop_back();
  // Row-major order is kept by reshapes, so equal counts mean equal elements.
  nn::DimExpr count(1);
  for (const nn::DimExpr &row : rows)
    count = count * row;
  if (countOf(gather.getIndices()) != count || countOf(mul) != count ||
      countOf(pair->second) != count || countOf(condition.value) != count)
    return failure();
  int64_t ignored = -100;
  Value labels = labelsOf(gather.getIndices(), condition, rows, ignored,
                          mul.getLoc(), rewriter);
  if (!labels)
    return failure();
  Value loss =
      nn::CrossEntropyOp::create(rewriter, mul.getLoc(), logs.getInput(),
                                 labels, /*classes=*/Value(), ignored);
  Value negative = nn::NegOp::create(rewriter, mul.getLoc(), loss);
  rewriter.replaceOpWithNewOp<nn::ReshapeOp>(mul, mul.getType(), negative);
  return success();
}

struct RaiseLossesPass : import::impl::RaiseLossesBase<RaiseLossesPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add(raiseCrossEntropy);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
