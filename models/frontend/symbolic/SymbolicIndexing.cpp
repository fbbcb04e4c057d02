//===- SymbolicIndexing.cpp - Movement, gathers, sums -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Moving elements is substituting indices.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/symbolic/Simplify.h"
#include "models/frontend/symbolic/SymbolicTensor.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace dt::symbolic;

namespace {
/// index(0), index(1), ... shifted.
std::vector<Expr> identity(int64_t rank) {
  std::vector<Expr> at;
  for (int64_t i = 0; i < rank; ++i)
    at.push_back(index(i));
  return at;
}

/// A position that may count from the end, as ONNX's gathers allow.
Expr wrapped(const Expr &position, const DimExpr &size, const Ranges &ranges) {
  Expr p = ranges.provenNonNegative(position) ? position : nullptr;
  if (p)
    return p;
  Expr fromEnd = add(position, fromDim(size));
  if (ranges.provenLessEqual(position, integer(-1)))
    return fromEnd;
  return select(less(position, integer(0)), fromEnd, position);
}

/// Whether a position along `axis` of t is proven to lie inside, or does not
/// matter; literals are read only there.
bool inside(const SymbolicTensor &t, int64_t axis, const Expr &position,
            const Ranges &ranges) {
  const DimExpr &size = t.shape[axis];
  return !dependsOn(t.value, axis) ||
         (ranges.provenNonNegative(position) &&
          ranges.provenLessEqual(add(position, integer(1)), fromDim(size)));
}
} // namespace

Result dt::symbolic::transpose(const SymbolicTensor &t,
                               llvm::ArrayRef<int64_t> permutation) {
  Shape shape;
  std::vector<Expr> at(t.rank());
  for (auto [i, p] : llvm::enumerate(permutation)) {
    shape.push_back(t.shape[p]);
    at[p] = index(i);
  }
  return fromFunction(shape, t.element, substitute(t.value, at));
}

Result dt::symbolic::reshape(const SymbolicTensor &t, Shape shape) {
  if (!t.value->hasIndex)
    return SymbolicTensor{std::move(shape), t.element, t.value};
  // Row-major position, then the old indices from it; simplification cancels
  // what splits and merges evenly.
  Expr position = integer(0);
  DimExpr stride(1);
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != DimExpr(1))
      position = add(position, mul(index(i), fromDim(stride)));
    stride = stride * shape[i];
  }
  std::vector<Expr> at(t.rank());
  stride = DimExpr(1);
  bool outermost = true;
  for (int64_t i = 0; i < t.rank(); ++i)
    if (t.shape[i] == DimExpr(0))
      return std::nullopt;
  std::vector<DimExpr> strides(t.rank());
  for (int64_t i = t.rank(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * t.shape[i];
  }
  for (int64_t i = 0; i < t.rank(); ++i) {
    if (t.shape[i] == DimExpr(1)) {
      at[i] = integer(0);
      continue;
    }
    Expr q = floorDiv(position, fromDim(strides[i]));
    at[i] = outermost ? q : mod(q, fromDim(t.shape[i]));
    outermost = false;
  }
  return fromFunction(std::move(shape), t.element, substitute(t.value, at));
}

Result dt::symbolic::broadcast(const SymbolicTensor &t, const Shape &shape) {
  int64_t shift = static_cast<int64_t>(shape.size()) - t.rank();
  std::vector<Expr> at;
  for (int64_t i = 0; i < t.rank(); ++i)
    at.push_back(t.shape[i] == DimExpr(1) ? integer(0) : index(i + shift));
  return fromFunction(shape, t.element, substitute(t.value, at));
}

Result dt::symbolic::slice(const SymbolicTensor &t, llvm::ArrayRef<Expr> starts,
                           llvm::ArrayRef<int64_t> steps, Shape shape) {
  std::vector<Expr> at;
  for (int64_t i = 0; i < t.rank(); ++i)
    at.push_back(add(starts[i], scale(index(i), steps[i])));
  return fromFunction(std::move(shape), t.element, substitute(t.value, at));
}

Result dt::symbolic::concat(llvm::ArrayRef<SymbolicTensor> inputs,
                            int64_t axis) {
  Shape shape = inputs.back().shape;
  DimExpr end;
  std::vector<DimExpr> starts;
  for (const SymbolicTensor &t : inputs) {
    starts.push_back(end);
    end = end + t.shape[axis];
  }
  shape[axis] = end;
  Expr value;
  for (size_t k = inputs.size(); k-- > 0;) {
    if (inputs[k].shape[axis] == DimExpr(0))
      continue;
    std::vector<Expr> at = identity(shape.size());
    at[axis] = sub(index(axis), fromDim(starts[k]));
    Expr part = substitute(inputs[k].value, at);
    DimExpr next = starts[k] + inputs[k].shape[axis];
    value =
        value ? select(less(index(axis), fromDim(next)), part, value) : part;
  }
  if (!value)
    value = inputs.back().value;
  Element element = inputs.back().element;
  if (Result r = fromFunction(shape, element, value))
    return r;
  // Sizes beside a list of numbers that is no range.
  Shape dims;
  for (const SymbolicTensor &t : inputs) {
    std::optional<Shape> part = asDims(t);
    if (!part)
      return std::nullopt;
    dims.append(*part);
  }
  SymbolicTensor t = fromDims(dims);
  t.element = element;
  return t;
}

