//===- SymbolicElementwise.cpp - Arithmetic, choices, casts -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/symbolic/Simplify.h"
#include "models/frontend/symbolic/SymbolicTensor.h"

#include "dialects/nn/NNShape.h"
#include <cmath>

using namespace dt::symbolic;

namespace {
/// t's element in terms of the indices of `shape`, which t broadcasts to.
Expr broadcastValue(const SymbolicTensor &t, const Shape &shape) {
  int64_t shift = static_cast<int64_t>(shape.size()) - t.rank();
  std::vector<Expr> at;
  for (int64_t i = 0; i < t.rank(); ++i)
    at.push_back(t.shape[i] == DimExpr(1) ? integer(0) : index(i + shift));
  return substitute(t.value, at);
}

Expr integerBinary(Binary op, const Expr &a, const Expr &b,
                   const Ranges &ranges) {
  switch (op) {
  case Binary::Add:
    return add(a, b);
  case Binary::Sub:
    return sub(a, b);
  case Binary::Mul:
    return mul(a, b);
  case Binary::Min:
    return minimum(a, b);
  case Binary::Max:
    return maximum(a, b);
  case Binary::Div:
  case Binary::FMod: {
    // Division truncates: the floor only where nothing is negative.
    std::optional<int64_t> x = asInt(a), y = asInt(b);
    if (x && y && *y != 0 && *y != -1)
      return integer(op == Binary::Div ? *x / *y : *x % *y);
    // Of a divisor that may be 0 the graph means nothing there.
    if (!ranges.provenNonNegative(a) || !ranges.provenNonNegative(b))
      return nullptr;
    return op == Binary::Div ? floorDiv(a, b) : mod(a, b);
  }
  case Binary::Mod:
    return ranges.provenNonNegative(b) ? mod(a, b) : nullptr;
  case Binary::Pow: {
    std::optional<int64_t> n = asInt(b);
    if (!n || *n < 0 || *n > 8)
      return nullptr;
    Expr r = integer(1);
    for (int64_t i = 0; i < *n; ++i)
      r = mul(r, a);
    return r;
  }
  default:
    return nullptr;
  }
}

Expr floatBinaryOp(Binary op, const Expr &a, const Expr &b) {
  switch (op) {
  case Binary::Add:
    return floatBinary(Kind::FAdd, a, b, true);
  case Binary::Sub:
    return floatBinary(Kind::FSub, a, b, true);
  case Binary::Mul:
    return floatBinary(Kind::FMul, a, b, true);
  case Binary::Div:
    return floatBinary(Kind::FDiv, a, b, true);
  case Binary::Min:
    return floatBinary(Kind::FMin, a, b, true);
  case Binary::Max:
    return floatBinary(Kind::FMax, a, b, true);
  case Binary::Pow: {
    std::optional<double> x = asFloat(a), y = asFloat(b);
    return x && y ? real(static_cast<float>(std::pow(*x, *y))) : nullptr;
  }
  default:
    return nullptr;
  }
}

Expr booleanBinary(Binary op, const Expr &a, const Expr &b) {
  switch (op) {
  case Binary::And:
  case Binary::Mul:
  case Binary::Min:
    return logicalAnd(a, b);
  case Binary::Or:
  case Binary::Add:
  case Binary::Max:
    return logicalOr(a, b);
  case Binary::Xor:
    return logicalNot(equal(a, b));
  default:
    return nullptr;
  }
}
} // namespace

Result dt::symbolic::binary(Binary op, const SymbolicTensor &a,
                            const SymbolicTensor &b) {
  std::optional<Shape> shape = dt::nn::broadcastShapes({a.shape, b.shape});
  if (!shape || a.element != b.element)
    return std::nullopt;
  Expr x = broadcastValue(a, *shape), y = broadcastValue(b, *shape);
  if (x->size + y->size > maxExprSize)
    return std::nullopt;
  bool isComparison =
      op == Binary::Equal || op == Binary::Less || op == Binary::LessEqual;
  Type type = typeOf(a.element);
  Expr value;
  if (op == Binary::Equal)
    value = equal(x, y);
  else if (isComparison && type != Type::Bool)
    value = op == Binary::Less ? less(x, y) : lessEqual(x, y);
  else if (type == Type::Bool)
    value = booleanBinary(op, x, y);
  else if (type == Type::Int)
    value = integerBinary(op, x, y, Ranges(*shape));
  else if (a.element == Element::F32)
    value = floatBinaryOp(op, x, y);
  if (!value)
    return std::nullopt;
  return fromFunction(*shape, isComparison ? Element::Bool : a.element, value);
}

Result dt::symbolic::negate(const SymbolicTensor &t) {
  if (typeOf(t.element) == Type::Int)
    return fromFunction(t.shape, t.element, scale(t.value, -1));
  if (t.element != Element::F32)
    return std::nullopt;
  return fromFunction(t.shape, t.element,
                      floatBinary(Kind::FMul, real(-1), t.value, true));
}

