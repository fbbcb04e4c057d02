//===- ExprLogic.cpp - Floats, booleans, choices ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/symbolic/Expr.h"

#include <algorithm>
#include <cmath>

using namespace dt::symbolic;

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

namespace {
double applyFloat(Kind kind, double a, double b) {
  switch (kind) {
  case Kind::FAdd:
    return a + b;
  case Kind::FSub:
    return a - b;
  case Kind::FMul:
    return a * b;
  case Kind::FDiv:
    return a / b;
  case Kind::FMin:
    return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
  default:
    return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
  }
}
} // namespace

Expr dt::symbolic::floatBinary(Kind kind, const Expr &a, const Expr &b,
                               bool single) {
  std::optional<double> x = asFloat(a), y = asFloat(b);
  if (x && y) {
    double r = applyFloat(kind, *x, *y);
    return real(single ? static_cast<float>(r) : r);
  }
  // 1 is neutral for every float, not-a-number included.
  if (y == 1.0 && (kind == Kind::FMul || kind == Kind::FDiv))
    return a;
  if (x == 1.0 && kind == Kind::FMul)
    return b;
  // A number meets a choice of numbers: (1 - mask) * -inf is a choice again.
  auto fixed = [](const Expr &e) {
    return e->kind == Kind::Select && isConstant(e->args[1]) &&
           isConstant(e->args[2]);
  };
  if (x && fixed(b))
    return select(b->args[0], floatBinary(kind, a, b->args[1], single),
                  floatBinary(kind, a, b->args[2], single));
  if (y && fixed(a))
    return select(a->args[0], floatBinary(kind, a->args[1], b, single),
                  floatBinary(kind, a->args[2], b, single));
  return make(kind, Type::Float, {a, b});
}

Expr dt::symbolic::toFloat(const Expr &e) {
  if (std::optional<int64_t> v = asInt(e))
    return real(static_cast<double>(*v));
  if (e->kind == Kind::Select && isConstant(e->args[1]) &&
      isConstant(e->args[2]))
    return select(e->args[0], toFloat(e->args[1]), toFloat(e->args[2]));
  return make(Kind::ToFloat, Type::Float, {e});
}

//===----------------------------------------------------------------------===//
// Booleans
//===----------------------------------------------------------------------===//

Expr dt::symbolic::nonNegative(const Expr &a) {
  if (std::optional<int64_t> v = asInt(a))
    return boolean(*v >= 0);
  return make(Kind::NonNegative, Type::Bool, {a});
}
Expr dt::symbolic::isZero(const Expr &a) {
  if (std::optional<int64_t> v = asInt(a))
    return boolean(*v == 0);
  // x == 0 and -x == 0 are one thing: the first coefficient is positive.
  if (termsOf(a).front().coefficient < 0)
    return make(Kind::IsZero, Type::Bool, {scale(a, -1)});
  return make(Kind::IsZero, Type::Bool, {a});
}

