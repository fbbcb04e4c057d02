//===- SymbolicTensor.cpp - Making, reading, elementwise --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/symbolic/SymbolicTensor.h"

#include "models/frontend/symbolic/Simplify.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <cstring>

using namespace dt::symbolic;

Type dt::symbolic::typeOf(Element element) {
  switch (element) {
  case Element::Bool:
    return Type::Bool;
  case Element::UInt8:
  case Element::Int8:
  case Element::Int32:
  case Element::Int64:
    return Type::Int;
  default:
    return Type::Float;
  }
}

Expr dt::symbolic::elementOf(const TableData &d, size_t i) {
  if (d.type == Type::Float)
    return real(d.floats[i]);
  return d.type == Type::Bool ? boolean(d.ints[i] != 0) : integer(d.ints[i]);
}

std::vector<int64_t> dt::symbolic::staticShape(const Shape &shape) {
  std::vector<int64_t> out;
  for (const DimExpr &d : shape)
    out.push_back(d.constant());
  return out;
}

std::optional<int64_t> SymbolicTensor::numElements() const {
  int64_t n = 1;
  for (const DimExpr &d : shape) {
    std::optional<int64_t> v = d.asConstant();
    if (!v || llvm::MulOverflow(n, *v, n))
      return std::nullopt;
  }
  return n;
}

//===----------------------------------------------------------------------===//
// Literals
//===----------------------------------------------------------------------===//

