//===- RulesConv.cpp - Convolutions and pooling -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
/// Window attributes, one number a spatial axis (pads: begins, then ends).
struct Window {
  SmallVector<int64_t> kernel, strides, dilations, pads;

  size_t spatial() const { return kernel.size(); }
  int64_t reach(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
  int64_t padding(size_t i) const { return pads[i] + pads[i + spatial()]; }
};

LogicalResult checkPositive(NodeImporter &n, StringRef what,
                            ArrayRef<int64_t> v, size_t size, int64_t least) {
  if (v.size() != size)
    return n.fail(what + " must have " + Twine(size) + " numbers");
  for (int64_t x : v)
    if (x < least || x > (int64_t(1) << 31))
      return n.fail(what + " must be at least " + Twine(least));
  return success();
}

/// SAME_UPPER, SAME_LOWER: as much padding as ceil(size / stride) outputs need.
LogicalResult padSame(NodeImporter &n, Window &w, const Shape &x, bool upper) {
  for (size_t i = 0; i < w.spatial(); ++i) {
    std::optional<int64_t> in = x[i + 2].asConstant();
    int64_t total;
    if (in)
      total = std::max<int64_t>(
          0, ((*in + w.strides[i] - 1) / w.strides[i] - 1) * w.strides[i] +
                 w.reach(i) - *in);
    else if (w.strides[i] == 1)
      total = w.reach(i) - 1;
    else
      return n.fail("auto_pad needs spatial sizes that are numbers");
    int64_t small = total / 2;
    w.pads[i] = upper ? small : total - small;
    w.pads[i + w.spatial()] = total - w.pads[i];
  }
  return success();
}

FailureOr<Window> readWindow(NodeImporter &n, SmallVector<int64_t> kernel) {
  Window w;
  size_t rank = n.rank(0);
  if (rank < 3 || rank > 5)
    return n.fail("needs 1 to 3 spatial axes, got an input of rank " +
                  Twine(rank));
  size_t spatial = rank - 2;
  SmallVector<int64_t> given = n.intsAttr("kernel_shape");
  w.kernel = given.empty() ? kernel : given;
  if (!kernel.empty() && w.kernel != kernel)
    return n.fail("kernel_shape differs from the weight's");
  w.strides = n.intsAttr("strides");
  w.dilations = n.intsAttr("dilations");
  w.pads = n.intsAttr("pads");
  if (w.strides.empty())
    w.strides.assign(spatial, 1);
  if (w.dilations.empty())
    w.dilations.assign(spatial, 1);
  std::string automatic = n.stringAttr("auto_pad", "NOTSET");
  if (w.pads.empty() || automatic != "NOTSET")
    w.pads.assign(2 * spatial, 0);
  if (failed(checkPositive(n, "kernel_shape", w.kernel, spatial, 1)) ||
      failed(checkPositive(n, "strides", w.strides, spatial, 1)) ||
      failed(checkPositive(n, "dilations", w.dilations, spatial, 1)) ||
      failed(checkPositive(n, "pads", w.pads, 2 * spatial, 0)))
    return failure();
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    if (failed(padSame(n, w, n.shape(0), automatic == "SAME_UPPER")))
      return failure();
  } else if (automatic != "NOTSET" && automatic != "VALID") {
    return n.fail("auto_pad '" + automatic + "' is not handled");
  }
  return w;
}

/// The weight's sizes behind its two channel axes.
FailureOr<SmallVector<int64_t>> kernelOf(NodeImporter &n, size_t i) {
  SmallVector<int64_t> kernel;
  Shape w = n.shape(i);
  if (w.size() < 3)
    return n.fail("the weight needs rank 3 to 5");
  for (const DimExpr &d : ArrayRef(w).drop_front(2)) {
    if (!d.asConstant())
      return n.fail("kernel sizes must be numbers");
    kernel.push_back(d.constant());
  }
  return kernel;
}

