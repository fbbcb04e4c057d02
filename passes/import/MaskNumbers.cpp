//===- MaskNumbers.cpp - Masks that are computed with numbers ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Many masks are products of numbers that are 0 or 1, of which -inf or the
// lowest number is made at the end, and get their axes of batch and heads last.
// What they say is read from bools, so they become bools again.
//
//===----------------------------------------------------------------------===//

#include "passes/import/MaskNumbers.h"
#include "passes/import/Masks.h"
#include "passes/import/Match.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace {

bool isBool(Value v) { return getElementTypeOrSelf(v).isInteger(1); }

/// A choice between the numbers 1 and 0: whether 1 is where the condition
/// holds.
std::optional<bool> readUnits(nn::WhereOp where) {
  std::optional<double> a = getSplat(where.getLhs()),
                        b = getSplat(where.getRhs());
  if (!a || !b || *a + *b != 1 || *a * *b != 0)
    return std::nullopt;
  return *a == 1;
}

/// What makes the generated numbers, without conversions of 0 and 1.
Operation *getMaker(nn::GenerateOp generate) {
  auto yield = cast<nn::YieldOp>(generate.getBody().front().getTerminator());
  Operation *op = yield.getValues()[0].getDefiningOp();
  while (isa_and_nonnull<arith::IndexCastOp, arith::SIToFPOp, arith::ExtSIOp>(
             op) &&
         !op->getOperand(0).getType().isInteger(1))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

/// A bool inside of a generated number's region, generated alone.
Value generateAlone(PatternRewriter &rewriter, nn::GenerateOp generate,
                    Value condition) {
  Type type = nn::withElementType(generate.getType(), rewriter.getI1Type());
  auto made = nn::GenerateOp::create(rewriter, generate.getLoc(), type);
  IRMapping mapping;
  generate.getBody().cloneInto(&made.getBody(), mapping);
  made.getBody().front().getTerminator()->setOperand(
      0, mapping.lookupOrDefault(condition));
  return made;
}

/// The bool of which a generated number is made.
Value getGeneratedBool(nn::GenerateOp generate) {
  Operation *op = getMaker(generate);
  auto select = dyn_cast_or_null<arith::SelectOp>(op);
  if (isa_and_nonnull<arith::UIToFPOp, arith::ExtUIOp>(op) &&
      op->getOperand(0).getType().isInteger(1))
    return op->getOperand(0);
  bool one = select && (matchPattern(select.getTrueValue(), m_One()) ||
                        matchPattern(select.getTrueValue(), m_OneFloat()));
  bool zero =
      select && (matchPattern(select.getFalseValue(), m_Zero()) ||
                 matchPattern(select.getFalseValue(), m_AnyZeroFloat()));
  return one && zero ? select.getCondition() : Value();
}

/// Whether all numbers of `v` are 0 or 1, as bools say.
bool isTruth(Value v) {
  Operation *op = v.getDefiningOp();
  if (!op || isBool(v))
    return op && isBool(v);
  if (isa<nn::CastOp, nn::ReshapeOp, nn::BroadcastOp>(op))
    return isBool(op->getOperand(0)) || isTruth(op->getOperand(0));
  if (auto mul = dyn_cast<nn::MulOp>(op))
    return isTruth(mul.getLhs()) && isTruth(mul.getRhs());
  if (auto sub = dyn_cast<nn::SubOp>(op))
    return getSplat(sub.getLhs()) == 1.0 && isTruth(sub.getRhs());
  if (auto where = dyn_cast<nn::WhereOp>(op))
    return readUnits(where).has_value();
  auto generate = dyn_cast<nn::GenerateOp>(op);
  return generate && getGeneratedBool(generate);
}

/// Where `v`, of which isTruth, is 1, in its shape.
Value buildTruth(PatternRewriter &rewriter, Value v) {
  if (isBool(v))
    return v;
  Operation *op = v.getDefiningOp();
  Location loc = op->getLoc();
  Type type = nn::withElementType(v.getType(), rewriter.getI1Type());
  auto inShape = [&](Value made) -> Value {
    return made.getType() == type
               ? made
               : nn::BroadcastOp::create(rewriter, loc, type, made);
  };
  if (isa<nn::CastOp>(op))
    return buildTruth(rewriter, op->getOperand(0));
  if (isa<nn::ReshapeOp>(op))
    return nn::ReshapeOp::create(rewriter, loc, type,
                                 buildTruth(rewriter, op->getOperand(0)));
  if (isa<nn::BroadcastOp>(op))
    return nn::BroadcastOp::create(rewriter, loc, type,
                                   buildTruth(rewriter, op->getOperand(0)));
  if (auto mul = dyn_cast<nn::MulOp>(op)) {
    Value lhs = buildTruth(rewriter, mul.getLhs());
    return nn::AndOp::create(rewriter, loc, lhs,
                             buildTruth(rewriter, mul.getRhs()));
  }
  if (auto sub = dyn_cast<nn::SubOp>(op))
    return inShape(
        nn::NotOp::create(rewriter, loc, buildTruth(rewriter, sub.getRhs())));
  if (auto where = dyn_cast<nn::WhereOp>(op)) {
    Value condition = where.getCondition();
    return inShape(*readUnits(where)
                       ? condition
                       : nn::NotOp::create(rewriter, loc, condition));
  }
  auto generate = cast<nn::GenerateOp>(op);
  return generateAlone(rewriter, generate, getGeneratedBool(generate));
}

Value makeNumber(PatternRewriter &rewriter, Location loc, Type element,
                 double x) {
  auto value = DenseElementsAttr::get(RankedTensorType::get({}, element),
                                      rewriter.getFloatAttr(element, x));
  return nn::ConstantOp::create(rewriter, loc, value.getType(), value);
}

/// m * lowest: a choice between lowest and 0.
LogicalResult choiceOfProduct(nn::MulOp mul, PatternRewriter &rewriter) {
  Type element = mul.getType().getElementType();
  auto scaled = matchWithSplat<nn::MulOp>(mul.getResult());
  if (!isa<FloatType>(element) || !scaled || std::isinf(scaled->second) ||
      !hidesScores(scaled->second, mul) ||
      scaled->first.getType() != mul.getType() || !isTruth(scaled->first))
    return failure();
  Location loc = mul.getLoc();
  rewriter.replaceOpWithNewOp<nn::WhereOp>(
      mul, buildTruth(rewriter, scaled->first),
      makeNumber(rewriter, loc, element, scaled->second),
      makeNumber(rewriter, loc, element, 0));
  return success();
}

/// m == 0, m > 0.5 and the like: m, its negation or the same everywhere, of
/// which only the first two are rewritten. The cast of m to bool is m.
LogicalResult truthOfNumber(nn::CmpOp cmp, PatternRewriter &rewriter) {
  std::optional<double> number = getSplat(cmp.getRhs());
  if (!number || isBool(cmp.getLhs()) || !isTruth(cmp.getLhs()))
    return failure();
  auto holds = [&](double x) {
    switch (cmp.getPredicate()) {
    case nn::Compare::eq:
      return x == *number;
    case nn::Compare::ne:
      return x != *number;
    case nn::Compare::lt:
      return x < *number;
    case nn::Compare::le:
      return x <= *number;
    case nn::Compare::gt:
      return x > *number;
    case nn::Compare::ge:
      return x >= *number;
    }
    llvm_unreachable("not a comparison");
  };
  if (holds(0) == holds(1))
    return failure();
  Value truth = buildTruth(rewriter, cmp.getLhs());
  if (holds(0))
    truth = nn::NotOp::create(rewriter, cmp.getLoc(), truth);
  if (truth.getType() != cmp.getType())
    return failure();
  rewriter.replaceOp(cmp, truth);
  return success();
}

LogicalResult truthOfCast(nn::CastOp cast, PatternRewriter &rewriter) {
  if (!isBool(cast.getResult()) || isBool(cast.getInput()) ||
      !isTruth(cast.getInput()))
    return failure();
  rewriter.replaceOp(cast, buildTruth(rewriter, cast.getInput()));
  return success();
}

/// a - b == 0 of integers, which wrap.
LogicalResult compareDifference(nn::CmpOp cmp, PatternRewriter &rewriter) {
  auto sub = cmp.getLhs().getDefiningOp<nn::SubOp>();
  nn::Compare predicate = cmp.getPredicate();
  if (!sub || !isa<IntegerType>(sub.getType().getElementType()) ||
      getSplat(cmp.getRhs()) != 0.0 ||
      (predicate != nn::Compare::eq && predicate != nn::Compare::ne))
    return failure();
  Value made = nn::CmpOp::create(rewriter, cmp.getLoc(), predicate,
                                 sub.getLhs(), sub.getRhs());
  if (made.getType() != cmp.getType())
    return failure();
  rewriter.replaceOp(cmp, made);
  return success();
}

/// Numbers that are -inf or 0: `condition`, and whether it says where they are
/// -inf. `generate`: what makes the numbers and has the condition inside.
struct Infinities {
  Value condition;
  bool hidden;
  nn::GenerateOp generate;

  static std::optional<Infinities> read(Value v) {
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    auto of = [&](Value condition, std::optional<double> a,
                  std::optional<double> b,
                  nn::GenerateOp generate) -> std::optional<Infinities> {
      bool first = a == kHidden && b == 0.0, second = a == 0.0 && b == kHidden;
      if (!first && !second)
        return std::nullopt;
      return Infinities{condition, first, generate};
    };
    if (auto where = v.getDefiningOp<nn::WhereOp>())
      return of(where.getCondition(), getSplat(where.getLhs()),
                getSplat(where.getRhs()), {});
    auto generate = v.getDefiningOp<nn::GenerateOp>();
    auto select = dyn_cast_or_null<arith::SelectOp>(
        generate ? getMaker(generate) : nullptr);
    FloatAttr a, b;
    if (!select || !matchPattern(select.getTrueValue(), m_Constant(&a)) ||
        !matchPattern(select.getFalseValue(), m_Constant(&b)))
      return std::nullopt;
    return of(select.getCondition(), a.getValueAsDouble(), b.getValueAsDouble(),
              generate);
  }
  /// Where they are -inf.
  Value build(PatternRewriter &rewriter, Location loc) {
    Value v =
        generate ? generateAlone(rewriter, generate, condition) : condition;
    return hidden ? v : Value(nn::NotOp::create(rewriter, loc, v));
  }
};

/// -inf or 0 that are added.
LogicalResult sumOfInfinities(nn::AddOp add, PatternRewriter &rewriter) {
  std::optional<Infinities> a = Infinities::read(add.getLhs()),
                            b = Infinities::read(add.getRhs());
  if (!a || !b)
    return failure();
  Location loc = add.getLoc();
  Type element = add.getType().getElementType(),
       bools = nn::withElementType(add.getType(), rewriter.getI1Type());
  Value lhs = a->build(rewriter, loc);
  Value either = nn::OrOp::create(rewriter, loc, lhs, b->build(rewriter, loc));
  if (either.getType() != bools)
    either = nn::BroadcastOp::create(rewriter, loc, bools, either);
  rewriter.replaceOpWithNewOp<nn::WhereOp>(
      add, either,
      makeNumber(rewriter, loc, element,
                 -std::numeric_limits<double>::infinity()),
      makeNumber(rewriter, loc, element, 0));
  return success();
}

/// The choice of a number that hides scores, or of another one, with other
/// axes.
template <typename View>
LogicalResult choiceInView(View view, PatternRewriter &rewriter) {
  auto where = view.getInput().template getDefiningOp<nn::WhereOp>();
  if (!where || !isa<FloatType>(where.getType().getElementType()))
    return failure();
  std::optional<double> a = getSplat(where.getLhs()),
                        b = getSplat(where.getRhs());
  if (!a || !b || !(hidesScores(*a, where) || hidesScores(*b, where)))
    return failure();
  Location loc = view.getLoc();
  Type element = where.getType().getElementType(),
       bools = nn::withElementType(where.getType(), rewriter.getI1Type());
  Value condition = where.getCondition();
  if (condition.getType() != bools)
    condition = nn::BroadcastOp::create(rewriter, loc, bools, condition);
  condition = View::create(
      rewriter, loc, nn::withElementType(view.getType(), rewriter.getI1Type()),
      condition);
  rewriter.replaceOpWithNewOp<nn::WhereOp>(
      view, condition, makeNumber(rewriter, loc, element, *a),
      makeNumber(rewriter, loc, element, *b));
  return success();
}

} // namespace

void import::populateMaskNumberPatterns(RewritePatternSet &patterns) {
  patterns.add(choiceOfProduct)
      .add(truthOfNumber)
      .add(truthOfCast)
      .add(compareDifference)
      .add(sumOfInfinities)
      .add(choiceInView<nn::ReshapeOp>)
      .add(choiceInView<nn::BroadcastOp>);
}
