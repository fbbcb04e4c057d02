//===- Denominator.cpp - What a loss is divided by --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A guard such as max(count, 1) is not a part of the sum: parts that have one
// item each would count it again. It is taken off here, and only in forms that
// the runtime can apply to the sum; everything else stays, and then the value
// is no sum over items and the loss is not split.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/Denominator.h"
#include "dialects/nn/NNNumbers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace dt::modules {

Denominator Denominator::max(double bound) const {
  Denominator d = *this;
  d.atLeast = std::max(atLeast, bound / scale - plus);
  return d;
}
Denominator Denominator::add(double number) const {
  Denominator d = *this;
  d.plus += number / scale;
  return d;
}
Denominator Denominator::times(double factor) const {
  Denominator d = *this;
  d.scale *= factor;
  return d;
}

namespace {

Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

bool isOne(Value value) {
  return nn::getNumElements(nn::getShape(value)) == nn::DimExpr(1);
}

/// Through what moves elements or converts them without loss.
Value stripped(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    auto cast = dyn_cast<nn::CastOp>(op);
    if (!isa<nn::ReshapeOp>(op) && !(cast && nn::keepsCounts(cast)))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// All elements are whole and not negative, whatever the inputs are.
bool isWhole(Value value) {
  if (elementOf(value).isInteger(1))
    return true;
  if (auto number = nn::splatOf(value))
    return *number >= 0 && *number == std::floor(*number);
  Operation *op = value.getDefiningOp();
  if (auto cast = dyn_cast_or_null<nn::CastOp>(op))
    return nn::keepsCounts(cast) && isWhole(cast.getInput());
  if (auto reduce = dyn_cast_or_null<nn::ReduceOp>(op))
    return reduce.getKind() == nn::ReduceKind::sum &&
           isWhole(reduce.getInput());
  if (isa_and_nonnull<nn::ReshapeOp, nn::BroadcastOp, nn::TransposeOp,
                      nn::SliceOp>(op))
    return isWhole(op->getOperand(0));
  if (isa_and_nonnull<nn::AddOp, nn::MulOp>(op))
    return isWhole(op->getOperand(0)) && isWhole(op->getOperand(1));
  return false;
}

/// Two values that count the same, perhaps in different types.
bool isSameCount(Value a, Value b) {
  a = stripped(a);
  b = stripped(b);
  if (a == b)
    return true;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (!x || !y || x->getName() != y->getName() ||
      x->getAttrDictionary() != y->getAttrDictionary() ||
      x->getNumOperands() != y->getNumOperands() || x->getNumRegions() ||
      !isMemoryEffectFree(x) || nn::getShape(a) != nn::getShape(b))
    return false;
  // What is below a sum may differ in type only where it is whole.
  if (elementOf(a) != elementOf(b) && !(isWhole(a) && isWhole(b)))
    return false;
  return llvm::all_of(
      llvm::zip(x->getOperands(), y->getOperands()), [](auto pair) {
        return isSameCount(std::get<0>(pair), std::get<1>(pair));
      });
}

/// A number on either side of an op of two scalars.
std::optional<double> numberOf(Value scalar) {
  APInt whole;
  FloatAttr real;
  if (matchPattern(scalar, m_ConstantInt(&whole)))
    return double(whole.getSExtValue());
  if (matchPattern(scalar, m_Constant(&real)))
    return real.getValueAsDouble();
  return std::nullopt;
}

std::optional<Denominator> readScalar(Value scalar);

/// select(size == 0, 1, size) is max(size, 1).
std::optional<Denominator> readChoice(arith::SelectOp op) {
  auto test = op.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!test || test.getPredicate() != arith::CmpIPredicate::eq)
    return std::nullopt;
  auto number = numberOf(op.getTrueValue());
  auto size = readScalar(op.getFalseValue());
  auto a = nn::readSize(test.getLhs()), b = nn::readSize(test.getRhs());
  bool tested =
      size && a && b && (*a - *b == size->count || *b - *a == size->count);
  if (!tested || !number || *number <= 0 || *number > 1 || size->plus != 0 ||
      std::isfinite(size->atLeast) || size->scale != 1 || !isNatural(*size))
    return std::nullopt;
  return size->max(*number);
}

/// The same for what a generate's region computes of sizes.
std::optional<Denominator> readScalar(Value scalar) {
  if (auto size = nn::readSize(scalar)) {
    Denominator d;
    for (const nn::DimExpr::Term &term : size->terms())
      if (term.symbols.empty())
        d.plus = double(term.coefficient);
    d.count = *size - nn::DimExpr(int64_t(d.plus));
    return d;
  }
  Operation *op = scalar.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (isa<arith::IndexCastOp, arith::SIToFPOp, arith::ExtSIOp>(op))
    return readScalar(op->getOperand(0));
  if (auto choice = dyn_cast<arith::SelectOp>(op))
    return readChoice(choice);
  if (op->getNumOperands() != 2)
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    auto number = numberOf(op->getOperand(i));
    if (!number)
      continue;
    auto d = readScalar(op->getOperand(1 - i));
    if (!d)
      return std::nullopt;
    if (isa<arith::MaxSIOp, arith::MaximumFOp, arith::MaxNumFOp>(op))
      return d->max(*number);
    if (isa<arith::AddIOp, arith::AddFOp>(op))
      return d->add(*number);
    if (isa<arith::MulIOp, arith::MulFOp>(op) && *number > 0)
      return d->times(*number);
    if (isa<arith::DivFOp>(op) && i == 1 && *number > 0)
      return d->times(1 / *number);
  }
  return std::nullopt;
}

