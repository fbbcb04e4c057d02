//===- RulesIndex.cpp - Gathers and scatters --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"
#include "models/frontend/import/PlacesInOrder.h"
#include "models/frontend/import/WholeSlices.h"
#include "models/frontend/symbolic/Simplify.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;
using symbolic::Expr;

namespace {
//===----------------------------------------------------------------------===//
// Indices that are known
//===----------------------------------------------------------------------===//

/// Fails where an index that is known is outside of axis `axis` of the data:
/// of each `stride` elements of the indices the one at `first` is for it. What
/// comes with the data is checked when the program runs.
LogicalResult checkInside(NodeImporter &n, const SymbolicTensor *indices,
                          int64_t axis, size_t first = 0, size_t stride = 1) {
  std::optional<int64_t> size = n.shape(0)[axis].asConstant();
  if (!indices || !size ||
      symbolic::typeOf(indices->element) != symbolic::Type::Int)
    return success();
  auto fail = [&](const Twine &what) {
    return n.fail(what + " outside of axis " + Twine(axis) + " of '" +
                  n.node.inputs[0] + "', which has " + Twine(*size) +
                  " elements");
  };
  if (std::optional<symbolic::TableData> all =
          symbolic::evaluateAll(*indices)) {
    for (size_t i = first; i < all->ints.size(); i += stride)
      if (int64_t v = all->ints[i]; v < -*size || v >= *size)
        return fail("index " + Twine(v) + " (element " + Twine(i) +
                    " of the indices) is");
    return success();
  }
  symbolic::Ranges ranges(indices->shape);
  if (stride == 1 &&
      (ranges.provenLessEqual(symbolic::integer(*size), indices->value) ||
       ranges.provenLessEqual(indices->value, symbolic::integer(-*size - 1))))
    return fail("all indices are");
  return success();
}

/// The same for tuples: element j of each is for axis `begin` + j.
LogicalResult checkTuples(NodeImporter &n, const SymbolicTensor *indices,
                          int64_t begin) {
  std::optional<int64_t> k = indices && indices->rank()
                                 ? indices->shape.back().asConstant()
                                 : std::nullopt;
  for (int64_t j = 0; k && j < *k && begin + j < n.rank(0); ++j)
    if (failed(checkInside(n, indices, begin + j, j, *k)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Gather
//===----------------------------------------------------------------------===//

/// Indices that are start + step * i: then a gather is a slice, whose gradient
/// needs no scatter (position embeddings, x[:, 0]).
struct Run {
  int64_t start, step;
  std::optional<int64_t> along; ///< the axis of the indices that counts
};

std::optional<Run> runOf(NodeImporter &n, const SymbolicTensor &indices,
                         const DimExpr &dim) {
  Run r{0, 1, std::nullopt};
  for (const symbolic::Term &t : symbolic::termsOf(indices.value)) {
    if (t.factors.empty()) {
      r.start = t.coefficient;
    } else if (t.factors.size() == 1 && !r.along &&
               t.factors[0]->kind == symbolic::Kind::Index) {
      r.step = t.coefficient;
      r.along = t.factors[0]->i;
    } else {
      return std::nullopt;
    }
  }
  std::optional<int64_t> size = dim.asConstant();
  if (r.start < 0 && size && !r.along)
    r.start += *size;
  // All inside: a slice has no wrap-around.
  symbolic::Ranges ranges(indices.shape, n.least);
  Expr at = r.along ? indices.value : symbolic::integer(r.start);
  if (!ranges.provenNonNegative(at))
    return std::nullopt;
  if (ranges.provenLessEqual(symbolic::add(at, symbolic::integer(1)),
                             symbolic::fromDim(dim)))
    return r;
  // Positions 0, 1, ... of a table with a fixed number of rows: a limit.
  bool limited =
      r.along && r.step == 1 && size &&
      n.assumeAtMost(indices.shape[*r.along] + DimExpr(r.start), *size);
  return limited ? std::optional(r) : std::nullopt;
}

/// The gather of a run: slice, then the indices' other axes by broadcast.
Value gatherRun(NodeImporter &n, const Run &r, const SymbolicTensor &indices,
                int64_t axis) {
  Value v = n.value(0);
  Shape in = n.shape(0);
  SmallVector<int64_t> starts(in.size(), 0), steps(in.size(), 1);
  starts[axis] = r.start;
  steps[axis] = r.step;
  Shape sliced = in;
  sliced[axis] = r.along ? indices.shape[*r.along] : DimExpr(1);
  if (sliced != in || r.start != 0 || r.step != 1)
    v = n.make<nn::SliceOp>(
        v, {n.array("starts", starts), n.array("steps", steps)},
        nn::makeTensorType(sliced, n.element(0)));
  Shape narrow(in.begin(), in.begin() + axis), wide = narrow;
  for (auto [i, d] : llvm::enumerate(indices.shape)) {
    bool counts = r.along && static_cast<int64_t>(i) == *r.along;
    narrow.push_back(counts ? d : DimExpr(1));
    wide.push_back(d);
  }
  narrow.append(in.begin() + axis + 1, in.end());
  wide.append(in.begin() + axis + 1, in.end());
  return n.broadcast(n.reshape(v, narrow), wide);
}

LogicalResult gather(NodeImporter &n) {
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (failed(axis))
    return failure();
  const SymbolicTensor *x = n.symbolic(0), *indices = n.symbolic(1);
  if (indices && symbolic::typeOf(indices->element) != symbolic::Type::Int)
    return n.fail("indices must be integers");
  if (failed(checkInside(n, indices, *axis)))
    return failure();
  if (x && indices)
    if (symbolic::Result r = symbolic::gather(*x, *indices, *axis))
      return n.set(0, *r);
  if (indices)
    if (std::optional<Run> r = runOf(n, *indices, n.shape(0)[*axis]))
      return n.set(0, gatherRun(n, *r, *indices, *axis));
  if (*axis == 0 && n.rank(1) == 1 && !indices)
    if (std::optional<Value> taken = gatherInOrder(n, n.value(1)))
      return n.set(0, *taken);
  return n.set(
      0, n.make<nn::GatherOp>({n.value(0), n.value(1)}, n.i64("axis", *axis)));
}

LogicalResult gatherElements(NodeImporter &n) {
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (failed(axis))
    return failure();
  const SymbolicTensor *x = n.symbolic(0), *indices = n.symbolic(1);
  if (failed(checkInside(n, indices, *axis)))
    return failure();
  if (x && indices && x->rank() == indices->rank())
    if (symbolic::Result r = symbolic::gatherElements(*x, *indices, *axis))
      return n.set(0, *r);
  return n.set(0, n.make<nn::GatherElementsOp>({n.value(0), n.value(1)},
                                               n.i64("axis", *axis)));
}

/// GatherND whose tuples are plain indices (x[i, j] for all i, j): the data's
/// own axes, moved to where the indices count. Exporters write masks of data
/// so.
std::optional<Value> gatherAxes(NodeImporter &n,
                                const SymbolicTensor &indices) {
  Shape data = n.shape(0);
  std::optional<int64_t> k = indices.shape.back().asConstant();
  int64_t outer = indices.rank() - 1;
  if (!k || *k != static_cast<int64_t>(data.size()))
    return std::nullopt;
  symbolic::Ranges ranges(indices.shape);
  SmallVector<std::pair<int64_t, int64_t>> axes; // (place in result, data axis)
  for (int64_t i = 0; i < *k; ++i) {
    std::vector<Expr> tuple;
    for (int64_t a = 0; a < outer; ++a)
      tuple.push_back(symbolic::index(a));
    tuple.push_back(symbolic::integer(i));
    Expr e = ranges.simplify(symbolic::substitute(indices.value, tuple));
    bool only = data[i] == DimExpr(1) && symbolic::asInt(e) == 0;
    if (only)
      continue;
    if (e->kind != symbolic::Kind::Index || indices.shape[e->i] != data[i])
      return std::nullopt;
    axes.push_back({e->i, i});
  }
  llvm::sort(axes);
  Shape narrow(outer, DimExpr(1)), kept;
  SmallVector<int64_t> permutation;
  for (auto [i, p] : llvm::enumerate(axes)) {
    if (i && axes[i - 1].first == p.first)
      return std::nullopt; // a diagonal
    narrow[p.first] = data[p.second];
    permutation.push_back(p.second);
  }
  for (int64_t i = 0; i < *k; ++i)
    if (!llvm::is_contained(permutation, i))
      permutation.push_back(i);
  Value v = n.reshape(n.transpose(n.value(0), permutation), narrow);
  return n.broadcast(v, Shape(indices.shape.begin(), indices.shape.end() - 1));
}

/// Whether tuples name each place of the data's first axes once and in order: a
/// mask of ones does (x[mask]).
bool namesAllInOrder(const Shape &data, const SymbolicTensor *indices) {
  std::optional<int64_t> k = indices && indices->rank()
                                 ? indices->shape.back().asConstant()
                                 : std::nullopt;
  if (!k || *k < 1 || *k > static_cast<int64_t>(data.size()))
    return false;
  ArrayRef<DimExpr> places = ArrayRef(data).take_front(*k);
  if (nn::getNumElements(ArrayRef(indices->shape).drop_back()) !=
      nn::getNumElements(places))
    return false;
  Shape split(places);
  split.push_back(DimExpr(*k));
  symbolic::Result tuples = symbolic::reshape(*indices, split);
  if (!tuples)
    return false;
  symbolic::Ranges ranges{Shape(places)};
  std::vector<Expr> at;
  for (int64_t j = 0; j < *k; ++j)
    at.push_back(symbolic::index(j));
  at.push_back(nullptr);
  for (int64_t j = 0; j < *k; ++j) {
    at.back() = symbolic::integer(j);
    Expr e = ranges.simplify(symbolic::substitute(tuples->value, at));
    if (!symbolic::same(e, ranges.simplify(symbolic::index(j))))
      return false;
  }
  return true;
}

LogicalResult gatherNd(NodeImporter &n) {
  int64_t batchDims = n.intAttr("batch_dims", 0);
  if (batchDims < 0 || n.rank(1) < 1 || batchDims >= n.rank(1) ||
      batchDims >= n.rank(0))
    return n.fail("batch_dims does not fit");
  Shape data = n.shape(0), tuples = n.shape(1);
  for (int64_t i = 0; i < batchDims; ++i)
    if (data[i] != tuples[i])
      return n.fail("data " + nn::shapeToString(data) + " and indices " +
                    nn::shapeToString(tuples) +
                    " must share their first dims (batch_dims is " +
                    Twine(batchDims) + ")");
  const SymbolicTensor *x = n.symbolic(0), *indices = n.symbolic(1);
  if (failed(checkTuples(n, indices, batchDims)))
    return failure();
  if (x && indices)
    if (symbolic::Result r = symbolic::gatherNd(*x, *indices, batchDims))
      return n.set(0, *r);
  if (batchDims == 0 && namesAllInOrder(data, indices)) {
    Shape taken(tuples.begin(), tuples.end() - 1);
    taken.append(data.begin() + tuples.back().constant(), data.end());
    return n.set(0, n.reshape(n.value(0), taken));
  }
  if (indices && batchDims == 0)
    if (std::optional<Value> v = gatherAxes(n, *indices))
      return n.set(0, *v);
  // Rows named by one index are a gather, which knows embeddings' gradient.
  if (batchDims == 0 && n.shape(1).back() == DimExpr(1)) {
    if (n.rank(1) == 2 && !indices)
      if (std::optional<Value> taken = gatherInOrder(n, n.value(1)))
        return n.set(0, *taken);
    return n.set(0, n.make<nn::GatherOp>(
                        {n.value(0), n.squeeze(n.value(1), n.rank(1) - 1)},
                        n.i64("axis", 0)));
  }
  return n.set(0, n.make<nn::GatherNdOp>({n.value(0), n.value(1)},
                                         n.i64("batch_dims", batchDims)));
}

//===----------------------------------------------------------------------===//
// masked_scatter: NonZero -> Transpose -> ScatterND
//===----------------------------------------------------------------------===//

LogicalResult nonZero(NodeImporter &n) {
  if (n.rank(0) == 0)
    return n.fail("of a scalar is not handled");
  const SymbolicTensor *mask = n.symbolic(0);
  if (mask)
    if (symbolic::Result r = symbolic::nonZero(*mask))
      return n.set(0, *r);
  Value x = n.value(0);
  if (!x)
    return failure();
  if (!n.element(0).isInteger(1))
    x = n.compare(nn::Compare::ne, x, n.number(0, n.element(0)));
  if (!x)
    return failure();
  // A name that no file's dim can have: parameters of names end in a letter.
  std::string count = "nonzero." + n.node.name;
  for (char &c : count)
    if (!llvm::isAlnum(c) && c != '_' && c != '.')
      c = '_';
  bool isKnown = mask || n.value(0).getDefiningOp<nn::ReadOp>();
  std::string of = "NonZero '" + n.node.name + "' finds in " +
                   (isKnown ? "a mask of open sizes or of more than 64 Ki "
                              "elements"
                            : "data");
  n.output(0).nonZero = GraphValue::NonZero{x, count, of};
  return success();
}

//===----------------------------------------------------------------------===//
// Scatter
//===----------------------------------------------------------------------===//

FailureOr<nn::ScatterKind> scatterKind(NodeImporter &n) {
  std::string reduction = n.stringAttr("reduction", "none");
  if (reduction == "none")
    return nn::ScatterKind::set;
  std::optional<nn::ScatterKind> kind = nn::symbolizeScatterKind(reduction);
  if (!kind || kind == nn::ScatterKind::set)
    return n.fail("reduction '" + reduction +
                  "' is none of none, add, mul, max, min");
  return *kind;
}

Value scatter(NodeImporter &n, nn::ScatterKind kind, Value indices) {
  return n.make<nn::ScatterNdOp>(
      {n.value(0), indices, n.value(2)},
      n.named("kind", nn::ScatterKindAttr::get(n.b.getContext(), kind)));
}

LogicalResult checkUpdates(NodeImporter &n) {
  Shape data = n.shape(0), indices = n.shape(1), updates = n.shape(2);
  std::optional<int64_t> k =
      indices.empty() ? std::nullopt : indices.back().asConstant();
  if (!k || *k > static_cast<int64_t>(data.size()))
    return n.fail("indices do not address the data");
  Shape wanted(indices.begin(), indices.end() - 1);
  wanted.append(data.begin() + *k, data.end());
  if (wanted != updates || n.element(0) != n.element(2))
    return n.fail("updates must be " + nn::shapeToString(wanted) + ", got " +
                  nn::shapeToString(updates));
  return success();
}

LogicalResult scatterNd(NodeImporter &n) {
  FailureOr<nn::ScatterKind> kind = scatterKind(n);
  if (failed(kind) || !n.has(0) || !n.has(1) || !n.has(2))
    return n.fail("needs three inputs");
  if (GraphValue *at = n.input(1); at->nonZero) {
    GraphValue *updates = n.input(2);
    if (!at->nonZero->transposed || *kind != nn::ScatterKind::set ||
        !updates->prefix || updates->prefix->count != at->nonZero->count)
      return n.fail("positions of a NonZero are only handled in the form of "
                    "masked_scatter");
    return maskedScatter(n, at->nonZero->mask, updates->prefix->of);
  }
  if (failed(checkUpdates(n)) || failed(checkTuples(n, n.symbolic(1), 0)))
    return failure();
  if (*kind == nn::ScatterKind::set &&
      namesAllInOrder(n.shape(0), n.symbolic(1))) {
    if (const SymbolicTensor *updates = n.symbolic(2))
      if (symbolic::Result r = symbolic::reshape(*updates, n.shape(0)))
        return n.set(0, *r);
    return n.set(0, n.reshape(n.value(2), n.shape(0)));
  }
  if (std::optional<Value> put = putTuples(n, *kind))
    return n.set(0, *put);
  return n.set(0, scatter(n, *kind, n.value(1)));
}

/// As ScatterND with every coordinate written out; the one along `axis` comes
/// from the indices.
LogicalResult scatterElements(NodeImporter &n) {
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  FailureOr<nn::ScatterKind> kind = scatterKind(n);
  if (failed(axis) || failed(kind))
    return failure();
  Shape places = n.shape(1);
  if (static_cast<int64_t>(places.size()) != n.rank(0) ||
      n.shape(2) != places || n.element(0) != n.element(2))
    return n.fail("data, indices and updates do not fit");
  if (failed(checkInside(n, n.symbolic(1), *axis)))
    return failure();
  if (std::optional<Value> put = putElements(n, *kind, *axis))
    return n.set(0, *put);
  Type i64 = n.b.getI64Type();
  Shape column = places;
  column.push_back(DimExpr(1));
  SmallVector<Value> tuple;
  for (int64_t i = 0; i < n.rank(0); ++i) {
    if (i == *axis) {
      tuple.push_back(n.reshape(n.castTo(n.value(1), i64), column));
      continue;
    }
    SymbolicTensor t{column, symbolic::Element::Int64, symbolic::index(i)};
    tuple.push_back(n.emit(t));
  }
  Value at = n.make<nn::ConcatOp>(tuple, n.i64("axis", n.rank(0)));
  return n.set(0, scatter(n, *kind, at));
}

/// values[1] where the index is the place along the new axis, else values[0].
LogicalResult oneHot(NodeImporter &n) {
  FailureOr<int64_t> depth = n.integer(1, "depth");
  if (failed(depth))
    return failure();
  if (*depth < 1 || n.shape(2) != Shape{DimExpr(2)})
    return n.fail("needs a positive depth and two values");
  int64_t rank = n.rank(0);
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", -1), rank + 1);
  if (failed(axis))
    return failure();
  Type i64 = n.b.getI64Type();
  Value at = n.unsqueeze(n.castTo(n.value(0), i64), *axis);
  // Negative indices count from the end.
  Value fromEnd =
      n.make<nn::AddOp>({at, n.number(static_cast<double>(*depth), i64)});
  at = n.make<nn::WhereOp>(
      {n.compare(nn::Compare::lt, at, n.number(0, i64)), fromEnd, at});
  Shape along(rank + 1, DimExpr(1));
  along[*axis] = DimExpr(*depth);
  Value places = n.emit(
      SymbolicTensor{along, symbolic::Element::Int64, symbolic::index(*axis)});
  Value hit = n.compare(nn::Compare::eq, at, places);
  Value values = n.value(2);
  Value off = n.squeeze(n.sliceAxis(values, 0, 0, DimExpr(1)), 0);
  Value on = n.squeeze(n.sliceAxis(values, 0, 1, DimExpr(1)), 0);
  return n.set(0, n.make<nn::WhereOp>({hit, on, off}));
}
} // namespace

void models::addIndexRules(RuleTable &rules) {
  rules["Gather"] = gather;
  rules["GatherElements"] = gatherElements;
  rules["GatherND"] = gatherNd;
  rules["NonZero"] = nonZero;
  rules["ScatterND"] = scatterNd;
  rules["ScatterElements"] = scatterElements;
  rules["Scatter"] = scatterElements;
  rules["OneHot"] = oneHot;
}
