//===- RulesShape.cpp - Shapes, creation, rearrangement ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"
#include "models/frontend/import/Parameters.h"

#include <cstring>

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
/// Result i: the operand with other dims, symbolic or as IR.
LogicalResult setReshaped(NodeImporter &n, const Shape &shape) {
  if (nn::getNumElements(shape) != nn::getNumElements(n.shape(0)))
    return n.fail("cannot reshape " + nn::shapeToString(n.shape(0)) + " to " +
                  nn::shapeToString(shape));
  if (const SymbolicTensor *t = n.symbolic(0))
    if (symbolic::Result r = symbolic::reshape(*t, shape))
      return n.set(0, *r);
  return n.set(0, n.reshape(n.value(0), shape));
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

LogicalResult shapeOf(NodeImporter &n) {
  Shape s = n.shape(0);
  int64_t rank = s.size();
  auto clamp = [&](int64_t v) {
    return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank);
  };
  int64_t start = clamp(n.intAttr("start", 0));
  int64_t end = clamp(n.intAttr("end", rank));
  if (end < start)
    end = start;
  return n.set(0, symbolic::fromDims(ArrayRef(s).slice(start, end - start)));
}

LogicalResult sizeOf(NodeImporter &n) {
  return n.set(
      0, symbolic::scalar(symbolic::Element::Int64,
                          symbolic::fromDim(nn::getNumElements(n.shape(0)))));
}

LogicalResult reshape(NodeImporter &n) {
  FailureOr<Shape> wanted = n.dims(1, "shape");
  if (failed(wanted))
    return failure();
  Shape in = n.shape(0), out = *wanted;
  bool allowZero = n.intAttr("allowzero", 0);
  std::optional<size_t> open;
  DimExpr known(1);
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == DimExpr(-1)) {
      if (open)
        return n.fail("the shape has two -1");
      open = i;
      continue;
    }
    if (out[i] == DimExpr(0) && !allowZero) {
      if (i >= in.size())
        return n.fail("the shape copies dim " + Twine(i) +
                      ", which the input lacks");
      out[i] = in[i];
    }
    known = known * out[i];
  }
  if (open) {
    std::optional<DimExpr> rest = nn::getNumElements(in).exactDiv(known);
    if (!rest)
      return n.fail("cannot reshape " + nn::shapeToString(in) + " to " +
                    nn::shapeToString(out));
    out[*open] = *rest;
  }
  return setReshaped(n, out);
}

LogicalResult flatten(NodeImporter &n) {
  Shape in = n.shape(0);
  int64_t rank = in.size(), axis = n.intAttr("axis", 1);
  if (axis < 0)
    axis += rank;
  if (axis < 0 || axis > rank)
    return n.fail("axis is out of range");
  return setReshaped(n, {nn::getNumElements(ArrayRef(in).take_front(axis)),
                         nn::getNumElements(ArrayRef(in).drop_front(axis))});
}

LogicalResult squeeze(NodeImporter &n) {
  Shape in = n.shape(0), out;
  auto axes = n.axes(1, in.size());
  if (failed(axes))
    return failure();
  for (auto [i, d] : llvm::enumerate(in)) {
    bool drop = *axes ? llvm::is_contained(**axes, static_cast<int64_t>(i))
                      : d == DimExpr(1);
    if (drop && d != DimExpr(1))
      return n.fail("axis " + Twine(i) + " has size " + d.str() + ", not 1");
    if (!drop)
      out.push_back(d);
  }
  return setReshaped(n, out);
}

LogicalResult unsqueeze(NodeImporter &n) {
  Shape in = n.shape(0), out;
  FailureOr<SmallVector<int64_t>> given = n.ints(1, "axes");
  if (failed(given))
    return failure();
  auto axes = n.axes(1, in.size() + given->size());
  if (failed(axes))
    return failure();
  size_t next = 0;
  for (size_t i = 0; i < in.size() + given->size(); ++i)
    out.push_back(llvm::is_contained(**axes, static_cast<int64_t>(i))
                      ? DimExpr(1)
                      : in[next++]);
  return setReshaped(n, out);
}