SmallVector<NamedAttribute> convAttributes(NodeImporter &n, const Window &w) {
  return {n.array("strides", w.strides), n.array("pads", w.pads),
          n.array("dilations", w.dilations),
          n.i64("groups", n.intAttr("group", 1))};
}

/// The window of a node with a weight, whose sizes are the kernel's.
FailureOr<Window> weightWindow(NodeImporter &n) {
  if (!n.has(0) || !n.has(1))
    return n.fail("needs an input and a weight");
  FailureOr<SmallVector<int64_t>> kernel = kernelOf(n, 1);
  if (failed(kernel))
    return failure();
  return readWindow(n, *kernel);
}

LogicalResult conv(NodeImporter &n) {
  FailureOr<Window> w = weightWindow(n);
  if (failed(w))
    return failure();
  if (n.intAttr("group", 1) < 1)
    return n.fail("group must be positive");
  SmallVector<Value> operands{n.value(0), n.value(1)};
  if (n.has(2))
    operands.push_back(n.value(2));
  return n.set(0, n.make<nn::ConvOp>(operands, convAttributes(n, *w)));
}

/// Pads from output_shape or auto_pad, as the specification derives them.
LogicalResult transposedPads(NodeImporter &n, Window &w, const Shape &x,
                             ArrayRef<int64_t> extra) {
  SmallVector<int64_t> wanted = n.intsAttr("output_shape");
  std::string automatic = n.stringAttr("auto_pad", "NOTSET");
  bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (wanted.empty() && !same)
    return success();
  for (size_t i = 0; i < w.spatial(); ++i) {
    std::optional<int64_t> in = x[i + 2].asConstant();
    if (!in)
      return n.fail("output_shape needs spatial sizes that are numbers");
    int64_t size = wanted.empty() ? *in * w.strides[i]
                   : wanted.size() == w.spatial()
                       ? wanted[i]
                       : wanted[std::min(i + 2, wanted.size() - 1)];
    int64_t total = w.strides[i] * (*in - 1) + extra[i] + w.reach(i) - size;
    if (total < 0)
      return n.fail("output_shape is larger than the convolution gives");
    int64_t half = total / 2;
    w.pads[i] = automatic == "SAME_UPPER" ? half : total - half;
    w.pads[i + w.spatial()] = total - w.pads[i];
  }
  return success();
}