Expr dt::symbolic::lessEqual(const Expr &a, const Expr &b) {
  if (a->type != Type::Float)
    return nonNegative(sub(b, a));
  std::optional<double> x = asFloat(a), y = asFloat(b);
  if (x && y)
    return boolean(*x <= *y);
  if (a->kind == Kind::ToFloat && b->kind == Kind::ToFloat)
    return lessEqual(a->args[0], b->args[0]);
  return make(Kind::FLessEqual, Type::Bool, {a, b});
}
Expr dt::symbolic::less(const Expr &a, const Expr &b) {
  if (a->type != Type::Float)
    return nonNegative(sub(sub(b, a), integer(1)));
  std::optional<double> x = asFloat(a), y = asFloat(b);
  if (x && y)
    return boolean(*x < *y);
  if (a->kind == Kind::ToFloat && b->kind == Kind::ToFloat)
    return less(a->args[0], b->args[0]);
  return make(Kind::FLess, Type::Bool, {a, b});
}
Expr dt::symbolic::equal(const Expr &a, const Expr &b) {
  if (a->type == Type::Bool)
    return logicalOr(logicalAnd(a, b),
                     logicalAnd(logicalNot(a), logicalNot(b)));
  if (a->type == Type::Int)
    return isZero(sub(a, b));
  std::optional<double> x = asFloat(a), y = asFloat(b);
  if (x && y)
    return boolean(*x == *y);
  auto push = [&](const Expr &choice, const Expr &other) {
    return select(choice->args[0], equal(choice->args[1], other),
                  equal(choice->args[2], other));
  };
  if (a->kind == Kind::Select && isConstant(a->args[1]) &&
      isConstant(a->args[2]) && y)
    return push(a, b);
  if (b->kind == Kind::Select && isConstant(b->args[1]) &&
      isConstant(b->args[2]) && x)
    return push(b, a);
  if (a->kind == Kind::ToFloat && b->kind == Kind::ToFloat)
    return equal(a->args[0], b->args[0]);
  return make(Kind::FEqual, Type::Bool, {a, b});
}

Expr dt::symbolic::logicalNot(const Expr &a) {
  if (std::optional<bool> v = asBool(a))
    return boolean(!*v);
  if (a->kind == Kind::Not)
    return a->args[0];
  if (a->kind == Kind::NonNegative) // not x >= 0 is -x - 1 >= 0
    return nonNegative(sub(scale(a->args[0], -1), integer(1)));
  return make(Kind::Not, Type::Bool, {a});
}

namespace {
/// `and`; `or` is its dual through `isOr`.
Expr connect(const Expr &a, const Expr &b, bool isOr) {
  if (std::optional<bool> v = asBool(a))
    return *v != isOr ? b : a;
  if (std::optional<bool> v = asBool(b))
    return *v != isOr ? a : b;
  if (same(a, b))
    return a;
  if (same(a, logicalNot(b)))
    return boolean(isOr);
  if (a->kind == Kind::NonNegative && b->kind == Kind::NonNegative)
    // p >= 0 and p + k >= 0: the stronger holds (or: the weaker).
    if (std::optional<int64_t> k = asInt(sub(a->args[0], b->args[0])))
      return (*k < 0) != isOr ? a : b;
  Kind kind = isOr ? Kind::Or : Kind::And;
  return compare(a, b) < 0 ? make(kind, Type::Bool, {a, b})
                           : make(kind, Type::Bool, {b, a});
}
} // namespace

Expr dt::symbolic::logicalAnd(const Expr &a, const Expr &b) {
  return connect(a, b, false);
}
Expr dt::symbolic::logicalOr(const Expr &a, const Expr &b) {
  return connect(a, b, true);
}

Expr dt::symbolic::select(const Expr &c, const Expr &yes, const Expr &no) {
  if (std::optional<bool> v = asBool(c))
    return *v ? yes : no;
  if (same(yes, no))
    return yes;
  if (c->kind == Kind::Not)
    return select(c->args[0], no, yes);
  if (yes->type == Type::Bool) {
    if (std::optional<bool> v = asBool(yes))
      return *v ? logicalOr(c, no) : logicalAnd(logicalNot(c), no);
    if (std::optional<bool> v = asBool(no))
      return *v ? logicalOr(logicalNot(c), yes) : logicalAnd(c, yes);
  }
  return make(Kind::Select, yes->type, {c, yes, no});
}

Expr dt::symbolic::table(std::shared_ptr<const TableData> data,
                         const Expr &position) {
  std::optional<int64_t> at = asInt(position);
  if (at && *at >= 0 && static_cast<size_t>(*at) < data->size()) {
    if (data->type == Type::Float)
      return real(data->floats[*at]);
    return data->type == Type::Bool ? boolean(data->ints[*at])
                                    : integer(data->ints[*at]);
  }
  Node n{Kind::Table, data->type};
  n.table = std::move(data);
  n.args = {position};
  return finish(std::move(n));
}