//===----------------------------------------------------------------------===//
// Rearrangement
//===----------------------------------------------------------------------===//

LogicalResult transpose(NodeImporter &n) {
  int64_t rank = n.rank(0);
  SmallVector<int64_t> permutation = n.intsAttr("perm");
  if (permutation.empty())
    for (int64_t i = rank; i-- > 0;)
      permutation.push_back(i);
  SmallVector<int64_t> sorted = permutation;
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(rank)))
    return n.fail("perm is not a permutation of " + Twine(rank) + " axes");
  if (GraphValue *v = n.input(0); v && v->nonZero) {
    n.output(0) = *v;
    n.output(0).nonZero->transposed = !v->nonZero->transposed;
    return success();
  }
  if (const SymbolicTensor *t = n.symbolic(0))
    if (symbolic::Result r = symbolic::transpose(*t, permutation))
      return n.set(0, *r);
  return n.set(0, n.transpose(n.value(0), permutation));
}

LogicalResult expand(NodeImporter &n) {
  FailureOr<Shape> wanted = n.dims(1, "shape");
  if (failed(wanted))
    return failure();
  std::optional<Shape> shape = nn::broadcastShapes({n.shape(0), *wanted});
  if (!shape)
    return n.fail(nn::shapeToString(n.shape(0)) + " does not broadcast to " +
                  nn::shapeToString(*wanted));
  if (const SymbolicTensor *t = n.symbolic(0))
    if (symbolic::Result r = symbolic::broadcast(*t, *shape))
      return n.set(0, *r);
  return n.set(0, n.broadcast(n.value(0), *shape));
}

LogicalResult concat(NodeImporter &n) {
  if (n.numInputs() == 0)
    return n.fail("has no input");
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (failed(axis))
    return failure();
  SmallVector<SymbolicTensor> parts;
  for (size_t i = 0; i < n.numInputs(); ++i) {
    Shape a = n.shape(i), b = n.shape(0);
    if (a.size() == b.size())
      a[*axis] = b[*axis];
    if (a != b || n.element(i) != n.element(0))
      return n.fail(nn::shapeToString(n.shape(i)) + " does not join " +
                    nn::shapeToString(b) + " on axis " + Twine(*axis));
    if (const SymbolicTensor *t = n.symbolic(i))
      parts.push_back(*t);
  }
  if (parts.size() == n.numInputs())
    if (symbolic::Result r = symbolic::concat(parts, *axis))
      return n.set(0, *r);
  SmallVector<Value> values;
  for (size_t i = 0; i < n.numInputs(); ++i)
    if (n.shape(i)[*axis] != DimExpr(0) || n.numInputs() == 1)
      values.push_back(n.value(i));
  if (values.size() == 1)
    return n.set(0, values[0]);
  return n.set(0, n.make<nn::ConcatOp>(values, n.i64("axis", *axis)));
}

/// Repeats as broadcast: [a, b] -> [1, a, 1, b] -> [r, a, s, b] -> [ra, sb].
LogicalResult tile(NodeImporter &n) {
  FailureOr<Shape> repeats = n.dims(1, "repeats");
  Shape in = n.shape(0);
  if (failed(repeats))
    return failure();
  if (repeats->size() != in.size())
    return n.fail("needs one repeat an axis");
  if (const SymbolicTensor *t = n.symbolic(0))
    if (symbolic::Result r = symbolic::tile(*t, *repeats))
      return n.set(0, *r);
  Shape split, wide, out;
  for (auto [d, r] : llvm::zip(in, *repeats)) {
    if (r != DimExpr(1) && d != DimExpr(1)) {
      split.push_back(DimExpr(1));
      wide.push_back(r);
    }
    split.push_back(d);
    wide.push_back(d == DimExpr(1) ? r : d);
    out.push_back(d * r);
  }
  Value v = n.broadcast(n.reshape(n.value(0), split), wide);
  return n.set(0, n.reshape(v, out));
}

