//===- RulesReduce.cpp - Reductions, running sums, arg max ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
struct ReduceAxes {
  SmallVector<int64_t> axes;
  bool keepdims = true, named = true; ///< named: the node says which axes
};

/// Axes to reduce; all where none are named, unless that means "nothing".
FailureOr<ReduceAxes> reduceAxes(NodeImporter &n) {
  ReduceAxes r;
  r.keepdims = n.intAttr("keepdims", 1);
  int64_t rank = n.rank(0);
  auto given = n.axes(1, rank);
  if (failed(given))
    return failure();
  if (*given)
    r.axes = **given;
  r.named = !r.axes.empty();
  bool noop = n.intAttr("noop_with_empty_axes", 0);
  if (r.axes.empty() && !noop)
    for (int64_t i = 0; i < rank; ++i)
      r.axes.push_back(i);
  llvm::sort(r.axes);
  return r;
}

using Before = Value (*)(NodeImporter &, Value);
Value same(NodeImporter &, Value v) { return v; }
Value absolute(NodeImporter &n, Value v) {
  if (n.isFloat(0))
    return n.make<nn::AbsOp>(v);
  Value negative = n.make<nn::SubOp>({n.number(0, n.element(0)), v});
  return n.make<nn::MaxOp>({v, negative});
}
Value square(NodeImporter &n, Value v) { return n.make<nn::MulOp>({v, v}); }
Value logarithm(NodeImporter &n, Value v) { return n.make<nn::LogOp>(v); }

/// The root of a sum of squares. Its slope at 0 is infinite, that of a norm is
/// taken as 0 (as in PyTorch): a row of zeros does not go through the root.
Value root(NodeImporter &n, Value v) {
  if (!v)
    return v;
  Type element = getElementTypeOrSelf(v);
  Value zero = n.number(0, element);
  Value none = n.compare(nn::Compare::eq, v, zero);
  Value some = n.make<nn::WhereOp>({none, n.number(1, element), v});
  return n.make<nn::WhereOp>({none, zero, n.make<nn::SqrtOp>(some)});
}

/// What roots and logarithms take: floats, as wide as whole numbers need. Their
/// result is cast back to the input's type.
Value asFloats(NodeImporter &n, Value v) {
  return n.isFloat(0) ? v : n.castTo(v, n.b.getF64Type());
}

/// Whether the first of a maximum's equal elements has the gradient. Without a
/// mark: along one axis, where it is PyTorch's max(dim) rather than amax.
bool takesFirst(NodeImporter &n, const ReduceAxes &r, nn::ReduceKind kind) {
  if ((kind != nn::ReduceKind::max && kind != nn::ReduceKind::min) ||
      !n.isFloat(0))
    return false;
  return n.node.ties.empty() ? r.named && r.axes.size() == 1
                             : n.node.ties == "first";
}

/// after(reduce(before(x)))
template <nn::ReduceKind kind, Before before = same, Before after = same>
LogicalResult reduce(NodeImporter &n) {
  FailureOr<ReduceAxes> r = reduceAxes(n);
  if (failed(r))
    return failure();
  Value v = before(n, n.value(0));
  if (after != same)
    v = asFloats(n, v);
  if (!r->axes.empty())
    v = n.reduce(kind, v, r->axes, r->keepdims, takesFirst(n, *r, kind));
  return n.set(0, n.castTo(after(n, v), n.element(0)));
}

/// Shapes and masks are reduced symbolically where that is possible.
template <nn::ReduceKind kind, symbolic::Reduction folded>
LogicalResult reduceFolding(NodeImporter &n) {
  FailureOr<ReduceAxes> r = reduceAxes(n);
  if (failed(r))
    return failure();
  if (const SymbolicTensor *t = n.symbolic(0))
    if (symbolic::Result result =
            symbolic::reduce(folded, *t, r->axes, r->keepdims))
      return n.set(0, *result);
  return reduce<kind>(n);
}

