//===- RulesResize.cpp - Resize ---------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Each axis is resized on its own. Nearest by a whole factor repeats elements
// (reshape, broadcast, reshape: the gradient is a sum); other nearest forms
// gather; linear and cubic are products with a small matrix, whose filter is
// wider with `antialias`.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"
#include "models/frontend/symbolic/Simplify.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
class Resize {
public:
  explicit Resize(NodeImporter &n)
      : n(n), mode(n.stringAttr("mode", "nearest")),
        coordinates(
            n.stringAttr("coordinate_transformation_mode", "half_pixel")),
        rounding(n.stringAttr("nearest_mode", "round_prefer_floor")),
        policy(n.stringAttr("keep_aspect_ratio_policy", "stretch")),
        coefficient(n.floatAttr("cubic_coeff_a", -0.75)),
        antialias(n.intAttr("antialias", 0)),
        excludeOutside(n.intAttr("exclude_outside", 0)) {}

  LogicalResult run() {
    if (!llvm::is_contained({"stretch", "not_larger", "not_smaller"}, policy))
      return n.fail("keep_aspect_ratio_policy '" + policy +
                    "' is none of stretch, not_larger, not_smaller");
    static constexpr StringRef known[] = {"half_pixel", "pytorch_half_pixel",
                                          "align_corners", "asymmetric",
                                          "half_pixel_symmetric"};
    if (!llvm::is_contained(known, coordinates))
      return n.fail("coordinate_transformation_mode '" + coordinates +
                    "' is not handled");
    if (failed(readSizes()))
      return failure();
    Value v = n.value(0);
    for (size_t a = 0; a < out.size() && v; ++a)
      if (out[a] != in[a] || scales[a] != 1) // 3 rows by 1.3 are 3 others
        v = resizeAxis(v, a);
    return n.set(0, v);
  }

private:
  LogicalResult readSizes() {
    in = n.shape(0);
    out = in;
    scales.assign(in.size(), 1.0);
    SmallVector<int64_t> axes;
    if (n.attribute("axes")) {
      for (int64_t a : n.intsAttr("axes")) {
        FailureOr<int64_t> fixed = n.axis(a, in.size());
        if (failed(fixed))
          return failure();
        axes.push_back(*fixed);
      }
    } else {
      for (size_t i = 0; i < in.size(); ++i)
        axes.push_back(i);
    }
    bool bySize = n.has(3) && n.shape(3) != Shape{DimExpr(0)};
    return bySize ? readTargets(axes) : readScales(axes);
  }

  LogicalResult readTargets(ArrayRef<int64_t> axes) {
    FailureOr<Shape> sizes = n.dims(3, "sizes");
    if (failed(sizes) || sizes->size() != axes.size())
      return n.fail("needs one size an axis");
    for (auto [a, d] : llvm::zip(axes, *sizes)) {
      out[a] = d;
      if (d == in[a])
        continue; // also where there is nothing
      std::optional<int64_t> to = d.asConstant(), from = in[a].asConstant();
      if ((to && *to < 1) || (from && *from < 1))
        return n.fail("axis " + Twine(a) + ": resizing " + in[a].str() +
                      " to " + d.str() + ": sizes must be positive");
      std::optional<DimExpr> ratio = d.exactDiv(in[a]);
      if (to && from)
        scales[a] = static_cast<double>(*to) / *from;
      else if (ratio && ratio->asConstant() && ratio->constant() > 0)
        scales[a] = static_cast<double>(ratio->constant());
      else
        return n.fail("axis " + Twine(a) + ": resizing " + in[a].str() +
                      " to " + d.str() + " needs bound dims");
    }
    return policy == "stretch" ? success() : keepAspect(axes);
  }

  /// One scale for all axes, with which none becomes larger (or smaller) than
  /// its target.
  LogicalResult keepAspect(ArrayRef<int64_t> axes) {
    if (axes.empty())
      return success();
    double scale = scales[axes.front()];
    for (int64_t a : axes)
      scale = policy == "not_larger" ? std::min(scale, scales[a])
                                     : std::max(scale, scales[a]);
    for (int64_t a : axes) {
      std::optional<int64_t> from = in[a].asConstant();
      if (!from)
        return n.fail("axis " + Twine(a) + " (" + in[a].str() +
                      ") must be bound to a number under "
                      "keep_aspect_ratio_policy");
      scales[a] = scale;
      out[a] = DimExpr(static_cast<int64_t>(
          std::floor(static_cast<double>(*from) * scale + 0.5)));
      if (out[a] == DimExpr(0))
        return n.fail("axis " + Twine(a) + " becomes empty");
    }
    return success();
  }