/// One op with a number on one side.
std::optional<Denominator> readGuard(Operation *op) {
  if (!isa<nn::MaxOp, nn::AddOp, nn::SubOp, nn::MulOp, nn::DivOp>(op))
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    auto number = nn::splatOf(op->getOperand(i));
    if (!number || !isOne(op->getOperand(1 - i)))
      continue;
    Value inner = op->getOperand(1 - i);
    if (isa<nn::MaxOp>(op))
      return readDenominator(inner).max(*number);
    if (isa<nn::AddOp>(op))
      return readDenominator(inner).add(*number);
    if (isa<nn::SubOp>(op) && i == 1)
      return readDenominator(inner).add(-*number);
    if (isa<nn::MulOp>(op) && *number > 0)
      return readDenominator(inner).times(*number);
    // Integers truncate.
    bool real = isa<FloatType>(elementOf(op->getResult(0)));
    if (isa<nn::DivOp>(op) && i == 1 && *number > 0 && real)
      return readDenominator(inner).times(1 / *number);
  }
  return std::nullopt;
}

/// where(count == 0, 1, count) is max(count, 1).
std::optional<Denominator> readChoice(nn::WhereOp op) {
  for (unsigned i : {1, 2}) {
    auto number = nn::splatOf(op->getOperand(i));
    Value inner = op->getOperand(3 - i);
    if (!number || *number <= 0 || *number > 1 || !isOne(inner))
      continue;
    Denominator d = readDenominator(inner);
    auto test = readZeroTest(op.getCondition(), d);
    if (test && *test == (i == 2) && d.plus == 0 && d.scale == 1 &&
        !std::isfinite(d.atLeast))
      return d.max(*number);
  }
  return std::nullopt;
}

nn::Compare mirrored(nn::Compare predicate) {
  switch (predicate) {
  case nn::Compare::lt:
    return nn::Compare::gt;
  case nn::Compare::le:
    return nn::Compare::ge;
  case nn::Compare::gt:
    return nn::Compare::lt;
  case nn::Compare::ge:
    return nn::Compare::le;
  default:
    return predicate;
  }
}

/// Whether `count predicate number` says that a whole number >= 0 is not 0.
std::optional<bool> testsZero(nn::Compare predicate, double number) {
  bool below = number >= 0 && number < 1, upTo = number > 0 && number <= 1;
  switch (predicate) {
  case nn::Compare::gt:
    return below ? std::optional(true) : std::nullopt;
  case nn::Compare::ge:
    return upTo ? std::optional(true) : std::nullopt;
  case nn::Compare::lt:
    return upTo ? std::optional(false) : std::nullopt;
  case nn::Compare::le:
    return below ? std::optional(false) : std::nullopt;
  case nn::Compare::eq:
    return number == 0 ? std::optional(false) : std::nullopt;
  case nn::Compare::ne:
    return number == 0 ? std::optional(true) : std::nullopt;
  }
  return std::nullopt;
}

} // namespace

Denominator readDenominator(Value value) {
  Operation *op = value.getDefiningOp();
  std::optional<Denominator> inner;
  auto cast = dyn_cast_or_null<nn::CastOp>(op);
  bool moves = isa_and_nonnull<nn::ReshapeOp, nn::BroadcastOp>(op) &&
               isOne(op->getOperand(0));
  if (moves || (cast && nn::keepsCounts(cast)))
    inner = readDenominator(op->getOperand(0));
  else if (auto generate = dyn_cast_or_null<nn::GenerateOp>(op))
    inner =
        readScalar(generate.getBody().front().getTerminator()->getOperand(0));
  else if (auto where = dyn_cast_or_null<nn::WhereOp>(op))
    inner = readChoice(where);
  else if (op)
    inner = readGuard(op);
  if (inner)
    return *inner;
  Denominator plain;
  plain.value = value;
  return plain;
}

bool isNatural(const Denominator &denominator) {
  if (denominator.value)
    return isWhole(denominator.value);
  return llvm::all_of(
      denominator.count.terms(),
      [](const nn::DimExpr::Term &term) { return term.coefficient >= 0; });
}

std::optional<bool> readZeroTest(Value condition,
                                 const Denominator &denominator) {
  bool negated = false;
  while (Operation *op = condition.getDefiningOp()) {
    if (isa<nn::NotOp>(op))
      negated = !negated;
    else if (!isa<nn::ReshapeOp, nn::BroadcastOp>(op))
      break;
    condition = op->getOperand(0);
  }
  auto test = condition.getDefiningOp<nn::CmpOp>();
  if (!test || !isNatural(denominator))
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    auto number = nn::splatOf(test->getOperand(1 - i));
    if (!number || !isOne(test->getOperand(i)))
      continue;
    Denominator tested = readDenominator(test->getOperand(i));
    bool same =
        denominator.value
            ? tested.value && isSameCount(tested.value, denominator.value)
            : !tested.value && tested.count == denominator.count;
    if (!same || tested.plus != 0 || tested.scale != 1 ||
        std::isfinite(tested.atLeast))
      continue;
    auto result = testsZero(
        i == 0 ? test.getPredicate() : mirrored(test.getPredicate()), *number);
    if (result)
      return *result != negated;
  }
  return std::nullopt;
}

} // namespace dt::modules
