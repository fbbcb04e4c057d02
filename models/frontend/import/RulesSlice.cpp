//===- RulesSlice.cpp - Slice, Split, Pad -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Bounds may be expressions of sizes. ONNX clamps them to the axis; where it is
// not provable which side of the end a bound lies, the size would depend on
// more than a polynomial and the node is refused.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"
#include "models/frontend/symbolic/Simplify.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;
using symbolic::Expr;

namespace {
constexpr int64_t farAway = int64_t(1) << 40;

/// One axis of a slice: element start + i * step, i < size.
struct AxisSlice {
  Expr start = symbolic::integer(0);
  int64_t step = 1;
  DimExpr size;
};

class BoundFolder {
public:
  BoundFolder(NodeImporter &n, const DimExpr &dim)
      : ranges({}, n.least), n(n), dim(dim) {}

  /// A bound clamped to [low, high]; null if that is not provable. Negative
  /// numbers count from the end.
  Expr clamp(const Expr &bound, int64_t low, const DimExpr &high) {
    Expr lowE = symbolic::integer(low), highE = symbolic::fromDim(high);
    if (std::optional<int64_t> c = symbolic::asInt(bound)) {
      if (*c > farAway)
        return highE;
      if (*c < -farAway)
        return lowE;
    }
    Expr b = ranges.simplify(bound);
    if (ranges.provenLessEqual(b, symbolic::integer(-1)))
      b = symbolic::add(b, symbolic::fromDim(dim));
    else if (!ranges.provenNonNegative(b))
      return nullptr;
    if (ranges.provenLessEqual(b, lowE))
      return lowE;
    if (ranges.provenLessEqual(highE, b))
      return highE;
    if (!ranges.provenLessEqual(lowE, b))
      return nullptr;
    if (ranges.provenLessEqual(b, highE))
      return b;
    // positions[:seq] of a table with 512 rows: the exporter has checked that
    // seq <= 512 for the model to mean anything, so that becomes a limit.
    std::optional<int64_t> number = high.asConstant();
    std::optional<DimExpr> size = symbolic::asDim(b);
    return number && size && n.assumeAtMost(*size, *number) ? b : nullptr;
  }

