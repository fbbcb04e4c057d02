//===- LowerNorm.cpp - Layer, RMS and group norm and their gradients ------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The three norms differ in what one set of statistics covers, in whether the
// mean is taken off, and in which elements share a scale. All else is shared:
// with x^ = (x - mean) * inv and g = dy * scale,
//   y = x^ * scale + bias,  dx = inv * (g - mean(g) - x^ * mean(g * x^)),
//   dscale = sum of dy * x^  (RMS norm: without both means).
//
//===----------------------------------------------------------------------===//

#include "passes/lower/FunctionLowering.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

/// x seen as [rows..., inner...]: a point of `rows` has statistics of its own
/// over `inner`. Scale and bias are indexed by the dims `scaleDims` of
/// rows + inner.
struct NormShape {
  Shape rows, inner;
  SmallVector<unsigned> scaleDims;
  bool centered;
  double eps;

  Shape all() const {
    Shape s = rows;
    s.append(inner);
    return s;
  }
  Shape scale() const {
    Shape whole = all(), s;
    for (unsigned d : scaleDims)
      s.push_back(whole[d]);
    return s;
  }
};

/// An input of columns is rows of rows: those before its axis, and within them.
template <typename OpTy>
NormShape lastAxes(OpTy op, bool centered, const Source &input) {
  Shape x = nn::getShape(op.getInput()), rows;
  size_t split = x.size() - op.getAxes();
  ArrayRef<DimExpr> dims(x), before = dims.take_front(split);
  size_t axis = input.columns ? input.columns->axis : split;
  rows.push_back(nn::getNumElements(before.take_front(axis)));
  if (axis < split)
    rows.push_back(nn::getNumElements(before.drop_front(axis)));
  unsigned scale = rows.size();
  return {rows,
          Shape{nn::getNumElements(dims.drop_front(split))},
          {scale},
          centered,
          op.getEps().convertToDouble()};
}

template <typename OpTy> NormShape groups(OpTy op) {
  Shape x = nn::getShape(op.getInput());
  DimExpr count(op.getGroups());
  ArrayRef<DimExpr> dims(x);
  return {Shape{x[0], count},
          Shape{*x[1].exactDiv(count), nn::getNumElements(dims.drop_front(2))},
          {1, 2},
          true,
          op.getEps().convertToDouble()};
}

/// Mean (null unless centered) and 1 / sqrt(variance + eps).
struct Statistics {
  Value mean, inv;
};

class NormKernel : public KernelBuilder {
public:
  NormKernel(FunctionLowering &f, Operation *op, const NormShape &shape,
             const Shape &bounds)
      : KernelBuilder(f.builder(), op->getLoc(), describe(op), bounds),
        shape(shape) {}

  const NormShape &shape;

  SmallVector<Value> at(ValueRange row, ValueRange inner) {
    SmallVector<Value> indices(row);
    llvm::append_range(indices, inner);
    return indices;
  }
  SmallVector<Value> scaleAt(ArrayRef<Value> all) {
    return llvm::map_to_vector(shape.scaleDims,
                               [&](unsigned d) { return all[d]; });
  }
  /// Mean over `inner` of what `element` computes.
  Value meanOf(Type type, function_ref<Value(ValueRange)> element) {
    Value total = fold(shape.inner, number(type, 0),
                       [&](ValueRange i, ValueRange carried) {
                         return SmallVector<Value>{add(carried[0], element(i))};
                       })[0];
    return div(total, sizeAs(type, nn::getNumElements(shape.inner)));
  }
  Value load(const Source &x, ArrayRef<Value> at) {
    return KernelBuilder::load(x, shape.all(), at);
  }
  using KernelBuilder::load;
  Statistics statistics(const Source &x, ValueRange row) {
    Type type = scalarOf(x);
    auto element = [&](ValueRange i) { return load(x, at(row, i)); };
    Statistics s;
    if (shape.centered)
      s.mean = meanOf(type, element);
    Value variance = meanOf(type, [&](ValueRange i) {
      Value v = element(i);
      if (s.mean)
        v = sub(v, s.mean);
      return mul(v, v);
    });
    s.inv = rsqrt(add(variance, number(type, shape.eps)));
    return s;
  }
  Value normalise(Value v, const Statistics &s) {
    return mul(s.mean ? sub(v, s.mean) : v, s.inv);
  }
};

