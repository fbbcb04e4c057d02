//===- RulesGridSample.cpp - GridSample -------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A sample is a sum of taps: elements beside its place, times weights that are
// polynomials of where it lies between them. All taps are one gather, so the
// gradient of the input is one scatter, and that of the grid comes from the
// weights. Coordinates follow ONNX; where a coordinate is cut off at a border
// its gradient is 0, as in PyTorch; what is not a number reads element 0, or
// zeros.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
/// Weights of an axis' taps as polynomials of t, the place's distance from the
/// element before it: powers[i][k] is tap k's coefficient of t^i.
struct Taps {
  int64_t first = 0; ///< of element floor(x)
  SmallVector<SmallVector<double>> powers;
  int64_t count() const { return powers[0].size(); }
};

Taps tapsOf(StringRef mode) {
  if (mode == "nearest")
    return {0, {{1}}};
  if (mode == "linear")
    return {0, {{1, 0}, {-1, 1}}};
  constexpr double a = -0.75; // Keys' cubic convolution
  return {-1,
          {{0, 1, 0, 0},
           {a, 0, -a, 0},
           {-2 * a, -(a + 3), 2 * a + 3, a},
           {a, a + 2, -(a + 2), -a}}};
}

class GridSample {
public:
  explicit GridSample(NodeImporter &n)
      : n(n), mode(n.stringAttr("mode", "linear")),
        padding(n.stringAttr("padding_mode", "zeros")),
        corners(n.intAttr("align_corners", 0)) {
    if (mode == "bilinear") // before operator set 20
      mode = "linear";
    if (mode == "bicubic")
      mode = "cubic";
  }

  LogicalResult run() {
    if (failed(check()))
      return failure();
    taps = tapsOf(mode);
    int64_t axes = sizes.size();
    // Places of all samples, [n, samples, axes]; the last axis comes first.
    Shape in = n.shape(0), out = n.shape(1);
    ArrayRef<DimExpr> places = ArrayRef(out).drop_front().drop_back();
    samples = nn::getNumElements(places);
    grid = n.reshape(n.castTo(n.value(1), n.element(0)),
                     {in[0], samples, DimExpr(axes)});
    Value weight, position;
    for (int64_t a = 0; a < axes; ++a)
      addAxis(a, weight, position);
    Value y = sum(take(position), weight);
    // [n, samples, c] back to [n, c, out...]
    Shape shape{in[0], in[1]};
    llvm::append_range(shape, places);
    return n.set(0, n.reshape(n.transpose(y, {0, 2, 1}), shape));
  }

private:
  LogicalResult check() {
    if (!n.has(0) || !n.has(1))
      return n.fail("needs an input and a grid");
    if (!llvm::is_contained({"linear", "nearest", "cubic"}, mode))
      return n.fail("mode '" + mode + "' is none of linear, nearest, cubic");
    if (!llvm::is_contained({"zeros", "border", "reflection"}, padding))
      return n.fail("padding_mode '" + padding +
                    "' is none of zeros, border, reflection");
    if (!n.isFloat(0) || !n.isFloat(1))
      return n.fail("input and grid must be floats");
    Shape in = n.shape(0), out = n.shape(1);
    int64_t axes = static_cast<int64_t>(in.size()) - 2;
    if (axes < 1 || axes > 3 || out.size() != in.size() || out[0] != in[0] ||
        out.back() != DimExpr(axes))
      return n.fail("needs an input [n, c, sizes...] and a grid [n, places..., "
                    "coordinates] of 1 to 3 axes, got " +
                    nn::shapeToString(in) + " and " + nn::shapeToString(out));
    for (int64_t a = 0; a < axes; ++a) {
      std::optional<int64_t> size = in[a + 2].asConstant();
      if (!size || *size < 1 || *size > (1 << 24))
        return n.fail("axis " + Twine(a + 2) + " (" + in[a + 2].str() +
                      ") must be bound to a number from 1 to 2^24");
      sizes.push_back(*size);
    }
    return success();
  }

  Value number(double v) { return n.number(v, n.element(0)); }
  Value add(Value x, Value y) { return n.make<nn::AddOp>({x, y}); }
  Value sub(Value x, Value y) { return n.make<nn::SubOp>({x, y}); }
  Value mul(Value x, Value y) { return n.make<nn::MulOp>({x, y}); }
  Value where(Value c, Value x, Value y) {
    return n.make<nn::WhereOp>({c, x, y});
  }

  /// One number a tap of axis a, for tensors [n, taps..., samples].
  Value perTap(int64_t a, ArrayRef<double> values) {
    Shape shape(sizes.size() + 2, DimExpr(1));
    shape[a + 1] = DimExpr(static_cast<int64_t>(values.size()));
    auto type =
        cast<RankedTensorType>(nn::makeTensorType(shape, n.b.getF64Type()));
    Value v = n.make<nn::ConstantOp>(
        ValueRange(), n.named("value", DenseElementsAttr::get(type, values)),
        type);
    return n.castTo(v, n.element(0));
  }