LogicalResult convTranspose(NodeImporter &n) {
  // SAME means something else here: pads follow from the output's size below.
  FailureOr<Window> w = weightWindow(n);
  if (failed(w))
    return failure();
  Shape x = n.shape(0), weight = n.shape(1);
  if (weight.size() != x.size())
    return n.fail("input and weight differ in rank");
  SmallVector<int64_t> extra = n.intsAttr("output_padding");
  if (extra.empty())
    extra.assign(w->spatial(), 0);
  if (failed(checkPositive(n, "output_padding", extra, w->spatial(), 0)) ||
      failed(transposedPads(n, *w, x, extra)))
    return failure();
  int64_t groups = n.intAttr("group", 1);
  if (groups < 1)
    return n.fail("group must be positive");
  Shape out{x[0], weight[1] * DimExpr(groups)};
  for (size_t i = 0; i < w->spatial(); ++i) {
    if (extra[i] >= w->strides[i])
      return n.fail("output_padding must be below the stride");
    DimExpr size = (x[i + 2] - DimExpr(1)) * DimExpr(w->strides[i]) +
                   DimExpr(w->reach(i) + extra[i] - w->padding(i));
    if (std::optional<int64_t> s = size.asConstant(); s && *s < 1)
      return n.fail("the output is empty");
    out.push_back(size);
  }
  Value y =
      n.make<nn::ConvDxOp>({n.value(0), n.value(1)}, convAttributes(n, *w),
                           nn::makeTensorType(out, n.element(0)));
  if (n.has(2)) {
    Shape channel(x.size() - 1, DimExpr(1));
    channel[0] = out[1];
    y = n.make<nn::AddOp>({y, n.reshape(n.value(2), channel)});
  }
  return n.set(0, y);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

FailureOr<DimExpr> pooledSize(NodeImporter &n, const Window &w, size_t i,
                              const DimExpr &in, bool ceil) {
  int64_t stride = w.strides[i], shrink = w.reach(i) - w.padding(i);
  if (std::optional<int64_t> size = in.asConstant()) {
    int64_t span = *size - shrink;
    // Rounded up, one step may remain for a window that reaches over the end.
    if (span < 0 && (!ceil || span <= -stride))
      return n.fail("axis " + Twine(i + 2) + ": the window of " +
                    Twine(w.reach(i)) + " is larger than the padded input of " +
                    Twine(*size + w.padding(i)) +
                    (ceil ? " and a stride of " + std::to_string(stride) : ""));
    int64_t out = (span + (ceil ? stride - 1 : 0)) / stride + 1;
    // A window that begins in the end's padding is left out.
    if (ceil && (out - 1) * stride >= *size + w.pads[i])
      --out;
    return DimExpr(out);
  }
  std::optional<DimExpr> steps =
      (in - DimExpr(shrink)).exactDiv(DimExpr(stride));
  if (!steps)
    return n.fail("spatial size " + in.str() +
                  " must be bound to a number under stride " + Twine(stride));
  return *steps + DimExpr(1);
}

/// A kernel has no more elements than the padded input gives its windows: of a
/// network for images of any size it may have thousands.
void shortenKernel(Window &w, const Shape &x) {
  for (size_t i = 0; i < w.spatial(); ++i)
    if (std::optional<int64_t> size = x[i + 2].asConstant()) {
      int64_t last = std::max<int64_t>(*size + w.padding(i) - 1, 0);
      w.kernel[i] = std::min(w.kernel[i], last / w.dilations[i] + 1);
    }
}

LogicalResult pool(NodeImporter &n, nn::PoolKind kind) {
  FailureOr<Window> w = readWindow(n, {});
  if (failed(w))
    return failure();
  if (n.intAttr("storage_order", 0) != 0)
    return n.fail("storage_order 1 is not handled");
  Shape x = n.shape(0), out{x[0], x[1]};
  for (size_t i = 0; i < w->spatial(); ++i) {
    FailureOr<DimExpr> d =
        pooledSize(n, *w, i, x[i + 2], n.intAttr("ceil_mode", 0));
    if (failed(d))
      return failure();
    out.push_back(*d);
  }
  shortenKernel(*w, x);
  return n.set(
      0, n.make<nn::PoolOp>(
             n.value(0),
             {n.named("kind", nn::PoolKindAttr::get(n.b.getContext(), kind)),
              n.array("kernel", w->kernel), n.array("strides", w->strides),
              n.array("pads", w->pads), n.array("dilations", w->dilations)},
             nn::makeTensorType(out, n.element(0))));
}

LogicalResult maxPool(NodeImporter &n) { return pool(n, nn::PoolKind::max); }
LogicalResult averagePool(NodeImporter &n) {
  return pool(n, n.intAttr("count_include_pad", 0)
                     ? nn::PoolKind::avg_include_pad
                     : nn::PoolKind::avg);
}

template <nn::ReduceKind kind> LogicalResult globalPool(NodeImporter &n) {
  if (n.rank(0) < 3)
    return n.fail("needs a spatial axis");
  SmallVector<int64_t> axes;
  for (int64_t i = 2; i < n.rank(0); ++i)
    axes.push_back(i);
  // Adaptive pooling has the first of equal elements, as pooling.
  bool first = kind == nn::ReduceKind::max && n.node.ties != "share";
  return n.set(0, n.reduce(kind, n.value(0), axes, /*keepdims=*/true, first));
}
} // namespace

void models::addConvRules(RuleTable &rules) {
  rules["Conv"] = conv;
  rules["ConvTranspose"] = convTranspose;
  rules["MaxPool"] = maxPool;
  rules["AveragePool"] = averagePool;
  rules["GlobalAveragePool"] = globalPool<nn::ReduceKind::mean>;
  rules["GlobalMaxPool"] = globalPool<nn::ReduceKind::max>;
}