Result dt::symbolic::tile(const SymbolicTensor &t,
                          llvm::ArrayRef<DimExpr> repeats) {
  Shape shape;
  std::vector<Expr> at;
  for (int64_t i = 0; i < t.rank(); ++i) {
    shape.push_back(t.shape[i] * repeats[i]);
    at.push_back(mod(index(i), fromDim(t.shape[i])));
  }
  return fromFunction(std::move(shape), t.element, substitute(t.value, at));
}

Result dt::symbolic::gather(const SymbolicTensor &t,
                            const SymbolicTensor &indices, int64_t axis) {
  Shape shape(t.shape.begin(), t.shape.begin() + axis);
  shape.append(indices.shape.begin(), indices.shape.end());
  shape.append(t.shape.begin() + axis + 1, t.shape.end());
  std::vector<Expr> where;
  for (int64_t i = 0; i < indices.rank(); ++i)
    where.push_back(index(axis + i));
  Ranges ranges(shape);
  Expr position = ranges.simplify(
      wrapped(substitute(indices.value, where), t.shape[axis], ranges));
  if (!inside(t, axis, position, ranges))
    return std::nullopt;
  std::vector<Expr> at;
  for (int64_t i = 0; i < t.rank(); ++i)
    at.push_back(i < axis    ? index(i)
                 : i == axis ? position
                             : index(i + indices.rank() - 1));
  return fromFunction(std::move(shape), t.element, substitute(t.value, at));
}

Result dt::symbolic::gatherElements(const SymbolicTensor &t,
                                    const SymbolicTensor &indices,
                                    int64_t axis) {
  Ranges ranges(indices.shape);
  Expr position =
      ranges.simplify(wrapped(indices.value, t.shape[axis], ranges));
  if (!inside(t, axis, position, ranges))
    return std::nullopt;
  std::vector<Expr> at = identity(t.rank());
  at[axis] = position;
  return fromFunction(indices.shape, t.element, substitute(t.value, at));
}

Result dt::symbolic::gatherNd(const SymbolicTensor &t,
                              const SymbolicTensor &indices,
                              int64_t batchDims) {
  std::optional<int64_t> k = indices.shape.back().asConstant();
  if (!k || batchDims + *k > t.rank())
    return std::nullopt;
  int64_t outer = indices.rank() - 1;
  Shape shape(indices.shape.begin(), indices.shape.end() - 1);
  shape.append(t.shape.begin() + batchDims + *k, t.shape.end());
  Ranges ranges(shape);
  std::vector<Expr> at;
  for (int64_t i = 0; i < batchDims; ++i)
    at.push_back(index(i));
  for (int64_t i = 0; i < *k; ++i) {
    std::vector<Expr> tuple = identity(outer);
    tuple.push_back(integer(i));
    const DimExpr &size = t.shape[batchDims + i];
    Expr p = ranges.simplify(
        wrapped(substitute(indices.value, tuple), size, ranges));
    if (!inside(t, batchDims + i, p, ranges))
      return std::nullopt;
    at.push_back(p);
  }
  for (int64_t i = batchDims + *k; i < t.rank(); ++i)
    at.push_back(index(outer + i - batchDims - *k));
  return fromFunction(std::move(shape), t.element, substitute(t.value, at));
}

namespace {
/// Coordinates of the elements that are not 0, a list an axis.
struct Places {
  Places(llvm::ArrayRef<int64_t> shape, const TableData &data)
      : axes(shape.size()) {
    for (size_t i = 0; i < data.size(); ++i) {
      bool isZero =
          data.type == Type::Float ? data.floats[i] == 0 : data.ints[i] == 0;
      if (isZero)
        continue;
      ++count;
      int64_t rest = i;
      for (size_t a = shape.size(); a-- > 0; rest /= shape[a])
        axes[a].push_back(rest % shape[a]);
    }
  }
  int64_t count = 0;
  std::vector<std::vector<int64_t>> axes;
};
} // namespace

