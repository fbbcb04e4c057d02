//===- MaskConditions.cpp - Conditions that a mask is made of ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/MaskConditions.h"
#include "passes/import/MaskTables.h"
#include "passes/import/Match.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <map>

using namespace mlir;
using namespace dt;
using namespace dt::import;

//===----------------------------------------------------------------------===//
// ScoreView
//===----------------------------------------------------------------------===//

static bool isOne(const nn::DimExpr &dim) { return dim == nn::DimExpr(1); }

ScoreView ScoreView::of(Value value) {
  ScoreView view{value, {}};
  nn::Shape shape = nn::getShape(value);
  for (size_t i = 0; i < shape.size(); ++i)
    view.axes.push_back(isOne(shape[i]) ? int(kNoAxis)
                                        : int(i) + 4 - int(shape.size()));
  return view;
}

nn::DimExpr ScoreView::sizeOf(int axis) const {
  nn::Shape shape = nn::getShape(value);
  for (auto [dim, own] : llvm::zip(shape, axes))
    if (own == axis)
      return dim;
  return 1;
}

ScoreView ScoreView::operand(Value operand) const {
  ScoreView view{operand, {}};
  nn::Shape shape = nn::getShape(operand);
  size_t first = axes.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    view.axes.push_back(isOne(shape[i]) ? int(kNoAxis) : axes[first + i]);
  return view;
}

/// The axes of reshape's input: its dims of more than one element are those of
/// the result, in order.
static std::optional<SmallVector<int>> getAxesBefore(nn::ReshapeOp reshape,
                                                     ArrayRef<int> axes) {
  nn::Shape in = nn::getShape(reshape.getInput()),
            out = nn::getShape(reshape.getResult());
  SmallVector<int> result(in.size(), kNoAxis);
  size_t at = 0;
  auto skip = [&] {
    while (at < out.size() && isOne(out[at]))
      ++at;
  };
  for (size_t i = 0; i < in.size(); ++i) {
    if (isOne(in[i]))
      continue;
    skip();
    if (at == out.size() || in[i] != out[at])
      return std::nullopt;
    result[i] = axes[at++];
  }
  skip();
  return at == out.size() ? std::optional(result) : std::nullopt;
}

ScoreView ScoreView::stripped() const {
  ScoreView view = *this;
  while (Operation *op = view.value.getDefiningOp()) {
    if (auto broadcast = dyn_cast<nn::BroadcastOp>(op)) {
      view = view.operand(broadcast.getInput());
      continue;
    }
    auto reshape = dyn_cast<nn::ReshapeOp>(op);
    auto axes = reshape ? getAxesBefore(reshape, view.axes) : std::nullopt;
    if (!axes)
      break;
    view = {reshape.getInput(), *axes};
  }
  return view;
}

//===----------------------------------------------------------------------===//
// Generated conditions
//===----------------------------------------------------------------------===//