LogicalResult lowerForward(Operation *op, FunctionLowering &f, const Source &x,
                           Value scale, Value bias, const NormShape &shape) {
  Destination d = f.destination(op->getResult(0));
  NormKernel k(f, op, shape, shape.rows);
  Value w = scale ? k.use(f.get(scale), shape.scale()) : Value();
  Value c = bias ? k.use(f.get(bias), shape.scale()) : Value();
  Value y = k.use(d.buffer, shape.all());
  SmallVector<Value> row = k.indices();
  Statistics s = k.statistics(x, row);
  k.forEach(shape.inner, [&](ValueRange i) {
    SmallVector<Value> at = k.at(row, i);
    Value v = k.normalise(k.load(x, at), s);
    if (w)
      v = k.mul(v, k.load(w, k.scaleAt(at)));
    if (c)
      v = k.add(v, k.load(c, k.scaleAt(at)));
    k.store(v, y, at);
  });
  return success();
}

LogicalResult lowerDx(Operation *op, FunctionLowering &f, const Source &x,
                      Value scale, Value grad, const NormShape &shape) {
  Destination d = f.destination(op->getResult(0));
  NormKernel k(f, op, shape, shape.rows);
  Value w = scale ? k.use(f.get(scale), shape.scale()) : Value();
  Value dy = k.use(f.get(grad), shape.all());
  Value dx = k.use(d.buffer, shape.all());
  Type type = k.scalarOf(x);
  SmallVector<Value> row = k.indices();
  Statistics s = k.statistics(x, row);
  auto scaled = [&](ArrayRef<Value> at) {
    Value g = k.load(dy, at);
    return w ? k.mul(g, k.load(w, k.scaleAt(at))) : g;
  };
  Value meanG;
  if (shape.centered)
    meanG = k.meanOf(type, [&](ValueRange i) { return scaled(k.at(row, i)); });
  Value meanGX = k.meanOf(type, [&](ValueRange i) {
    SmallVector<Value> at = k.at(row, i);
    return k.mul(scaled(at), k.normalise(k.load(x, at), s));
  });
  k.forEach(shape.inner, [&](ValueRange i) {
    SmallVector<Value> at = k.at(row, i);
    Value g = scaled(at);
    if (meanG)
      g = k.sub(g, meanG);
    g = k.sub(g, k.mul(k.normalise(k.load(x, at), s), meanGX));
    k.store(k.mul(g, s.inv), dx, at);
  });
  return success();
}

/// Where a kernel of statistics left them: [rows] each.
struct SavedStatistics {
  Value mean, inv;
  Shape rows;
};

SavedStatistics saveStatistics(Operation *op, FunctionLowering &f,
                               const Source &x, const NormShape &shape) {
  Type type = KernelBuilder::scalarOf(x);
  SavedStatistics saved{Value(), Value(), shape.rows};
  saved.inv = f.temporary(type, shape.rows, "inv", op->getLoc());
  if (shape.centered)
    saved.mean = f.temporary(type, shape.rows, "mean", op->getLoc());
  NormKernel k(f, op, shape, shape.rows);
  k.op.setName(describe(op) + "_statistics");
  SmallVector<Value> row = k.indices();
  Statistics s = k.statistics(x, row);
  k.store(s.inv, k.use(saved.inv, shape.rows), row);
  if (s.mean)
    k.store(s.mean, k.use(saved.mean, shape.rows), row);
  return saved;
}

/// The scale has the inner dims: a point takes a block of columns through all
/// rows, in order.
LogicalResult lowerDscaleOfRows(Operation *op, FunctionLowering &f,
                                const Source &x, Value grad,
                                const NormShape &shape) {
  SavedStatistics saved = saveStatistics(op, f, x, shape);
  Destination d = f.summing(f.accumulating(op->getResult(0)));
  ColumnBlocks blocks(shape.inner[0]);
  NormKernel k(f, op, shape, Shape{blocks.count});
  Value dy = k.use(f.get(grad), shape.all()),
        out = k.use(d.buffer, shape.inner), inv = k.use(saved.inv, shape.rows),
        mean = saved.mean ? k.use(saved.mean, shape.rows) : Value();
  Type type = k.scalarOf(x);
  auto [begin, width] = blocks.range(k, k.index(0));
  auto column = [&, begin = begin](ValueRange i) { return k.add(begin, i[0]); };
  if (!d.add)
    k.forEach(width, [&](ValueRange i) {
      k.store(k.number(type, 0), out, column(i));
    });
  k.forEach(
      shape.rows,
      [&, width = width](ValueRange row) {
        Statistics s{mean ? k.load(mean, row) : Value(), k.load(inv, row)};
        k.forEach(width, [&](ValueRange i) {
          Value c = column(i);
          SmallVector<Value> at = k.at(row, c);
          Value v = k.mul(k.load(dy, at), k.normalise(k.load(x, at), s));
          k.store(k.add(k.load(out, c), v), out, c);
        });
      },
      /*simd=*/false);
  return success();
}