Result dt::symbolic::nonZero(const SymbolicTensor &t) {
  // The places in the last axes come again for each index of the first ones.
  int64_t rank = t.rank(), lead = 0;
  while (lead < rank && !dependsOn(t.value, lead))
    ++lead;
  std::vector<Expr> at(lead, integer(0));
  for (int64_t a = lead; a < rank; ++a)
    at.push_back(index(a - lead));
  SymbolicTensor last{Shape(t.shape.begin() + lead, t.shape.end()), t.element,
                      substitute(t.value, at)};
  std::optional<TableData> data = evaluateAll(last);
  if (!data)
    return std::nullopt;
  Places places(staticShape(last.shape), *data);
  if (places.count == 0)
    return SymbolicTensor{
        {DimExpr(rank), DimExpr(0)}, Element::Int64, integer(0)};
  Expr place = mod(index(1), integer(places.count));
  Expr row = floorDiv(index(1), integer(places.count));
  std::vector<Expr> coordinates(rank);
  DimExpr rows(1);
  for (int64_t a = lead; a-- > 0; rows = rows * t.shape[a]) {
    Expr q = floorDiv(row, fromDim(rows));
    coordinates[a] = a == 0 ? q : mod(q, fromDim(t.shape[a]));
  }
  for (int64_t a = lead; a < rank; ++a) {
    TableData list{Type::Int, std::move(places.axes[a - lead]), {}};
    Result r = literal({places.count}, Element::Int64, std::move(list));
    if (!r)
      return std::nullopt;
    coordinates[a] = substitute(r->value, {place});
  }
  Expr value = integer(0);
  for (int64_t a = rank; a-- > 0;)
    value = select(lessEqual(index(0), integer(a)), coordinates[a], value);
  return fromFunction({DimExpr(rank), rows * DimExpr(places.count)},
                      Element::Int64, value);
}

Result dt::symbolic::cumsum(const SymbolicTensor &t, int64_t axis,
                            bool exclusive, bool reverse) {
  if (typeOf(t.element) != Type::Int)
    return std::nullopt;
  if (!dependsOn(t.value, axis)) {
    // So many equal elements stand before this one.
    Expr count = index(axis);
    if (reverse)
      count = sub(fromDim(t.shape[axis] - DimExpr(1)), count);
    if (!exclusive)
      count = add(count, integer(1));
    return fromFunction(t.shape, t.element, mul(count, t.value));
  }
  std::optional<TableData> d = evaluateAll(t);
  if (!d)
    return std::nullopt;
  std::vector<int64_t> shape;
  for (const DimExpr &s : t.shape)
    shape.push_back(s.constant());
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < t.rank(); ++i)
    inner *= shape[i];
  int64_t n = shape[axis], rows = d->ints.size() / std::max<int64_t>(n, 1);
  for (int64_t r = 0; r < rows; ++r) {
    uint64_t total = 0;
    for (int64_t k = 0; k < n; ++k) {
      int64_t at = reverse ? n - 1 - k : k;
      int64_t &v = d->ints[(r / inner * n + at) * inner + r % inner];
      uint64_t next = total + static_cast<uint64_t>(v);
      v = static_cast<int64_t>(exclusive ? total : next);
      total = next;
    }
  }
  return literal(shape, t.element, std::move(*d));
}

namespace {
Expr combine(Reduction kind, Type type, const Expr &a, const Expr &b) {
  switch (kind) {
  case Reduction::Sum:
    return type == Type::Float ? floatBinary(Kind::FAdd, a, b, true)
                               : add(a, b);
  case Reduction::Prod:
    return type == Type::Float ? floatBinary(Kind::FMul, a, b, true)
                               : mul(a, b);
  case Reduction::Max:
    return type == Type::Bool    ? logicalOr(a, b)
           : type == Type::Float ? floatBinary(Kind::FMax, a, b, true)
                                 : maximum(a, b);
  case Reduction::Min:
    return type == Type::Bool    ? logicalAnd(a, b)
           : type == Type::Float ? floatBinary(Kind::FMin, a, b, true)
                                 : minimum(a, b);
  }
  return a;
}

/// Along one axis, which stays with size 1.
Result reduceAxis(Reduction kind, const SymbolicTensor &t, int64_t axis) {
  Shape shape = t.shape;
  DimExpr n = shape[axis];
  shape[axis] = DimExpr(1);
  Type type = typeOf(t.element);
  // The largest of no elements is none of them.
  bool oneOf = (kind == Reduction::Max || kind == Reduction::Min) &&
               Ranges(shape).provenNonNegative(n - DimExpr(1));
  if (!dependsOn(t.value, axis) &&
      (oneOf || (kind == Reduction::Sum && type == Type::Int)))
    return fromFunction(shape, t.element,
                        oneOf ? t.value : mul(t.value, fromDim(n)));
  std::optional<int64_t> size = n.asConstant();
  if (!size || *size < 1 || *size > 1024)
    return std::nullopt;
  Expr total;
  for (int64_t k = 0; k < *size; ++k) {
    std::vector<Expr> at = identity(t.rank());
    at[axis] = integer(k);
    Expr v = substitute(t.value, at);
    total = total ? combine(kind, type, total, v) : v;
    if (total->size > maxExprSize)
      return std::nullopt;
  }
  return fromFunction(shape, t.element, total);
}
} // namespace

Result dt::symbolic::reduce(Reduction kind, const SymbolicTensor &t,
                            llvm::ArrayRef<int64_t> axes, bool keepdims) {
  Result r = t;
  for (int64_t axis : axes) {
    r = reduceAxis(kind, *r, axis);
    if (!r)
      return std::nullopt;
  }
  if (keepdims)
    return r;
  Shape shape;
  for (int64_t i = 0; i < t.rank(); ++i)
    if (!llvm::is_contained(axes, i))
      shape.push_back(r->shape[i]);
  return reshape(*r, shape);
}