/// log(sum(exp(x - m))) + m with m the maximum: does not overflow.
LogicalResult reduceLogSumExp(NodeImporter &n) {
  FailureOr<ReduceAxes> r = reduceAxes(n);
  if (failed(r))
    return failure();
  if (r->axes.empty())
    return n.set(0, n.value(0));
  Value x = asFloats(n, n.value(0));
  Value m = n.reduce(nn::ReduceKind::max, x, r->axes, /*keepdims=*/true);
  if (!m)
    return failure();
  // Of infinities alone the maximum is no number to subtract.
  Type element = getElementTypeOrSelf(m);
  m = n.make<nn::WhereOp>({n.make<nn::IsInfOp>(m), n.number(0, element), m});
  Value e = n.make<nn::ExpOp>(n.make<nn::SubOp>({x, m}));
  Value y = n.make<nn::LogOp>(n.reduce(nn::ReduceKind::sum, e, r->axes, true));
  y = n.castTo(n.make<nn::AddOp>({y, m}), n.element(0));
  if (!y || r->keepdims)
    return n.set(0, y);
  Shape s;
  for (auto [i, d] : llvm::enumerate(n.shape(0)))
    if (!llvm::is_contained(r->axes, static_cast<int64_t>(i)))
      s.push_back(d);
  return n.set(0, n.reshape(y, s));
}

LogicalResult cumSum(NodeImporter &n) {
  FailureOr<int64_t> given = n.integer(1, "axis");
  if (failed(given))
    return failure();
  FailureOr<int64_t> axis = n.axis(*given, n.rank(0));
  if (failed(axis))
    return failure();
  bool exclusive = n.intAttr("exclusive", 0), reverse = n.intAttr("reverse", 0);
  if (const SymbolicTensor *t = n.symbolic(0))
    if (symbolic::Result r = symbolic::cumsum(*t, *axis, exclusive, reverse))
      return n.set(0, *r);
  SmallVector<NamedAttribute> attributes{n.i64("axis", *axis)};
  if (exclusive)
    attributes.push_back(n.unit("exclusive"));
  if (reverse)
    attributes.push_back(n.unit("reverse"));
  return n.set(0, n.make<nn::CumsumOp>(n.value(0), attributes));
}

LogicalResult argMost(NodeImporter &n, bool smallest) {
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (failed(axis))
    return failure();
  SmallVector<NamedAttribute> attributes{n.i64("axis", *axis)};
  if (n.intAttr("keepdims", 1))
    attributes.push_back(n.unit("keepdims"));
  if (smallest)
    attributes.push_back(n.unit("min"));
  if (n.intAttr("select_last_index", 0))
    attributes.push_back(n.unit("last"));
  return n.set(0, n.make<nn::ArgMaxOp>(n.value(0), attributes));
}
/// How many elements are taken: a number or a size.
FailureOr<DimExpr> numberTaken(NodeImporter &n) {
  FailureOr<Shape> k = n.dims(1, "K");
  if (failed(k))
    return failure();
  if (k->size() != 1)
    return n.fail("K must be one number");
  return k->front();
}

