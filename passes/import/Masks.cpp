//===- Masks.cpp - What an attention mask says ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Masks.h"
#include "passes/import/Match.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::import;

bool import::hidesScores(double number, Operation *user) {
  return number <= -1e38 || (number == -65504 && hasNarrowNumbers(user));
}

//===----------------------------------------------------------------------===//
// MaskParts
//===----------------------------------------------------------------------===//

/// where(condition, other, hidden) or where(condition, hidden, other): the
/// condition as a part.
std::optional<MaskParts::Part> MaskParts::readWhere(nn::WhereOp where) {
  std::optional<double> a = getSplat(where.getLhs()),
                        b = getSplat(where.getRhs());
  Part part;
  part.condition = where.getCondition();
  if (b && hidesScores(*b, where)) {
    part.hidden = *b;
    return part;
  }
  if (!a || !hidesScores(*a, where))
    return std::nullopt;
  part.visible = false;
  part.hidden = *a;
  return part;
}

/// A generated mask `select(c, 0, hidden)`: a part whose condition is c, which
/// is generated in its turn when the mask is built.
static std::optional<double> readGenerated(Value mask, bool &visible) {
  auto generate = mask.getDefiningOp<nn::GenerateOp>();
  if (!generate)
    return std::nullopt;
  auto yield = cast<nn::YieldOp>(generate.getBody().front().getTerminator());
  auto select = yield.getValues()[0].getDefiningOp<arith::SelectOp>();
  FloatAttr a, b;
  if (!select || !matchPattern(select.getTrueValue(), m_Constant(&a)) ||
      !matchPattern(select.getFalseValue(), m_Constant(&b)))
    return std::nullopt;
  double x = a.getValueAsDouble(), y = b.getValueAsDouble();
  visible = x == 0 && hidesScores(y, generate);
  if (!visible && !(y == 0 && hidesScores(x, generate)))
    return std::nullopt;
  return visible ? y : x;
}

MaskParts::Part MaskParts::readAdded(Value mask) {
  if (auto where = mask.getDefiningOp<nn::WhereOp>()) {
    std::optional<Part> part = readWhere(where);
    Value other =
        part && part->visible ? Value(where.getLhs()) : Value(where.getRhs());
    if (part && getSplat(other) == 0.0)
      return *part;
  }
  Part part;
  bool visible;
  if (std::optional<double> hidden = readGenerated(mask, visible)) {
    part.condition = mask;
    part.visible = visible;
    part.hidden = *hidden;
  } else {
    part.numbers = mask;
  }
  return part;
}

bool MaskParts::peel(Value &scores) {
  if (auto where = scores.getDefiningOp<nn::WhereOp>()) {
    std::optional<Part> part = readWhere(where);
    if (!part)
      return false;
    Value kept = part->visible ? where.getLhs() : where.getRhs();
    if (kept.getType() != scores.getType())
      return false;
    part->replaces = true;
    parts.push_back(*part);
    scores = kept;
    return true;
  }
  auto add = scores.getDefiningOp<nn::AddOp>();
  if (!add)
    return false;
  // The mask is the side that has no product in front of its softmax; a mask of
  // the scores' own shape is told apart by depending on no gradient.
  Value lhs = add.getLhs(), rhs = add.getRhs();
  bool rhsIsMask = lhs.getType() == scores.getType() && !mayNeedGradient(rhs);
  bool lhsIsMask = rhs.getType() == scores.getType() && !mayNeedGradient(lhs);
  if (!rhsIsMask && !lhsIsMask)
    return false;
  parts.push_back(readAdded(rhsIsMask ? rhs : lhs));
  scores = rhsIsMask ? lhs : rhs;
  return true;
}

bool MaskParts::isUsable() const {
  return llvm::none_of(parts, [](const Part &p) {
    return p.numbers && mayNeedGradient(p.numbers);
  });
}

bool MaskParts::isInfinite() const {
  return llvm::all_of(
      parts, [](const Part &p) { return !p.numbers && std::isinf(p.hidden); });
}

bool MaskParts::isSameForHeads() const {
  return llvm::all_of(parts, [](const Part &p) {
    nn::Shape shape = nn::getShape(p.numbers ? p.numbers : p.condition);
    size_t rank = shape.size();
    return (rank < 3 || shape[rank - 3] == nn::DimExpr(1)) &&
           (rank < 4 || shape[rank - 4] == nn::DimExpr(1));
  });
}