  /// max(0, ceil(span / step)) as a size; nothing if it is none.
  std::optional<DimExpr> count(const Expr &span, int64_t step) {
    if (ranges.provenLessEqual(span, symbolic::integer(0)))
      return DimExpr(0);
    if (!ranges.provenNonNegative(span))
      return std::nullopt;
    return symbolic::asDim(ranges.simplify(
        symbolic::floorDiv(symbolic::add(span, symbolic::integer(step - 1)),
                           symbolic::integer(step))));
  }

private:
  symbolic::Ranges ranges;
  NodeImporter &n;
  DimExpr dim;
};

/// Why a bound cannot be used.
LogicalResult unprovable(NodeImporter &n, int64_t axis, const DimExpr &dim) {
  return n.fail("where the slice of axis " + Twine(axis) + " (size " +
                dim.str() +
                ") begins or ends is not known at compile time; "
                "bind the dim to a number");
}

FailureOr<AxisSlice> sliceOf(NodeImporter &n, int64_t axis, const DimExpr &dim,
                             const Expr &start, const Expr &end, int64_t step) {
  if (step == 0 || step > farAway || step < -farAway)
    return n.fail("step " + Twine(step) + " is not handled");
  BoundFolder fold(n, dim);
  AxisSlice s;
  s.step = step;
  std::optional<DimExpr> size;
  if (step > 0) {
    s.start = fold.clamp(start, 0, dim);
    Expr last = fold.clamp(end, 0, dim);
    if (s.start && last)
      size = fold.count(symbolic::sub(last, s.start), step);
  } else {
    s.start = fold.clamp(start, 0, dim - DimExpr(1));
    // An end before the first element is -1 here.
    Expr last = fold.clamp(end, -1, dim - DimExpr(1));
    if (s.start && last)
      size = fold.count(symbolic::sub(s.start, last), -step);
  }
  if (!size) {
    (void)unprovable(n, axis, dim);
    return failure();
  }
  s.size = *size;
  return s;
}

/// nn.slice with these axes; starts are numbers, counted from either end.
Value emitSlice(NodeImporter &n, Value v, ArrayRef<AxisSlice> slices) {
  if (!v)
    return v;
  Shape in = nn::getShape(v), out;
  SmallVector<int64_t> starts, steps;
  SmallVector<bool> fromEnd;
  for (auto [i, s] : llvm::enumerate(slices)) {
    std::optional<int64_t> begin = symbolic::asInt(s.start);
    std::optional<int64_t> back =
        symbolic::asInt(symbolic::sub(symbolic::fromDim(in[i]), s.start));
    if (!begin && !back) {
      (void)unprovable(n, i, in[i]);
      return {};
    }
    starts.push_back(begin ? *begin : *back);
    fromEnd.push_back(!begin);
    steps.push_back(s.step);
    out.push_back(s.size);
  }
  SmallVector<NamedAttribute> attributes{n.array("starts", starts),
                                         n.array("steps", steps)};
  if (llvm::is_contained(fromEnd, true))
    attributes.push_back(
        n.named("from_end", n.b.getDenseBoolArrayAttr(fromEnd)));
  Type element = getElementTypeOrSelf(v);
  if (out == in && llvm::all_of(steps, [](int64_t s) { return s == 1; }))
    return v;
  return n.make<nn::SliceOp>(v, attributes, nn::makeTensorType(out, element));
}

LogicalResult setSlice(NodeImporter &n, size_t result,
                       ArrayRef<AxisSlice> slices) {
  if (const SymbolicTensor *t = n.symbolic(0)) {
    SmallVector<Expr> starts;
    SmallVector<int64_t> steps;
    Shape shape;
    for (const AxisSlice &s : slices) {
      starts.push_back(s.start);
      steps.push_back(s.step);
      shape.push_back(s.size);
    }
    // A part of unknown size of a literal is better a slice of a constant than
    // a lookup.
    SymbolicTensor part{shape, t->element, t->value};
    if (t->value->hasTable && t->numElements() && !part.numElements())
      return n.set(result, emitSlice(n, n.value(0), slices));
    if (symbolic::Result r = symbolic::slice(*t, starts, steps, shape))
      return n.set(result, *r);
  }
  return n.set(result, emitSlice(n, n.value(0), slices));
}

SmallVector<AxisSlice> whole(const Shape &shape) {
  SmallVector<AxisSlice> slices(shape.size());
  for (auto [s, d] : llvm::zip(slices, shape))
    s.size = d;
  return slices;
}

std::optional<SmallVector<Expr>> elementsOf(NodeImporter &n, size_t i) {
  const SymbolicTensor *t = n.symbolic(i);
  return t ? symbolic::elements(*t) : std::nullopt;
}

/// x[:count] with the count of a NonZero: kept aside for ScatterND.
bool slicePrefix(NodeImporter &n, ArrayRef<Expr> starts, ArrayRef<Expr> ends) {
  if (n.rank(0) != 1 || starts.size() != 1 || n.has(4) ||
      ends[0]->kind != symbolic::Kind::Symbol ||
      !StringRef(ends[0]->name).starts_with("nonzero.") ||
      symbolic::asInt(starts[0]) != 0)
    return false;
  Value v = n.value(0);
  if (!v)
    return false;
  n.output(0).prefix = GraphValue::Prefix{v, ends[0]->name};
  return true;
}

LogicalResult slice(NodeImporter &n) {
  Shape in = n.shape(0);
  auto starts = elementsOf(n, 1), ends = elementsOf(n, 2);
  if (!starts || !ends || starts->size() != ends->size())
    return n.fail("starts and ends must be known at compile time");
  SmallVector<int64_t> axes, steps(starts->size(), 1);
  if (n.has(3)) {
    auto given = n.axes(3, in.size());
    if (failed(given))
      return failure();
    axes = **given;
  } else {
    axes.append(llvm::seq<int64_t>(starts->size()).begin(),
                llvm::seq<int64_t>(starts->size()).end());
  }
  if (slicePrefix(n, *starts, *ends))
    return success();
  if (n.has(4)) {
    FailureOr<SmallVector<int64_t>> given = n.ints(4, "steps");
    if (failed(given))
      return failure();
    steps = *given;
  }
  if (axes.size() != starts->size() || steps.size() != starts->size() ||
      axes.size() > in.size())
    return n.fail("starts, ends, axes and steps differ in length");
  SmallVector<AxisSlice> slices = whole(in);
  for (size_t k = 0; k < axes.size(); ++k) {
    int64_t a = axes[k];
    FailureOr<AxisSlice> s =
        sliceOf(n, a, in[a], (*starts)[k], (*ends)[k], steps[k]);
    if (failed(s))
      return failure();
    slices[a] = *s;
  }
  return setSlice(n, 0, slices);
}

/// Sizes of the parts: given, or equal with a smaller last one.
FailureOr<Shape> splitSizes(NodeImporter &n, const DimExpr &dim) {
  if (n.has(1))
    return n.dims(1, "split");
  int64_t parts = n.intAttr("num_outputs", n.node.outputs.size());
  if (parts < 1 || parts != static_cast<int64_t>(n.node.outputs.size()))
    return n.fail("num_outputs differs from the number of outputs");
  if (std::optional<DimExpr> each = dim.exactDiv(DimExpr(parts)))
    return Shape(parts, *each);
  std::optional<int64_t> size = dim.asConstant();
  if (!size)
    return n.fail("axis of size " + dim.str() + " does not split in " +
                  Twine(parts));
  int64_t each = (*size + parts - 1) / parts;
  Shape sizes;
  for (int64_t i = 0; i < parts; ++i)
    sizes.push_back(DimExpr(std::clamp<int64_t>(*size - i * each, 0, each)));
  return sizes;
}

LogicalResult split(NodeImporter &n) {
  Shape in = n.shape(0);
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", 0), in.size());
  if (failed(axis))
    return failure();
  FailureOr<Shape> sizes = splitSizes(n, in[*axis]);
  if (failed(sizes))
    return failure();
  if (sizes->size() != n.node.outputs.size())
    return n.fail("split has " + Twine(sizes->size()) + " parts for " +
                  Twine(n.node.outputs.size()) + " outputs");
  DimExpr begin;
  for (auto [i, size] : llvm::enumerate(*sizes)) {
    SmallVector<AxisSlice> slices = whole(in);
    slices[*axis].start = symbolic::fromDim(begin);
    slices[*axis].size = size;
    if (n.wants(i) && failed(setSlice(n, i, slices)))
      return failure();
    begin = begin + size;
  }
  if (begin != in[*axis])
    return n.fail("the parts add up to " + begin.str() + ", not " +
                  in[*axis].str());
  return success();
}

//===----------------------------------------------------------------------===//
// Pad
//===----------------------------------------------------------------------===//

/// Where element i of the padded axis comes from; null for an unknown mode.
Expr padSource(StringRef mode, int64_t low, const DimExpr &dim) {
  Expr i = symbolic::sub(symbolic::index(0), symbolic::integer(low));
  Expr last = symbolic::fromDim(dim - DimExpr(1));
  if (mode == "edge")
    return symbolic::minimum(symbolic::maximum(i, symbolic::integer(0)), last);
  if (mode == "wrap")
    return symbolic::mod(i, symbolic::fromDim(dim));
  if (mode != "reflect")
    return nullptr;
  Expr a = symbolic::maximum(i, symbolic::scale(i, -1));
  return symbolic::minimum(a, symbolic::sub(symbolic::scale(last, 2), a));
}

LogicalResult padByGather(NodeImporter &n, StringRef mode,
                          ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
  Value v = n.value(0);
  Shape in = n.shape(0);
  for (size_t a = 0; a < in.size(); ++a) {
    if (low[a] == 0 && high[a] == 0)
      continue;
    Expr source = padSource(mode, low[a], in[a]);
    if (!source)
      return n.fail("mode '" + mode + "' is not handled");
    if (low[a] < 0 || high[a] < 0)
      return n.fail("negative pads in mode '" + mode + "' are not handled");
    symbolic::Ranges none({}, n.least);
    if (mode == "reflect" &&
        !none.provenLessEqual(symbolic::integer(std::max(low[a], high[a]) + 1),
                              symbolic::fromDim(in[a])))
      return n.fail("axis " + Twine(a) + " of size " + in[a].str() +
                    " is too small to reflect");
    symbolic::Result at = symbolic::fromFunction(
        {in[a] + DimExpr(low[a] + high[a])}, symbolic::Element::Int64, source);
    if (!at)
      return n.fail("cannot be folded");
    v = n.make<nn::GatherOp>({v, n.emit(*at)},
                             n.i64("axis", static_cast<int64_t>(a)));
  }
  return n.set(0, v);
}

/// Cuts what negative pads take away, then places the rest.
LogicalResult padConstant(NodeImporter &n, SmallVector<int64_t> low,
                          SmallVector<int64_t> high, double value) {
  Shape in = n.shape(0), out = in;
  SmallVector<AxisSlice> cut = whole(in);
  for (size_t a = 0; a < in.size(); ++a) {
    int64_t begin = std::max<int64_t>(0, -low[a]);
    int64_t end = std::max<int64_t>(0, -high[a]);
    cut[a].start = symbolic::integer(begin);
    cut[a].size = in[a] - DimExpr(begin + end);
    out[a] = in[a] + DimExpr(low[a] + high[a]);
    low[a] = std::max<int64_t>(0, low[a]);
    std::optional<int64_t> left = cut[a].size.asConstant();
    if (left && *left < 1)
      return n.fail("nothing is left of axis " + Twine(a));
  }
  Value v = emitSlice(n, n.value(0), cut);
  if (!v)
    return failure();
  if (nn::getShape(v) == out)
    return n.set(0, v);
  return n.set(0, n.make<nn::PadOp>(
                      v,
                      {n.array("low", low),
                       n.array("interior", SmallVector<int64_t>(in.size(), 0)),
                       n.f64("value", value)},
                      nn::makeTensorType(out, n.element(0))));
}

FailureOr<double> padValue(NodeImporter &n) {
  if (!n.has(2))
    return 0.0;
  if (mlir::isa<FloatType>(n.element(2)))
    return n.real(2, "constant_value");
  FailureOr<int64_t> v = n.integer(2, "constant_value");
  if (failed(v))
    return failure();
  return static_cast<double>(*v);
}

LogicalResult pad(NodeImporter &n) {
  int64_t rank = n.rank(0);
  FailureOr<SmallVector<int64_t>> pads = n.ints(1, "pads");
  if (failed(pads))
    return failure();
  SmallVector<int64_t> axes;
  if (n.has(3)) {
    auto given = n.axes(3, rank);
    if (failed(given))
      return failure();
    axes = **given;
  } else {
    for (int64_t i = 0; i < rank; ++i)
      axes.push_back(i);
  }
  if (pads->size() != 2 * axes.size())
    return n.fail("needs two pads an axis");
  SmallVector<int64_t> low(rank, 0), high(rank, 0);
  for (auto [i, a] : llvm::enumerate(axes)) {
    low[a] = (*pads)[i];
    high[a] = (*pads)[i + axes.size()];
    if (std::abs(low[a]) > farAway || std::abs(high[a]) > farAway)
      return n.fail("pads are out of range");
  }
  std::string mode = n.stringAttr("mode", "constant");
  if (mode != "constant")
    return padByGather(n, mode, low, high);
  FailureOr<double> value = padValue(n);
  if (failed(value))
    return failure();
  return padConstant(n, low, high, *value);
}
} // namespace

void models::addSliceRules(RuleTable &rules) {
  rules["Slice"] = slice;
  rules["Split"] = split;
  rules["Pad"] = pad;
}