/// Group norm: a point takes a channel through samples and positions.
LogicalResult lowerDscaleOfChannels(Operation *op, FunctionLowering &f,
                                    const Source &x, Value grad,
                                    const NormShape &shape) {
  SavedStatistics saved = saveStatistics(op, f, x, shape);
  Destination d = f.accumulating(op->getResult(0));
  NormKernel k(f, op, shape, shape.scale());
  Value dy = k.use(f.get(grad), shape.all()),
        out = k.use(d.buffer, shape.scale()),
        inv = k.use(saved.inv, shape.rows),
        mean = k.use(saved.mean, shape.rows);
  Type type = k.scalarOf(x);
  Value group = k.index(0), channel = k.index(1);
  Value total = k.fold(
      ArrayRef<DimExpr>(shape.rows).take_front(), k.number(type, 0),
      [&](ValueRange n, ValueRange carried) {
        SmallVector<Value> row{n[0], group};
        Statistics s{k.load(mean, row), k.load(inv, row)};
        return k.fold(ArrayRef<DimExpr>(shape.inner).drop_front(), carried,
                      [&](ValueRange i, ValueRange sum) {
                        SmallVector<Value> at{n[0], group, channel, i[0]};
                        Value v = k.mul(k.load(dy, at),
                                        k.normalise(k.load(x, at), s));
                        return SmallVector<Value>{k.add(sum[0], v)};
                      });
      },
      /*simd=*/false)[0];
  k.write(d, total, out, k.indices());
  return success();
}

/// RMS norms take no mean off.
template <typename OpTy> NormShape shapeOf(OpTy op, const Source &input) {
  return lastAxes(op,
                  !llvm::is_one_of<OpTy, nn::RmsNormOp, nn::RmsNormDxOp,
                                   nn::RmsNormDscaleOp>::value,
                  input);
}
NormShape shapeOf(nn::GroupNormOp op, const Source &) { return groups(op); }
NormShape shapeOf(nn::GroupNormDxOp op, const Source &) { return groups(op); }
NormShape shapeOf(nn::GroupNormDscaleOp op, const Source &) {
  return groups(op);
}

/// What a norm reads, and how.
struct Norm {
  template <typename OpTy>
  Norm(OpTy op, FunctionLowering &f)
      : input(f.read(op.getInput())), shape(shapeOf(op, input)) {
    // Of the dims that the shape has.
    if (input.columns)
      input.columns->axis = 1;
  }
  Source input;
  NormShape shape;
};

template <typename OpTy> LogicalResult lowerNorm(OpTy op, FunctionLowering &f) {
  Value bias;
  if constexpr (!std::is_same_v<OpTy, nn::RmsNormOp>)
    bias = op.getBias();
  Norm norm(op, f);
  return lowerForward(op, f, norm.input, op.getScale(), bias, norm.shape);
}
template <typename OpTy>
LogicalResult lowerNormDx(OpTy op, FunctionLowering &f) {
  Norm norm(op, f);
  return lowerDx(op, f, norm.input, op.getScale(), op.getGrad(), norm.shape);
}
template <typename OpTy>
LogicalResult lowerNormDscale(OpTy op, FunctionLowering &f) {
  Norm norm(op, f);
  return lowerDscaleOfRows(op, f, norm.input, op.getGrad(), norm.shape);
}
LogicalResult lowerGroupNormDscale(nn::GroupNormDscaleOp op,
                                   FunctionLowering &f) {
  Norm norm(op, f);
  return lowerDscaleOfChannels(op, f, norm.input, op.getGrad(), norm.shape);
}

} // namespace

void dt::lower::attachNormLowerings(MLIRContext *context) {
  attachLowering<nn::LayerNormOp, lowerNorm>(context);
  attachLowering<nn::RmsNormOp, lowerNorm>(context);
  attachLowering<nn::GroupNormOp, lowerNorm>(context);
  attachLowering<nn::LayerNormDxOp, lowerNormDx>(context);
  attachLowering<nn::RmsNormDxOp, lowerNormDx>(context);
  attachLowering<nn::GroupNormDxOp, lowerNormDx>(context);
  attachLowering<nn::LayerNormDscaleOp, lowerNormDscale>(context);
  attachLowering<nn::RmsNormDscaleOp, lowerNormDscale>(context);
  attachLowering<nn::GroupNormDscaleOp, lowerGroupNormDscale>(context);
}