Result dt::symbolic::logicalNot(const SymbolicTensor &t) {
  if (t.element != Element::Bool)
    return std::nullopt;
  return fromFunction(t.shape, t.element, logicalNot(t.value));
}

Result dt::symbolic::mapFloat(const SymbolicTensor &t,
                              llvm::function_ref<double(double)> function) {
  auto apply = [&](double v) {
    double r = function(v);
    return t.element == Element::F64 ? r : static_cast<float>(r);
  };
  const Expr &v = t.value;
  SymbolicTensor out = t;
  if (std::optional<double> x = asFloat(v)) {
    out.value = real(apply(*x));
    return out;
  }
  if (v->kind == Kind::Select && asFloat(v->args[1]) && asFloat(v->args[2])) {
    out.value = select(v->args[0], real(apply(*asFloat(v->args[1]))),
                       real(apply(*asFloat(v->args[2]))));
    return out;
  }
  if (!v->hasTable)
    return std::nullopt;
  std::optional<TableData> d = evaluateAll(t);
  if (!d || d->type != Type::Float)
    return std::nullopt;
  for (double &x : d->floats)
    x = apply(x);
  return literal(staticShape(t.shape), t.element, std::move(*d));
}

Result dt::symbolic::where(const SymbolicTensor &c, const SymbolicTensor &yes,
                           const SymbolicTensor &no) {
  std::optional<Shape> shape =
      dt::nn::broadcastShapes({c.shape, yes.shape, no.shape});
  if (!shape || yes.element != no.element)
    return std::nullopt;
  return fromFunction(*shape, yes.element,
                      select(broadcastValue(c, *shape),
                             broadcastValue(yes, *shape),
                             broadcastValue(no, *shape)));
}

namespace {
/// The nearest number of a floating-point type.
double roundTo(Element to, double x) {
  return to == Element::F64 ? x : static_cast<float>(x);
}

/// One number's conversion; null where the value cannot be represented.
Expr castConstant(const Expr &e, Element to) {
  Type type = typeOf(to);
  if (e->kind == Kind::Float) {
    if (type == Type::Bool)
      return boolean(e->f != 0);
    if (type == Type::Float)
      return real(roundTo(to, e->f));
    if (!(e->f > -9.2e18 && e->f < 9.2e18))
      return nullptr;
    return castConstant(integer(static_cast<int64_t>(e->f)), to);
  }
  if (type == Type::Bool)
    return boolean(e->i != 0);
  if (type == Type::Float)
    return real(roundTo(to, static_cast<double>(e->i)));
  switch (to) {
  case Element::UInt8:
    return integer(static_cast<uint8_t>(e->i));
  case Element::Int8:
    return integer(static_cast<int8_t>(e->i));
  case Element::Int32:
    return integer(static_cast<int32_t>(e->i));
  default:
    return integer(e->i);
  }
}

Expr castExpr(const Expr &e, Type from, Element to, const Ranges &ranges) {
  Type type = typeOf(to);
  if (isConstant(e))
    return castConstant(e, to);
  if (from == Type::Bool && type != Type::Bool)
    return select(e, castConstant(integer(1), to),
                  castConstant(integer(0), to));
  // Float64 has all numbers of the other floating-point type.
  if (from == type && (type != Type::Float || to == Element::F64)) {
    bool narrow = to == Element::UInt8 || to == Element::Int8;
    if (!narrow || (ranges.provenNonNegative(e) &&
                    ranges.provenLessEqual(e, integer(127))))
      return e;
    return nullptr;
  }
  if (e->kind == Kind::Select) {
    Expr yes = castExpr(e->args[1], from, to, ranges);
    Expr no = castExpr(e->args[2], from, to, ranges);
    return yes && no ? select(e->args[0], yes, no) : nullptr;
  }
  if (from == Type::Int)
    return type == Type::Bool ? logicalNot(isZero(e)) : toFloat(e);
  if (e->kind == Kind::ToFloat)
    return castExpr(e->args[0], Type::Int, to, ranges);
  return nullptr;
}
} // namespace

Result dt::symbolic::cast(const SymbolicTensor &t, Element to) {
  if (t.element == to)
    return t;
  Ranges ranges(t.shape);
  if (Expr e = castExpr(t.value, typeOf(t.element), to, ranges))
    return fromFunction(t.shape, to, e);
  std::optional<TableData> d =
      t.value->hasTable ? evaluateAll(t) : std::nullopt;
  if (!d)
    return std::nullopt;
  TableData out{typeOf(to), {}, {}};
  for (size_t i = 0; i < d->size(); ++i) {
    Expr v = castConstant(elementOf(*d, i), to);
    if (!v)
      return std::nullopt;
    if (out.type == Type::Float)
      out.floats.push_back(v->f);
    else
      out.ints.push_back(v->i);
  }
  return literal(staticShape(t.shape), to, std::move(out));
}