/// [n, b*b*c, h, w] and [n, c, h*b, w*b], by reshape and transpose.
LogicalResult depthToSpace(NodeImporter &n) {
  Shape s = n.shape(0);
  DimExpr block(n.intAttr("blocksize", 0));
  std::optional<DimExpr> c =
      s.size() == 4 ? s[1].exactDiv(block * block) : std::nullopt;
  if (!c)
    return n.fail("blocksize does not divide the channels of " +
                  nn::shapeToString(s));
  bool columnFirst = n.stringAttr("mode", "DCR") == "CRD";
  Shape split = columnFirst ? Shape{s[0], *c, block, block, s[2], s[3]}
                            : Shape{s[0], block, block, *c, s[2], s[3]};
  Value v = n.reshape(n.value(0), split);
  v = columnFirst ? n.transpose(v, {0, 1, 4, 2, 5, 3})
                  : n.transpose(v, {0, 3, 4, 1, 5, 2});
  return n.set(0, n.reshape(v, {s[0], *c, s[2] * block, s[3] * block}));
}

LogicalResult spaceToDepth(NodeImporter &n) {
  Shape s = n.shape(0);
  DimExpr block(n.intAttr("blocksize", 0));
  std::optional<DimExpr> h, w;
  if (s.size() == 4) {
    h = s[2].exactDiv(block);
    w = s[3].exactDiv(block);
  }
  if (!h || !w)
    return n.fail("blocksize does not divide " + nn::shapeToString(s));
  Value v = n.reshape(n.value(0), {s[0], s[1], *h, block, *w, block});
  v = n.transpose(v, {0, 3, 5, 1, 2, 4});
  return n.set(0, n.reshape(v, {s[0], s[1] * block * block, *h, *w}));
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

LogicalResult setTensor(NodeImporter &n, const onnx::Tensor &t) {
  llvm::Expected<symbolic::Result> r = readLiteral(t);
  if (!r)
    return n.fail(llvm::toString(r.takeError()));
  if (!*r)
    return n.fail("a constant of " + Twine(t.numElements()) + " " +
                  onnx::elementName(t.type) +
                  " elements: make it an initializer");
  return n.set(0, **r);
}

LogicalResult constant(NodeImporter &n) {
  using K = symbolic::Type;
  const onnx::Attribute *a;
  if ((a = n.attribute("value")) && a->tensor)
    return setTensor(n, *a->tensor);
  symbolic::TableData d{K::Int, {}, {}};
  auto integers = [&](ArrayRef<int64_t> shape) {
    return n.set(
        0, symbolic::literal(shape, symbolic::Element::Int64, std::move(d)));
  };
  auto floats = [&](ArrayRef<int64_t> shape) {
    d.type = K::Float;
    return n.set(
        0, symbolic::literal(shape, symbolic::Element::F32, std::move(d)));
  };
  if ((a = n.attribute("value_int"))) {
    d.ints = {a->i};
    return integers({});
  }
  if ((a = n.attribute("value_ints"))) {
    d.ints = a->ints;
    return integers({static_cast<int64_t>(d.ints.size())});
  }
  if ((a = n.attribute("value_float"))) {
    d.floats = {a->f};
    return floats({});
  }
  if ((a = n.attribute("value_floats"))) {
    d.floats = a->floats;
    return floats({static_cast<int64_t>(d.floats.size())});
  }
  return n.fail("has no number for a value");
}

LogicalResult constantOfShape(NodeImporter &n) {
  FailureOr<Shape> shape = n.dims(0, "shape");
  if (failed(shape))
    return failure();
  SymbolicTensor t{*shape, symbolic::Element::F32, symbolic::real(0)};
  if (const onnx::Attribute *a = n.attribute("value"); a && a->tensor) {
    llvm::Expected<symbolic::Result> r = readLiteral(*a->tensor);
    if (!r)
      return n.fail(llvm::toString(r.takeError()));
    if (!*r || (*r)->numElements() != 1)
      return n.fail("value must be one number");
    t.element = (*r)->element;
    t.value = (*r)->value;
  }
  return n.set(0, t);
}

LogicalResult range(NodeImporter &n) {
  const SymbolicTensor *a = n.symbolic(0), *b = n.symbolic(1),
                       *d = n.symbolic(2);
  symbolic::Result r =
      a && b && d ? symbolic::range(*a, *b, *d, n.least) : std::nullopt;
  if (!r)
    return n.fail("start, limit and delta must be known at compile time");
  return n.set(0, *r);
}

/// i, j: the last two indices. Keeps j - i <= k (lower) or >= k (upper).
LogicalResult trilu(NodeImporter &n) {
  int64_t k = 0, rank = n.rank(0);
  if (n.has(1)) {
    FailureOr<int64_t> given = n.integer(1, "k");
    if (failed(given))
      return failure();
    k = *given;
  }
  if (rank < 2)
    return n.fail("needs a matrix");
  Shape s = n.shape(0);
  auto at = [&](int64_t i) { return symbolic::index(i); };
  symbolic::Expr difference = symbolic::sub(at(1), at(0));
  symbolic::Expr keep =
      n.intAttr("upper", 1)
          ? symbolic::lessEqual(symbolic::integer(k), difference)
          : symbolic::lessEqual(difference, symbolic::integer(k));
  symbolic::Result mask = symbolic::fromFunction({s[rank - 2], s[rank - 1]},
                                                 symbolic::Element::Bool, keep);
  if (!mask)
    return n.fail("cannot be folded");
  if (const SymbolicTensor *t = n.symbolic(0)) {
    SymbolicTensor zero = symbolic::scalar(
        t->element, symbolic::typeOf(t->element) == symbolic::Type::Float
                        ? symbolic::real(0)
                    : t->element == symbolic::Element::Bool
                        ? symbolic::boolean(false)
                        : symbolic::integer(0));
    if (symbolic::Result r = symbolic::where(*mask, *t, zero))
      return n.set(0, *r);
  }
  return n.set(0, n.make<nn::WhereOp>(
                      {n.emit(*mask), n.value(0), n.number(0, n.element(0))}));
}

LogicalResult eyeLike(NodeImporter &n) {
  Shape s = n.shape(0);
  if (s.size() != 2)
    return n.fail("needs a matrix");
  symbolic::Expr on =
      symbolic::equal(symbolic::sub(symbolic::index(1), symbolic::index(0)),
                      symbolic::integer(n.intAttr("k", 0)));
  symbolic::Result mask =
      symbolic::fromFunction(s, symbolic::Element::Bool, on);
  std::optional<symbolic::Element> element =
      n.attribute("dtype") ? models::toSymbolic(static_cast<onnx::ElementType>(
                                 n.intAttr("dtype", 0)))
                           : toSymbolic(n.element(0));
  symbolic::Result r =
      mask && element ? symbolic::cast(*mask, *element) : std::nullopt;
  return n.set(0, r);
}
} // namespace

void models::addShapeRules(RuleTable &rules) {
  rules["Shape"] = shapeOf;
  rules["Size"] = sizeOf;
  rules["Reshape"] = reshape;
  rules["Flatten"] = flatten;
  rules["Squeeze"] = squeeze;
  rules["Unsqueeze"] = unsqueeze;
  rules["Transpose"] = transpose;
  rules["Expand"] = expand;
  rules["Concat"] = concat;
  rules["Tile"] = tile;
  rules["DepthToSpace"] = depthToSpace;
  rules["SpaceToDepth"] = spaceToDepth;
  rules["Constant"] = constant;
  rules["ConstantOfShape"] = constantOfShape;
  rules["Range"] = range;
  rules["Trilu"] = trilu;
  rules["EyeLike"] = eyeLike;
}