/// Of a table, such as an order that a model sorts back: tables.
bool foldTopK(NodeImporter &n, const SymbolicTensor &t, int64_t axis, int64_t k,
              bool smallest) {
  std::optional<symbolic::TableData> d = symbolic::evaluateAll(t);
  if (!d)
    return false;
  std::vector<int64_t> shape = symbolic::staticShape(t.shape);
  int64_t size = shape[axis], inner = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i)
    inner *= shape[i];
  bool isFloat = d->type == symbolic::Type::Float;
  symbolic::TableData values{d->type, {}, {}};
  symbolic::TableData indices{symbolic::Type::Int, {}, {}};
  shape[axis] = k;
  int64_t total = static_cast<int64_t>(d->size());
  int64_t outer = size * inner ? total / (size * inner) : 0;
  values.ints.resize(isFloat ? 0 : outer * k * inner);
  values.floats.resize(isFloat ? outer * k * inner : 0);
  indices.ints.resize(outer * k * inner);
  auto before = [&](int64_t a, int64_t b) {
    if (smallest)
      std::swap(a, b);
    if (!isFloat)
      return d->ints[a] > d->ints[b];
    double x = d->floats[a], y = d->floats[b];
    return std::isnan(x) ? !std::isnan(y) : x > y;
  };
  for (int64_t row = 0; row < outer * inner; ++row) {
    int64_t o = row / inner, c = row % inner;
    auto at = [&](int64_t i) { return (o * size + i) * inner + c; };
    std::vector<int64_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, [&](int64_t a, int64_t b) {
      return before(at(a), at(b)) || (!before(at(b), at(a)) && a < b);
    });
    for (int64_t i = 0; i < k; ++i) {
      int64_t to = (o * k + i) * inner + c;
      indices.ints[to] = order[i];
      if (isFloat)
        values.floats[to] = d->floats[at(order[i])];
      else
        values.ints[to] = d->ints[at(order[i])];
    }
  }
  symbolic::Result v = symbolic::literal(shape, t.element, std::move(values));
  symbolic::Result i =
      symbolic::literal(shape, symbolic::Element::Int64, std::move(indices));
  return v && i && succeeded(n.set(0, *v)) && succeeded(n.set(1, *i));
}

LogicalResult topK(NodeImporter &n) {
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  FailureOr<DimExpr> taken = numberTaken(n);
  if (failed(axis) || failed(taken))
    return failure();
  if (n.element(0).isInteger(1))
    return n.fail("needs numbers");
  DimExpr size = n.shape(0)[*axis];
  std::optional<int64_t> k = taken->asConstant(), from = size.asConstant();
  if (k && (*k < 0 || (from && *k > *from)))
    return n.fail("K is " + Twine(*k) + ", but axis " + Twine(*axis) + " has " +
                  size.str() + " elements");
  if (!(k && from) && *taken != size)
    return n.fail(
        "takes " + taken->str() + " of " + size.str() +
        " elements along axis " + Twine(*axis) +
        ": both must be numbers, or equal (bind the dim to a number)");
  bool smallest = !n.intAttr("largest", 1);
  if (const SymbolicTensor *t = n.symbolic(0); t && k)
    if (foldTopK(n, *t, *axis, *k, smallest))
      return success();
  Value x = n.value(0);
  if (!x)
    return failure();
  Shape shape = n.shape(0);
  shape[*axis] = *taken;
  auto op =
      nn::TopKOp::create(n.b, n.loc, nn::makeTensorType(shape, n.element(0)),
                         nn::makeTensorType(shape, n.b.getI64Type()), x,
                         static_cast<uint64_t>(*axis), smallest);
  if (failed(n.set(0, op.getValues())))
    return failure();
  return n.wants(1) ? n.set(1, op.getIndices()) : success();
}

LogicalResult argMax(NodeImporter &n) { return argMost(n, false); }
LogicalResult argMin(NodeImporter &n) { return argMost(n, true); }
} // namespace

void models::addReduceRules(RuleTable &rules) {
  using K = nn::ReduceKind;
  using R = symbolic::Reduction;
  rules["ReduceSum"] = reduceFolding<K::sum, R::Sum>;
  rules["ReduceMax"] = reduceFolding<K::max, R::Max>;
  rules["ReduceMin"] = reduceFolding<K::min, R::Min>;
  rules["ReduceProd"] = reduceFolding<K::prod, R::Prod>;
  rules["ReduceMean"] = reduce<K::mean>;
  rules["ReduceL1"] = reduce<K::sum, absolute>;
  rules["ReduceL2"] = reduce<K::sum, square, root>;
  rules["ReduceSumSquare"] = reduce<K::sum, square>;
  rules["ReduceLogSum"] = reduce<K::sum, same, logarithm>;
  rules["ReduceLogSumExp"] = reduceLogSumExp;
  rules["CumSum"] = cumSum;
  rules["TopK"] = topK;
  rules["ArgMax"] = argMax;
  rules["ArgMin"] = argMin;
}