  /// Inside [low, high]; the gradient is 0 at the borders and outside.
  Value clip(Value x, double low, double high) {
    Value above = n.compare(nn::Compare::gt, x, number(low));
    x = where(above, x, number(low));
    Value below = n.compare(nn::Compare::lt, x, number(high));
    return where(below, x, number(high));
  }

  /// Turned back at both borders as often as it takes.
  Value reflect(Value x, double low, double high) {
    if (low == high)
      return x;
    double span = high - low;
    Value distance = n.make<nn::AbsOp>(sub(x, number(low)));
    Value once =
        n.make<nn::ModOp>({distance, number(2 * span)}, n.unit("fmod"));
    Value forth = n.compare(nn::Compare::le, once, number(span));
    Value turned = where(forth, once, sub(number(2 * span), once));
    return add(turned, number(low));
  }

  /// Inside the axis as the padding says; zeros come with the weights.
  Value padded(Value x, int64_t size) {
    double last = static_cast<double>(size - 1);
    if (padding == "reflection")
      x = corners ? reflect(x, 0, last) : reflect(x, -0.5, last + 0.5);
    return clip(x, 0, last);
  }

  /// Where the samples lie on an axis in elements, [n, 1..., samples].
  Value placeOn(int64_t a) {
    int64_t axes = sizes.size();
    double size = static_cast<double>(sizes[a]);
    Shape shape(axes + 2, DimExpr(1));
    shape.front() = n.shape(0)[0];
    shape.back() = samples;
    Value x = n.reshape(n.sliceAxis(grid, 2, axes - 1 - a, DimExpr(1)), shape);
    x = add(x, number(1));
    if (corners)
      return mul(x, number((size - 1) / 2));
    return mul(sub(mul(x, number(size)), number(1)), number(0.5));
  }

  /// The weights of axis a's taps, and their elements' positions among all.
  void addAxis(int64_t a, Value &weight, Value &position) {
    int64_t size = sizes[a];
    Value x = placeOn(a), before;
    if (mode == "nearest")
      x = n.make<nn::RoundOp>(x);
    else if (mode == "linear" && padding != "zeros")
      x = padded(x, size); // a cubic filter looks beyond the border
    before = mode == "nearest" ? x : n.make<nn::FloorOp>(x);
    SmallVector<double> offsets;
    for (int64_t k = 0; k < taps.count(); ++k)
      offsets.push_back(static_cast<double>(taps.first + k));
    Value element = add(before, perTap(a, offsets)), w;
    if (taps.powers.size() > 1) {
      Value t = sub(x, before);
      w = perTap(a, taps.powers.back());
      for (size_t i = taps.powers.size() - 1; i-- > 0;)
        w = add(mul(w, t), perTap(a, taps.powers[i]));
    }
    if (padding == "zeros") {
      Value inside =
          n.make<nn::AndOp>({n.compare(nn::Compare::ge, element, number(0)),
                             n.compare(nn::Compare::le, element,
                                       number(static_cast<double>(size - 1)))});
      w = where(inside, w ? w : number(1), number(0));
    }
    if (w)
      weight = weight ? mul(weight, w) : w;
    Type i64 = n.b.getI64Type();
    Value at = n.castTo(padded(element, size), i64);
    position =
        position
            ? add(mul(position, n.number(static_cast<double>(size), i64)), at)
            : at;
  }

  /// The elements at these positions, [n, taps..., samples, c].
  Value take(Value position) {
    Shape in = n.shape(0);
    SmallVector<int64_t> channelsLast{0};
    for (size_t i = 2; i < in.size(); ++i)
      channelsLast.push_back(i);
    channelsLast.push_back(1);
    DimExpr elements = nn::getNumElements(ArrayRef(in).drop_front(2));
    Value x = n.reshape(n.transpose(n.value(0), channelsLast),
                        {in[0], elements, in[1]});
    return n.make<nn::GatherNdOp>({x, n.unsqueeze(position, sizes.size() + 2)},
                                  n.i64("batch_dims", 1));
  }

  /// Over the taps, [n, samples, c].
  Value sum(Value elements, Value weight) {
    int64_t axes = sizes.size();
    if (weight)
      elements = mul(elements, n.unsqueeze(weight, axes + 2));
    SmallVector<int64_t> over;
    for (int64_t a = 0; a < axes; ++a)
      over.push_back(a + 1);
    return n.reduce(nn::ReduceKind::sum, elements, over, /*keepdims=*/false);
  }

  NodeImporter &n;
  std::string mode, padding;
  bool corners;
  Taps taps;
  SmallVector<int64_t> sizes; ///< of the input's axes
  DimExpr samples;            ///< of one item
  Value grid;
};

LogicalResult gridSample(NodeImporter &n) { return GridSample(n).run(); }
} // namespace

void models::addGridSampleRules(RuleTable &rules) {
  rules["GridSample"] = gridSample;
}