  LogicalResult readScales(ArrayRef<int64_t> axes) {
    FailureOr<SmallVector<double>> given = n.reals(2, "scales");
    if (failed(given) || given->size() != axes.size())
      return n.fail("needs one scale an axis");
    for (auto [a, s] : llvm::zip(axes, *given)) {
      if (!(s > 0) || s > 1024)
        return n.fail("scale " + std::to_string(s) + " is not handled");
      scales[a] = s;
      if (std::optional<int64_t> from = in[a].asConstant())
        out[a] = DimExpr(scaled(*from, s));
      else if (s == std::floor(s))
        out[a] = in[a] * DimExpr(static_cast<int64_t>(s));
      else
        return n.fail("scaling " + in[a].str() + " by " + std::to_string(s) +
                      " needs a bound dim");
      if (out[a] == DimExpr(0))
        return n.fail("axis " + Twine(a) + " becomes empty");
    }
    return success();
  }

  /// In the scales' own precision, as ONNX Runtime computes it: 10 * 1.3f is
  /// 13, though 1.3f is a little less than 1.3.
  static int64_t scaled(int64_t from, double scale) {
    float size = static_cast<float>(from) * static_cast<float>(scale);
    return static_cast<int64_t>(std::floor(size));
  }

  /// Where output place `place` lies in the input; in the scales' precision
  /// too, lest a place between two elements falls to the other one.
  double source(int64_t place, size_t a, int64_t from, int64_t to) const {
    float s = static_cast<float>(scales[a]), x = static_cast<float>(place);
    float old = static_cast<float>(from), now = static_cast<float>(to);
    if (coordinates == "asymmetric")
      return x / s;
    if (coordinates == "align_corners")
      return to == 1 ? 0 : x * (old - 1) / (now - 1);
    if (coordinates == "pytorch_half_pixel")
      return to > 1 ? (x + 0.5f) / s - 0.5f : 0;
    if (coordinates == "half_pixel_symmetric") {
      float adjustment = now / (s * old);
      float offset = old / 2 * (1 - adjustment);
      return offset + (x + 0.5f) / s - 0.5f;
    }
    return (x + 0.5f) / s - 0.5f;
  }

  int64_t nearest(double x, int64_t from) const {
    double r;
    if (rounding == "floor")
      r = std::floor(x);
    else if (rounding == "ceil")
      r = std::ceil(x);
    else if (rounding == "round_prefer_ceil")
      r = std::floor(x + 0.5);
    else
      r = std::ceil(x - 0.5);
    return std::clamp<int64_t>(static_cast<int64_t>(r), 0, from - 1);
  }

  Value resizeAxis(Value v, size_t a) {
    std::optional<int64_t> from = in[a].asConstant(), to = out[a].asConstant();
    if (from && to &&
        (*from > symbolic::maxLiteral || *to > symbolic::maxLiteral)) {
      (void)n.fail("axis " + Twine(a) + " is too large");
      return {};
    }
    if (mode == "nearest")
      return nearestAxis(v, a, from, to);
    if (mode != "linear" && mode != "cubic") {
      (void)n.fail("mode '" + mode + "' is not handled");
      return {};
    }
    if (!from || !to) {
      (void)n.fail("mode '" + mode + "' needs axis " + Twine(a) + " (" +
                   in[a].str() + ") bound to a number");
      return {};
    }
    return matrixAxis(v, a, *from, *to);
  }