/// Conditions say all where only -inf hides, or one finite number: a query that
/// sees no key then weighs all alike. Two finite numbers that are added hide
/// deeper than one, so that queries tell them apart.
bool MaskParts::isBool() const {
  if (isInfinite())
    return true;
  return llvm::all_of(parts, [&](const Part &p) {
    return !p.numbers && p.hidden == parts[0].hidden &&
           (p.replaces || parts.size() == 1);
  });
}

/// PyTorch's exporter adds the mask of scaled_dot_product_attention, in which
/// such a query gives 0: bools with a guard, though as the lowest finite
/// number, numbers without one. -inf in the place of scores is written by hand.
nn::EmptyRow MaskParts::getEmptyRow(bool guarded) const {
  if (parts.empty())
    return nn::EmptyRow::mean;
  bool added = parts.size() == 1 && !parts[0].replaces;
  if (isBool() && !isInfinite() && !(guarded && added))
    return added ? nn::EmptyRow::mean : nn::EmptyRow::filled;
  return guarded || added ? nn::EmptyRow::zero : nn::EmptyRow::nan;
}

/// The condition of a generated mask `select(c, 0, hidden)`, generated alone.
static Value generatedCondition(PatternRewriter &rewriter,
                                nn::GenerateOp generate) {
  auto type = nn::withElementType(generate.getType(), rewriter.getI1Type());
  auto result = nn::GenerateOp::create(rewriter, generate.getLoc(), type);
  IRMapping mapping;
  generate.getBody().cloneInto(&result.getBody(), mapping);
  auto end = cast<nn::YieldOp>(result.getBody().front().getTerminator());
  auto select = end.getValues()[0].getDefiningOp<arith::SelectOp>();
  end->setOperand(0, select.getCondition());
  return result;
}

/// True where the part hides nothing.
Value MaskParts::visibleOf(PatternRewriter &rewriter, Location loc,
                           const Part &part) {
  Value condition = part.condition;
  auto generate = condition.getDefiningOp<nn::GenerateOp>();
  if (generate && isa<FloatType>(generate.getType().getElementType()))
    condition = generatedCondition(rewriter, generate);
  if (part.visible)
    return condition;
  auto generated = condition.getDefiningOp<nn::GenerateOp>();
  if (!generated || !generated->use_empty())
    return nn::NotOp::create(rewriter, loc, condition);
  // Negated inside, where it is read again.
  auto end = cast<nn::YieldOp>(generated.getBody().front().getTerminator());
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(end);
  Value one = arith::ConstantIntOp::create(rewriter, loc, 1, 1);
  end->setOperand(
      0, arith::XOrIOp::create(rewriter, loc, end.getValues()[0], one));
  return condition;
}

Value MaskParts::buildBool(PatternRewriter &rewriter, Location loc) const {
  Value all;
  for (const Part &part : parts) {
    Value visible = visibleOf(rewriter, loc, part);
    all = all ? Value(nn::AndOp::create(rewriter, loc, all, visible)) : visible;
  }
  return all;
}

/// What the parts add up to, in the order in which the graph applies them.
Value MaskParts::buildNumbers(PatternRewriter &rewriter, Location loc,
                              Type element) const {
  auto number = [&](double x) -> Value {
    auto value = DenseElementsAttr::get(RankedTensorType::get({}, element),
                                        rewriter.getFloatAttr(element, x));
    return nn::ConstantOp::create(rewriter, loc, value.getType(), value);
  };
  Value sum;
  for (const Part &part : llvm::reverse(parts)) {
    Value mask = part.numbers;
    if (!mask) {
      Value kept = part.replaces && sum ? sum : number(0.0);
      mask = nn::WhereOp::create(rewriter, loc, visibleOf(rewriter, loc, part),
                                 kept, number(part.hidden));
    }
    bool adds = sum && !part.replaces;
    sum = adds ? Value(nn::AddOp::create(rewriter, loc, sum, mask)) : mask;
  }
  return sum;
}

Value MaskParts::build(PatternRewriter &rewriter, Location loc, int64_t rank,
                       Type element) {
  if (parts.empty())
    return {};
  Value all = isBool() ? buildBool(rewriter, loc)
                       : buildNumbers(rewriter, loc, element);
  if (rank == 4)
    return all;
  // Scores [n, t, s] became [n, 1, t, s], [b, k, g, t, s] became [b, h, t, s].
  nn::Shape s = nn::getShape(all);
  if (rank == 3 && s.size() == 3)
    s.insert(s.begin() + 1, nn::DimExpr(1));
  if (s.size() == 5)
    s.erase(s.begin() + 1);
  auto type = nn::makeTensorType(s, getElementTypeOrSelf(all));
  return nn::ReshapeOp::create(rewriter, loc, type, all);
}