namespace {
/// sum of coefficient * axis, plus a size expression.
struct Linear {
  std::map<int, int64_t> coefficients;
  nn::DimExpr rest;
};

std::optional<Linear> combine(std::optional<Linear> a, std::optional<Linear> b,
                              int64_t sign) {
  if (!a || !b)
    return std::nullopt;
  for (auto [i, c] : b->coefficients)
    a->coefficients[i] += sign * c;
  a->rest = a->rest + b->rest * nn::DimExpr(sign);
  return a;
}

/// `axes`: those of the block's arguments.
std::optional<Linear> readLinear(Value v, ArrayRef<int> axes) {
  Linear out;
  if (auto argument = dyn_cast<BlockArgument>(v)) {
    if (int axis = axes[argument.getArgNumber()]; axis != kNoAxis)
      out.coefficients[axis] = 1;
    return out;
  }
  APInt number;
  if (matchPattern(v, m_ConstantInt(&number))) {
    out.rest = nn::DimExpr(number.getSExtValue());
    return out;
  }
  Operation *op = v.getDefiningOp();
  if (auto size = dyn_cast<nn::SizeOp>(op)) {
    out.rest = size.getSize();
    return out;
  }
  if (isa<arith::IndexCastOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(
          op))
    return readLinear(op->getOperand(0), axes);
  if (isa<arith::AddIOp, arith::SubIOp>(op))
    return combine(readLinear(op->getOperand(0), axes),
                   readLinear(op->getOperand(1), axes),
                   isa<arith::AddIOp>(op) ? 1 : -1);
  return std::nullopt;
}

/// lhs - rhs <= 0 as a bound of j - i, if it is one.
std::optional<IndexBound> readBound(Value lhs, Value rhs, bool strict,
                                    ArrayRef<int> axes) {
  std::optional<Linear> d =
      combine(readLinear(lhs, axes), readLinear(rhs, axes), -1);
  if (!d)
    return std::nullopt;
  if (strict)
    d->rest = d->rest + nn::DimExpr(1);
  int64_t ofKey = d->coefficients[kKey], ofQuery = d->coefficients[kQuery];
  for (auto [axis, c] : d->coefficients)
    if (axis != kKey && axis != kQuery && c != 0)
      return std::nullopt;
  IndexBound bound;
  if (ofKey == 1 && ofQuery == -1)
    bound.most = nn::DimExpr(0) - d->rest;
  else if (ofKey == -1 && ofQuery == 1)
    bound.least = d->rest;
  else
    return std::nullopt;
  return bound;
}

/// Adds what a bool inside a generate's region says to `bounds`; false: it says
/// more. `holds`: else its negation is meant.
bool readRegion(Value v, bool holds, ArrayRef<int> axes,
                SmallVectorImpl<IndexBound> &bounds) {
  APInt number;
  if (matchPattern(v, m_ConstantInt(&number)))
    return number.isZero() != holds;
  Operation *op = v.getDefiningOp();
  if (!op)
    return false;
  if (isa<arith::XOrIOp>(op))
    for (unsigned i : {0u, 1u})
      if (matchPattern(op->getOperand(i), m_One()))
        return readRegion(op->getOperand(1 - i), !holds, axes, bounds);
  if (holds ? isa<arith::AndIOp>(op) : isa<arith::OrIOp>(op))
    return readRegion(op->getOperand(0), holds, axes, bounds) &&
           readRegion(op->getOperand(1), holds, axes, bounds);
  auto cmp = dyn_cast<arith::CmpIOp>(op);
  if (!cmp)
    return false;
  using P = arith::CmpIPredicate;
  P p = cmp.getPredicate();
  // Of unsigned ones a negative difference is a large number.
  if (p != P::sle && p != P::slt && p != P::sge && p != P::sgt)
    return false;
  bool strict = p == P::slt || p == P::sgt,
       flipped = p == P::sge || p == P::sgt;
  if (!holds) // a > b is b < a
    strict = !strict, flipped = !flipped;
  std::optional<IndexBound> bound =
      readBound(cmp->getOperand(flipped ? 1 : 0),
                cmp->getOperand(flipped ? 0 : 1), strict, axes);
  if (bound)
    bounds.push_back(*bound);
  return bound.has_value();
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

class ConditionReader {
public:
  MaskConditions conditions;

  void read(const ScoreView &wrapped, bool holds) {
    ScoreView view = wrapped.stripped();
    Operation *op = view.value.getDefiningOp();
    std::optional<double> number = getSplat(view.value);
    if (number && (*number != 0) == holds) {
      conditions.dropped = true;
      return;
    }
    if (auto negation = dyn_cast_or_null<nn::NotOp>(op))
      return read(view.operand(negation.getInput()), !holds);
    if (op && (holds ? isa<nn::AndOp>(op) : isa<nn::OrOp>(op))) {
      read(view.operand(op->getOperand(0)), holds);
      return read(view.operand(op->getOperand(1)), holds);
    }
    if (auto where = dyn_cast_or_null<nn::WhereOp>(op))
      if (readChoice(view, where, holds))
        return;
    MaskCondition condition{view, holds, readBand(view, holds)};
    if (auto generate = dyn_cast_or_null<nn::GenerateOp>(op)) {
      SmallVector<IndexBound> bounds;
      auto yield =
          cast<nn::YieldOp>(generate.getBody().front().getTerminator());
      if (readRegion(yield.getValues()[0], holds, view.axes, bounds))
        condition.bounds = std::move(bounds);
    }
    conditions.all.push_back(std::move(condition));
  }

private:
  /// A choice between bools of which one is the same everywhere, and not what
  /// is wanted (`tril` of a mask): the other is chosen, and is what is wanted.
  bool readChoice(const ScoreView &view, nn::WhereOp where, bool holds) {
    for (bool first : {true, false}) {
      std::optional<double> same =
          getSplat(first ? where.getRhs() : where.getLhs());
      if (!same || (*same != 0) == holds)
        continue;
      read(view.operand(where.getCondition()), first);
      read(view.operand(first ? where.getLhs() : where.getRhs()), holds);
      return true;
    }
    return false;
  }
};
} // namespace

MaskConditions import::readConditions(Value mask) {
  ConditionReader reader;
  reader.read(ScoreView::of(mask), true);
  return reader.conditions;
}