namespace {
bool equalAt(const TableData &d, size_t i, size_t j) {
  if (d.type == Type::Float) // by bits: -0 is not 0, not-a-number is itself
    return std::memcmp(&d.floats[i], &d.floats[j], sizeof(double)) == 0;
  return d.ints[i] == d.ints[j];
}

std::vector<int64_t> stridesOf(llvm::ArrayRef<int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// base + sum c_i d_i, if that is what an integer array holds.
Expr affinePattern(llvm::ArrayRef<int64_t> shape, const TableData &d) {
  std::vector<int64_t> strides = stridesOf(shape);
  std::vector<uint64_t> slope(shape.size(), 0);
  for (size_t a = 0; a < shape.size(); ++a)
    if (shape[a] > 1)
      slope[a] = static_cast<uint64_t>(d.ints[strides[a]]) -
                 static_cast<uint64_t>(d.ints[0]);
  for (size_t i = 0; i < d.ints.size(); ++i) {
    uint64_t v = d.ints[0];
    for (size_t a = 0; a < shape.size(); ++a)
      v += slope[a] * ((i / strides[a]) % shape[a]);
    if (static_cast<int64_t>(v) != d.ints[i])
      return nullptr;
  }
  Expr e = integer(d.ints[0]);
  for (size_t a = 0; a < shape.size(); ++a)
    e = add(e, scale(index(a), static_cast<int64_t>(slope[a])));
  return e;
}

/// A triangle over the two dims larger than 1: `b - a <= k` or `>= k`, for
/// arrays with two values (masks written out).
Expr trianglePattern(llvm::ArrayRef<int64_t> shape, const TableData &d) {
  std::vector<size_t> axes;
  for (size_t a = 0; a < shape.size(); ++a)
    if (shape[a] > 1)
      axes.push_back(a);
  if (axes.size() != 2)
    return nullptr;
  std::vector<int64_t> strides = stridesOf(shape);
  size_t n = d.size(), other = 0;
  for (size_t i = 1; i < n && !other; ++i)
    if (!equalAt(d, 0, i))
      other = i;
  auto diagonal = [&](size_t i) {
    int64_t a = (i / strides[axes[0]]) % shape[axes[0]];
    int64_t b = (i / strides[axes[1]]) % shape[axes[1]];
    return b - a;
  };
  // Element 0 (diagonal 0) has the first value: its largest diagonal if it is
  // the lower triangle, its smallest if it is the upper.
  int64_t largest = 0, smallest = 0;
  for (size_t i = 0; i < n; ++i) {
    bool first = equalAt(d, 0, i);
    if (!first && !equalAt(d, other, i))
      return nullptr; // a third value
    if (first) {
      largest = std::max(largest, diagonal(i));
      smallest = std::min(smallest, diagonal(i));
    }
  }
  bool lower = true, upper = true;
  for (size_t i = 0; i < n; ++i) {
    bool first = equalAt(d, 0, i);
    lower &= first == (diagonal(i) <= largest);
    upper &= first == (diagonal(i) >= smallest);
  }
  if (!lower && !upper)
    return nullptr;
  Expr difference = sub(index(axes[1]), index(axes[0]));
  Expr condition = lower ? lessEqual(difference, integer(largest))
                         : lessEqual(integer(smallest), difference);
  return select(condition, elementOf(d, 0), elementOf(d, other));
}

Expr patternOf(llvm::ArrayRef<int64_t> shape, const TableData &d) {
  if (d.size() == 0)
    return d.type == Type::Float  ? real(0)
           : d.type == Type::Bool ? boolean(false)
                                  : integer(0);
  bool uniform = true;
  for (size_t i = 1; i < d.size() && uniform; ++i)
    uniform = equalAt(d, 0, i);
  if (uniform)
    return elementOf(d, 0);
  if (d.type == Type::Int)
    if (Expr e = affinePattern(shape, d))
      return e;
  return trianglePattern(shape, d);
}

Expr linearPosition(llvm::ArrayRef<int64_t> shape) {
  Expr position = integer(0);
  std::vector<int64_t> strides = stridesOf(shape);
  for (size_t a = 0; a < shape.size(); ++a)
    if (shape[a] != 1)
      position = add(position, scale(index(a), strides[a]));
  return position;
}

bool hasSymbol(const Expr &e) {
  if (e->kind == Kind::Symbol)
    return true;
  for (const Expr &a : e->args)
    if (hasSymbol(a))
      return true;
  for (const Term &t : e->terms)
    for (const Expr &f : t.factors)
      if (hasSymbol(f))
        return true;
  return false;
}
} // namespace

Result dt::symbolic::literal(llvm::ArrayRef<int64_t> shape, Element element,
                             TableData data) {
  SymbolicTensor t;
  for (int64_t d : shape)
    t.shape.push_back(DimExpr(d));
  t.element = element;
  t.value = patternOf(shape, data);
  if (t.value)
    return t;
  if (data.size() > static_cast<size_t>(maxLiteral))
    return std::nullopt;
  Expr position = linearPosition(shape);
  t.value = table(std::make_shared<const TableData>(std::move(data)), position);
  return t;
}

std::optional<TableData> dt::symbolic::evaluateAll(const SymbolicTensor &t) {
  std::optional<int64_t> n = t.numElements();
  if (!n || *n > maxLiteral || hasSymbol(t.value))
    return std::nullopt;
  TableData d{typeOf(t.element), {}, {}};
  std::vector<int64_t> shape = staticShape(t.shape), at(shape.size(), 0);
  for (int64_t i = 0; i < *n; ++i) {
    std::optional<Scalar> v = evaluate(t.value, at);
    if (!v)
      return std::nullopt;
    if (d.type == Type::Float)
      d.floats.push_back(v->f);
    else
      d.ints.push_back(v->i);
    for (size_t a = shape.size(); a-- > 0;) {
      if (++at[a] < shape[a])
        break;
      at[a] = 0;
    }
  }
  return d;
}

/// Whether the dims that the element depends on are few and known.
static bool dependsOnLittle(const SymbolicTensor &t) {
  int64_t n = 1;
  for (auto [i, d] : llvm::enumerate(t.shape)) {
    if (!dependsOn(t.value, i))
      continue;
    std::optional<int64_t> v = d.asConstant();
    if (!v || llvm::MulOverflow(n, *v, n) || n > maxLiteral)
      return false;
  }
  return !hasSymbol(t.value);
}

Result dt::symbolic::fromFunction(Shape shape, Element element, Expr value) {
  SymbolicTensor t{std::move(shape), element, std::move(value)};
  if (t.value->size > maxExprSize)
    return std::nullopt;
  t.value = Ranges(t.shape).simplify(t.value);
  bool composed = t.value->hasTable && !(t.value->kind == Kind::Table &&
                                         !t.value->args[0]->hasTable);
  if (composed || t.value->size > maxExprSize / 4) {
    // Small enough to be written out: a literal again.
    if (std::optional<TableData> d = evaluateAll(t))
      return literal(staticShape(t.shape), element, std::move(*d));
  }
  if (t.value->size > maxExprSize || (composed && !dependsOnLittle(t)))
    return std::nullopt;
  return t;
}

//===----------------------------------------------------------------------===//
// Making and reading
//===----------------------------------------------------------------------===//

SymbolicTensor dt::symbolic::scalar(Element element, Expr value) {
  return {{}, element, std::move(value)};
}

SymbolicTensor dt::symbolic::fromDims(llvm::ArrayRef<DimExpr> dims) {
  int64_t n = dims.size();
  Expr value = n ? fromDim(dims[n - 1]) : integer(0);
  for (int64_t i = n - 1; i-- > 0;)
    value = select(lessEqual(index(0), integer(i)), fromDim(dims[i]), value);
  SymbolicTensor t{{DimExpr(n)}, Element::Int64, value};
  Result r = fromFunction(t.shape, t.element, value);
  return r ? *r : t;
}

Result dt::symbolic::range(const SymbolicTensor &start,
                           const SymbolicTensor &limit,
                           const SymbolicTensor &delta, const Least &least) {
  if (typeOf(start.element) == Type::Float) {
    std::optional<double> a = asFloat(start.value), b = asFloat(limit.value),
                          d = asFloat(delta.value);
    if (!a || !b || !d || *d == 0)
      return std::nullopt;
    double n = std::max(0.0, std::ceil((*b - *a) / *d));
    if (!(n <= maxLiteral))
      return std::nullopt;
    TableData data{Type::Float, {}, {}};
    for (int64_t i = 0; i < static_cast<int64_t>(n); ++i)
      data.floats.push_back(static_cast<float>(*a + i * *d));
    return literal({static_cast<int64_t>(n)}, start.element, std::move(data));
  }
  std::optional<int64_t> d = asInt(delta.value);
  if (!d || *d == 0 || *d == INT64_MIN)
    return std::nullopt;
  // ceil((limit - start) / delta), not below 0.
  Expr span = sub(limit.value, start.value);
  if (*d < 0)
    span = scale(span, -1);
  int64_t step = *d < 0 ? -*d : *d;
  Ranges none({}, least);
  Expr count =
      none.simplify(floorDiv(add(span, integer(step - 1)), integer(step)));
  if (std::optional<int64_t> n = asInt(count); n && *n < 0)
    count = integer(0);
  std::optional<DimExpr> size = asDim(count);
  if (!size || !none.provenNonNegative(*size))
    return std::nullopt;
  return fromFunction({*size}, start.element,
                      add(start.value, scale(index(0), *d)));
}

std::optional<llvm::SmallVector<Expr>>
dt::symbolic::elements(const SymbolicTensor &t) {
  std::optional<int64_t> n = t.numElements();
  if (!n || *n > 4096 || t.rank() > 1)
    return std::nullopt;
  llvm::SmallVector<Expr> out;
  Ranges none({});
  for (int64_t i = 0; i < *n; ++i)
    out.push_back(none.simplify(substitute(t.value, {integer(i)})));
  return out;
}

/// What `read` makes of every element, unless it makes nothing of one.
template <typename List>
static std::optional<List>
readElements(const SymbolicTensor &t,
             std::optional<typename List::value_type> (*read)(const Expr &)) {
  auto es = elements(t);
  if (!es)
    return std::nullopt;
  List out;
  for (const Expr &e : *es) {
    auto v = read(e);
    if (!v)
      return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

std::optional<Shape> dt::symbolic::asDims(const SymbolicTensor &t) {
  return readElements<Shape>(t, asDim);
}

std::optional<llvm::SmallVector<int64_t>>
dt::symbolic::asInts(const SymbolicTensor &t) {
  return readElements<llvm::SmallVector<int64_t>>(t, asInt);
}

std::optional<llvm::SmallVector<double>>
dt::symbolic::asFloats(const SymbolicTensor &t) {
  return readElements<llvm::SmallVector<double>>(t, asFloat);
}
