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
#include <map>

using namespace mlir;
using namespace dt;
using namespace dt::import;

/// Below this no score survives the softmax (float32's exp is 0 at -104).
static constexpr double kHidden = -1e4;

//===----------------------------------------------------------------------===//
// MaskParts
//===----------------------------------------------------------------------===//

bool MaskParts::addBool(Value condition, bool visible, double hiddenScore) {
  bools.push_back({condition, visible});
  infinite |= std::isinf(hiddenScore);
  return true;
}

bool MaskParts::peel(Value &scores) {
  if (auto where = scores.getDefiningOp<nn::WhereOp>()) {
    std::optional<double> a = getSplat(where.getLhs()),
                          b = getSplat(where.getRhs());
    bool hidesRhs = b && *b <= kHidden;
    if (!hidesRhs && !(a && *a <= kHidden))
      return false;
    Value kept = hidesRhs ? where.getLhs() : where.getRhs();
    if (kept.getType() != scores.getType())
      return false;
    addBool(where.getCondition(), hidesRhs, hidesRhs ? *b : *a);
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
  Value mask = rhsIsMask ? rhs : lhs;
  scores = rhsIsMask ? lhs : rhs;
  if (auto where = mask.getDefiningOp<nn::WhereOp>()) {
    std::optional<double> a = getSplat(where.getLhs()),
                          b = getSplat(where.getRhs());
    if (a && b && *a == 0 && *b <= kHidden)
      return addBool(where.getCondition(), true, *b);
    if (a && b && *b == 0 && *a <= kHidden)
      return addBool(where.getCondition(), false, *a);
  }
  additive.push_back(mask);
  return true;
}

bool MaskParts::isUsable() const {
  return llvm::none_of(additive, mayNeedGradient);
}

/// A generated additive mask `select(c, 0, hidden)` as a generated bool mask.
static Value generatedBool(PatternRewriter &rewriter, Value mask,
                           bool &infinite) {
  auto generate = mask.getDefiningOp<nn::GenerateOp>();
  if (!generate)
    return {};
  auto yield = cast<nn::YieldOp>(generate.getBody().front().getTerminator());
  auto select = yield.getValues()[0].getDefiningOp<arith::SelectOp>();
  FloatAttr a, b;
  if (!select || !matchPattern(select.getTrueValue(), m_Constant(&a)) ||
      !matchPattern(select.getFalseValue(), m_Constant(&b)))
    return {};
  double x = a.getValueAsDouble(), y = b.getValueAsDouble();
  bool visible = x == 0 && y <= kHidden;
  if (!visible && !(y == 0 && x <= kHidden))
    return {};
  infinite = std::isinf(visible ? y : x);
  auto type = nn::withElementType(mask.getType(), rewriter.getI1Type());
  auto result = nn::GenerateOp::create(rewriter, mask.getLoc(), type);
  IRMapping mapping;
  generate.getBody().cloneInto(&result.getBody(), mapping);
  auto end = cast<nn::YieldOp>(result.getBody().front().getTerminator());
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(end);
  Value condition = mapping.lookup(select.getCondition());
  if (!visible) {
    Value one = arith::ConstantIntOp::create(rewriter, mask.getLoc(), 1, 1);
    condition = arith::XOrIOp::create(rewriter, mask.getLoc(), condition, one);
  }
  end->setOperand(0, condition);
  return result;
}

Value MaskParts::build(PatternRewriter &rewriter, Location loc, int64_t rank) {
  SmallVector<Value> conditions, sums;
  for (const BoolMask &m : bools)
    conditions.push_back(
        m.visible ? m.condition
                  : Value(nn::NotOp::create(rewriter, loc, m.condition)));
  for (Value m : additive) {
    bool isInf = false;
    if (Value condition = generatedBool(rewriter, m, isInf)) {
      conditions.push_back(condition);
      infinite |= isInf;
    } else {
      sums.push_back(m);
    }
  }
  Value all;
  for (Value c : conditions)
    all = all ? Value(nn::AndOp::create(rewriter, loc, all, c)) : c;
  if (!sums.empty()) {
    Type element = cast<RankedTensorType>(sums[0].getType()).getElementType();
    Value sum;
    for (Value s : sums)
      sum = sum ? Value(nn::AddOp::create(rewriter, loc, sum, s)) : s;
    if (all) {
      auto scalar = RankedTensorType::get({}, element);
      auto make = [&](double x) -> Value {
        auto value =
            DenseElementsAttr::get(scalar, rewriter.getFloatAttr(element, x));
        return nn::ConstantOp::create(rewriter, loc, scalar, value);
      };
      Value hidden =
          nn::WhereOp::create(rewriter, loc, all, make(0.0), make(-INFINITY));
      sum = nn::AddOp::create(rewriter, loc, sum, hidden);
    }
    all = sum;
  }
  if (!all || rank == 4)
    return all;
  // Scores of rank 3 became [n, 1, t, s].
  nn::Shape s = nn::getShape(all);
  if (s.size() == 3)
    s.insert(s.begin() + 1, nn::DimExpr(1));
  auto type = nn::makeTensorType(
      s, cast<RankedTensorType>(all.getType()).getElementType());
  return nn::ReshapeOp::create(rewriter, loc, type, all);
}

//===----------------------------------------------------------------------===//
// readMask
//===----------------------------------------------------------------------===//

namespace {
/// sum of coefficient * block argument, plus a size expression.
struct Linear {
  std::map<unsigned, int64_t> coefficients;
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

std::optional<Linear> readLinear(Value v) {
  Linear out;
  if (auto argument = dyn_cast<BlockArgument>(v)) {
    out.coefficients[argument.getArgNumber()] = 1;
    return out;
  }
  APInt number;
  if (matchPattern(v, m_ConstantInt(&number))) {
    out.rest = nn::DimExpr(number.getSExtValue());
    return out;
  }
  Operation *op = v.getDefiningOp();
  if (auto size = dyn_cast<nn::SizeOp>(op)) {
    std::optional<nn::DimExpr> e = nn::DimExpr::parse(size.getExpr());
    if (!e)
      return std::nullopt;
    out.rest = *e;
    return out;
  }
  if (isa<arith::IndexCastOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(
          op))
    return readLinear(op->getOperand(0));
  if (isa<arith::AddIOp>(op))
    return combine(readLinear(op->getOperand(0)), readLinear(op->getOperand(1)),
                   1);
  if (isa<arith::SubIOp>(op))
    return combine(readLinear(op->getOperand(0)), readLinear(op->getOperand(1)),
                   -1);
  return std::nullopt;
}

enum class Fact { Unknown, True, Causal };

/// What a bool inside a generate's region says; (i, j) are its last two
/// arguments.
Fact readCondition(Value v, unsigned rank, const nn::DimExpr &offset) {
  APInt number;
  if (matchPattern(v, m_ConstantInt(&number)))
    return number.isZero() ? Fact::Unknown : Fact::True;
  Operation *op = v.getDefiningOp();
  if (!op)
    return Fact::Unknown;
  if (isa<arith::AndIOp>(op)) {
    Fact a = readCondition(op->getOperand(0), rank, offset);
    Fact b = readCondition(op->getOperand(1), rank, offset);
    if (a == Fact::True || a == b)
      return b;
    return b == Fact::True ? a : Fact::Unknown;
  }
  auto cmp = dyn_cast<arith::CmpIOp>(op);
  if (!cmp)
    return Fact::Unknown;
  // Everything as lhs - rhs <= 0.
  using P = arith::CmpIPredicate;
  P p = cmp.getPredicate();
  bool flipped = p == P::sge || p == P::sgt;
  bool strict = p == P::slt || p == P::sgt;
  // Of unsigned ones a negative difference is a large number.
  if (!flipped && p != P::sle && p != P::slt)
    return Fact::Unknown;
  std::optional<Linear> d =
      combine(readLinear(cmp->getOperand(flipped ? 1 : 0)),
              readLinear(cmp->getOperand(flipped ? 0 : 1)), -1);
  if (!d)
    return Fact::Unknown;
  if (strict)
    d->rest = d->rest + nn::DimExpr(1);
  for (auto [i, c] : d->coefficients) {
    int64_t wanted = i == rank - 1 ? 1 : i == rank - 2 ? -1 : 0;
    if (c != wanted)
      return Fact::Unknown;
  }
  bool both =
      d->coefficients.count(rank - 1) && d->coefficients.count(rank - 2);
  return both && d->rest == nn::DimExpr(0) - offset ? Fact::Causal
                                                    : Fact::Unknown;
}

Fact readMaskValue(Value mask, const nn::DimExpr &offset) {
  if (std::optional<double> c = getSplat(mask))
    return *c != 0 ? Fact::True : Fact::Unknown;
  // A broadcast or reshape that keeps the last two dims keeps the meaning.
  while (Operation *op = mask.getDefiningOp()) {
    if (!isa<nn::BroadcastOp, nn::ReshapeOp>(op))
      break;
    nn::Shape in = nn::getShape(op->getOperand(0)),
              out = nn::getShape(op->getResult(0));
    if (in.size() < 2 || out.size() < 2 || in.back() != out.back() ||
        in[in.size() - 2] != out[out.size() - 2])
      break;
    mask = op->getOperand(0);
  }
  auto generate = mask.getDefiningOp<nn::GenerateOp>();
  if (!generate || !generate.getType().getElementType().isInteger(1))
    return Fact::Unknown;
  unsigned rank = generate.getType().getRank();
  if (rank < 2)
    return Fact::Unknown;
  auto yield = cast<nn::YieldOp>(generate.getBody().front().getTerminator());
  return readCondition(yield.getValues()[0], rank, offset);
}
} // namespace

MaskMeaning import::readMask(Value mask, const nn::DimExpr &offset,
                             Value &rest) {
  rest = mask;
  if (!cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1))
    return MaskMeaning::Data;
  Fact fact = readMaskValue(mask, offset);
  if (fact != Fact::Unknown) {
    rest = {};
    return fact == Fact::True ? MaskMeaning::AllVisible : MaskMeaning::Causal;
  }
  auto both = mask.getDefiningOp<nn::AndOp>();
  if (!both)
    return MaskMeaning::Data;
  for (auto [part, other] :
       {std::pair<Value, Value>(both.getLhs(), both.getRhs()),
        std::pair<Value, Value>(both.getRhs(), both.getLhs())}) {
    Fact f = readMaskValue(part, offset);
    if (f == Fact::Unknown)
      continue;
    rest = other;
    return f == Fact::True ? MaskMeaning::AllVisible : MaskMeaning::Causal;
  }
  return MaskMeaning::Data;
}
