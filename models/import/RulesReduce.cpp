//===- RulesReduce.cpp - Reductions, running sums, arg max ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/import/NodeImporter.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
struct ReduceAxes {
  SmallVector<int64_t> axes;
  bool keepdims = true;
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
  bool noop = n.intAttr("noop_with_empty_axes", 0);
  if (r.axes.empty() && !noop)
    for (int64_t i = 0; i < rank; ++i)
      r.axes.push_back(i);
  llvm::sort(r.axes);
  return r;
}

using Before = Value (*)(NodeImporter &, Value);
Value same(NodeImporter &, Value v) { return v; }
Value absolute(NodeImporter &n, Value v) { return n.make<nn::AbsOp>(v); }
Value square(NodeImporter &n, Value v) { return n.make<nn::MulOp>({v, v}); }
Value root(NodeImporter &n, Value v) { return n.make<nn::SqrtOp>(v); }
Value logarithm(NodeImporter &n, Value v) { return n.make<nn::LogOp>(v); }

/// after(reduce(before(x)))
template <nn::ReduceKind kind, Before before = same, Before after = same>
LogicalResult reduce(NodeImporter &n) {
  FailureOr<ReduceAxes> r = reduceAxes(n);
  if (failed(r))
    return failure();
  Value v = before(n, n.value(0));
  if (!r->axes.empty())
    v = n.reduce(kind, v, r->axes, r->keepdims);
  return n.set(0, after(n, v));
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
  Value x = n.value(0);
  if (r->axes.empty())
    return n.set(0, x);
  Value m = n.reduce(nn::ReduceKind::max, x, r->axes, /*keepdims=*/true);
  Value e = n.make<nn::ExpOp>(n.make<nn::SubOp>({x, m}));
  Value y = n.make<nn::LogOp>(n.reduce(nn::ReduceKind::sum, e, r->axes, true));
  y = n.make<nn::AddOp>({y, m});
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
  rules["ArgMax"] = argMax;
  rules["ArgMin"] = argMin;
}