  Value nearestAxis(Value v, size_t a, std::optional<int64_t> from,
                    std::optional<int64_t> to) {
    std::optional<DimExpr> ratio = out[a].exactDiv(in[a]);
    std::optional<int64_t> factor = ratio ? ratio->asConstant() : std::nullopt;
    SmallVector<int64_t> at;
    bool repeats = factor.has_value();
    if (from && to) {
      for (int64_t i = 0; i < *to; ++i) {
        at.push_back(nearest(source(i, a, *from, *to), *from));
        repeats = repeats && at.back() == i / *factor;
      }
    } else if (coordinates != "asymmetric" || rounding != "floor") {
      (void)n.fail("axis " + Twine(a) + " (" + in[a].str() +
                   ") must be bound to a number in this form");
      return {};
    }
    if (repeats) {
      Shape s = nn::getShape(v), wide, merged = s;
      s.insert(s.begin() + a + 1, DimExpr(1));
      wide = s;
      wide[a + 1] = DimExpr(*factor);
      merged[a] = out[a];
      return n.reshape(n.broadcast(n.reshape(v, s), wide), merged);
    }
    symbolic::TableData d{symbolic::Type::Int, {at.begin(), at.end()}, {}};
    symbolic::Result indices =
        symbolic::literal({*to}, symbolic::Element::Int64, std::move(d));
    return n.make<nn::GatherOp>({v, n.emit(*indices)},
                                n.i64("axis", static_cast<int64_t>(a)));
  }

  /// The filter's value at a distance from the place; Keys' cubic convolution.
  double filter(double distance) const {
    double d = std::abs(distance), c = coefficient;
    if (mode == "linear")
      return std::max(0.0, 1 - d);
    if (d <= 1)
      return ((c + 2) * d - (c + 3)) * d * d + 1;
    return d < 2 ? ((c * d - 5 * c) * d + 8 * c) * d - 4 * c : 0;
  }

  /// Weights of the input's elements for the output place that lies at x.
  /// Outside of the input the edge repeats, or nothing is.
  SmallVector<double> weightsAt(double x, int64_t from, double scale) const {
    SmallVector<double> row(from, 0.0);
    bool stretches = antialias && scale < 1;
    double narrow = stretches ? scale : 1;
    double reach = (mode == "linear" ? 1 : 2) / narrow, total = 0;
    int64_t end = static_cast<int64_t>(std::floor(x + reach));
    for (int64_t i = static_cast<int64_t>(std::ceil(x - reach)); i <= end;
         ++i) {
      if (excludeOutside && (i < 0 || i >= from))
        continue;
      double w = filter((static_cast<double>(i) - x) * narrow);
      row[std::clamp<int64_t>(i, 0, from - 1)] += w;
      total += w;
    }
    if ((stretches || excludeOutside) && total != 0)
      for (double &w : row)
        w /= total;
    return row;
  }

  Value matrixAxis(Value v, size_t a, int64_t from, int64_t to) {
    if (from * to > symbolic::maxLiteral) {
      (void)n.fail("axis " + Twine(a) + " from " + Twine(from) + " to " +
                   Twine(to) + " is too large for mode '" + mode + "'");
      return {};
    }
    SmallVector<float> weights;
    for (int64_t i = 0; i < to; ++i)
      for (double w : weightsAt(source(i, a, from, to), from, scales[a]))
        weights.push_back(static_cast<float>(w));
    auto type = RankedTensorType::get({to, from}, n.b.getF32Type());
    Value matrix = n.make<nn::ConstantOp>(
        ValueRange(),
        n.named("value", DenseElementsAttr::get(type, ArrayRef(weights))),
        type);
    matrix = n.castTo(matrix, n.element(0));
    // The axis goes last, through the matrix, and back.
    SmallVector<int64_t> last, back;
    int64_t rank = in.size();
    for (int64_t i = 0; i < rank; ++i)
      if (i != static_cast<int64_t>(a))
        last.push_back(i);
    last.push_back(a);
    back.resize(rank);
    for (auto [i, p] : llvm::enumerate(last))
      back[p] = i;
    Value y = n.make<nn::LinearOp>({n.transpose(v, last), matrix});
    return n.transpose(y, back);
  }

  NodeImporter &n;
  std::string mode, coordinates, rounding, policy;
  double coefficient;
  bool antialias, excludeOutside;
  Shape in, out;
  SmallVector<double> scales;
};

LogicalResult resize(NodeImporter &n) { return Resize(n).run(); }
} // namespace

void models::addResizeRules(RuleTable &rules) { rules["Resize"] = resize; }
