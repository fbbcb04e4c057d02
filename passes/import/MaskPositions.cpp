//===- MaskPositions.cpp - Positions that restart in packed rows *- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/MaskPositions.h"
#include "passes/import/Match.h"

using namespace mlir;
using namespace dt;
using namespace dt::import;

/// The bool whose elements are counted: true where positions do not go on.
static Value matchCounted(Value numbers, bool &holds) {
  auto sum = numbers.getDefiningOp<nn::CumsumOp>();
  if (!sum || nn::getRank(numbers) != 2 || sum.getAxis() != 1 ||
      sum.getExclusive() || sum.getReverse())
    return {};
  auto cast = sum.getInput().getDefiningOp<nn::CastOp>();
  if (!cast || !getElementTypeOrSelf(cast.getInput()).isInteger(1))
    return {};
  Value counted = cast.getInput();
  holds = true;
  while (auto negation = counted.getDefiningOp<nn::NotOp>()) {
    counted = negation.getInput();
    holds = !holds;
  }
  return counted;
}

/// Columns `from` and on of [b, t + 1], as many as t.
static Value matchColumns(Value v, int64_t from) {
  auto slice = v.getDefiningOp<nn::SliceOp>();
  if (!slice || slice.getStarts() != ArrayRef<int64_t>{0, from} ||
      slice.getSteps() != ArrayRef<int64_t>{1, 1} ||
      llvm::is_contained(slice.getFromEnd(), true))
    return {};
  return slice.getInput();
}

Value import::matchRestarts(Value numbers) {
  bool holds;
  Value counted = matchCounted(numbers, holds);
  auto cmp = counted ? counted.getDefiningOp<nn::CmpOp>() : nullptr;
  if (!cmp || cmp.getPredicate() != (holds ? nn::Compare::ne : nn::Compare::eq))
    return {};
  auto step = cmp.getLhs().getDefiningOp<nn::SubOp>();
  if (!step || !isa<IntegerType>(getElementTypeOrSelf(step.getResult())) ||
      getSplat(cmp.getRhs()) != 1.0)
    return {};
  Value all = matchColumns(step.getLhs(), 1),
        same = matchColumns(step.getRhs(), 0);
  auto concat =
      all && all == same ? all.getDefiningOp<nn::ConcatOp>() : nn::ConcatOp();
  if (!concat || concat.getAxis() != 1 || concat.getInputs().size() != 2)
    return {};
  Value positions = concat.getInputs()[1];
  return positions.getType() == step.getType() ? positions : Value();
}

namespace {
/// A position of a query, of a key, or none, and a number.
struct Sum {
  int64_t ofQuery = 0, ofKey = 0, rest = 0;
};

std::optional<Sum> readSum(const ScoreView &wrapped, Value positions) {
  ScoreView view = wrapped.stripped();
  if (view.value == positions) {
    int axis = view.axes.back();
    if (axis != kQuery && axis != kKey)
      return std::nullopt;
    return axis == kQuery ? Sum{1, 0, 0} : Sum{0, 1, 0};
  }
  if (std::optional<double> number = getSplat(view.value))
    return Sum{0, 0, int64_t(*number)};
  Operation *op = view.value.getDefiningOp();
  if (!op || !isa<nn::AddOp, nn::SubOp>(op))
    return std::nullopt;
  std::optional<Sum> a = readSum(view.operand(op->getOperand(0)), positions),
                     b = readSum(view.operand(op->getOperand(1)), positions);
  if (!a || !b)
    return std::nullopt;
  int64_t sign = isa<nn::AddOp>(op) ? 1 : -1;
  return Sum{a->ofQuery + sign * b->ofQuery, a->ofKey + sign * b->ofKey,
             a->rest + sign * b->rest};
}
} // namespace

std::optional<IndexBound> import::readPositions(const MaskCondition &condition,
                                                Value positions) {
  auto cmp = condition.view.value.getDefiningOp<nn::CmpOp>();
  if (!cmp || !isa<IntegerType>(getElementTypeOrSelf(cmp.getLhs())))
    return std::nullopt;
  nn::Compare how = cmp.getPredicate();
  if (how == nn::Compare::eq || how == nn::Compare::ne)
    return std::nullopt;
  bool strict = how == nn::Compare::lt || how == nn::Compare::gt,
       flipped = how == nn::Compare::ge || how == nn::Compare::gt;
  if (!condition.holds) // a > b is b < a
    strict = !strict, flipped = !flipped;
  std::optional<Sum> a = readSum(condition.view.operand(cmp.getLhs()),
                                 positions),
                     b = readSum(condition.view.operand(cmp.getRhs()),
                                 positions);
  if (!a || !b)
    return std::nullopt;
  if (flipped)
    std::swap(a, b);
  // ofKey * j + ofQuery * i + rest <= 0
  int64_t ofKey = a->ofKey - b->ofKey, ofQuery = a->ofQuery - b->ofQuery,
          rest = a->rest - b->rest + strict;
  if (ofKey == 1 && ofQuery == -1)
    return IndexBound{std::nullopt, nn::DimExpr(-rest)};
  if (ofKey == -1 && ofQuery == 1)
    return IndexBound{nn::DimExpr(rest), std::nullopt};
  return std::nullopt;
}
