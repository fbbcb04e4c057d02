//===- LowerSoftmax.cpp - Softmax, log-softmax, cross-entropy ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNLimits.h"
#include "passes/lower/FunctionLowering.h"

#include <limits>

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

/// A tensor seen as [outer, n, inner] with `axis` in the middle; a point of a
/// kernel over (outer, inner) walks along the axis. Inner is absent when it
/// is 1.
struct AlongAxis {
  Shape bounds, all;
  DimExpr n;
  bool last;

  AlongAxis(const Shape &shape, int64_t axis) : n(0) {
    if (axis < 0)
      axis += shape.size();
    ArrayRef<DimExpr> dims(shape);
    DimExpr outer = nn::getNumElements(dims.take_front(axis)),
            inner = nn::getNumElements(dims.drop_front(axis + 1));
    n = shape[axis];
    last = inner == DimExpr(1);
    bounds = last ? Shape{outer} : Shape{outer, inner};
    all = last ? Shape{outer, n} : Shape{outer, n, inner};
  }
  SmallVector<Value> at(KernelBuilder &k, Value i) const {
    SmallVector<Value> indices{k.index(0), i};
    if (!last)
      indices.push_back(k.index(1));
    return indices;
  }
};

/// Largest of n values.
Value maximum(KernelBuilder &k, const DimExpr &n, Type type,
              function_ref<Value(Value)> element) {
  return k.fold(Shape{n},
                k.number(type, -std::numeric_limits<double>::infinity()),
                [&](ValueRange i, ValueRange m) {
                  return SmallVector<Value>{k.max(m[0], element(i[0]))};
                })[0];
}

Value total(KernelBuilder &k, const DimExpr &n, Type type,
            function_ref<Value(Value)> element) {
  return k.fold(Shape{n}, k.number(type, 0), [&](ValueRange i, ValueRange s) {
    return SmallVector<Value>{k.add(s[0], element(i[0]))};
  })[0];
}

template <typename OpTy>
LogicalResult lowerSoftmax(OpTy op, FunctionLowering &f) {
  constexpr bool isLog = std::is_same_v<OpTy, nn::LogSoftmaxOp>;
  AlongAxis axis(nn::getShape(op.getInput()), op.getAxis());
  Destination d = f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), axis.bounds);
  Value x = k.use(f.get(op.getInput()), axis.all),
        y = k.use(d.buffer, axis.all);
  Type type = k.scalarOf(x);
  auto at = [&](Value i) { return axis.at(k, i); };
  Value m = maximum(k, axis.n, type, [&](Value i) { return k.load(x, at(i)); });
  auto exponential = [&](Value i) { return k.exp(k.sub(k.load(x, at(i)), m)); };
  bool keeps = !isLog && !k.isNarrow(y);
  Value sum = total(k, axis.n, type, [&](Value i) {
    Value e = exponential(i);
    if (keeps)
      k.store(e, y, at(i));
    return e;
  });
  Value last = isLog ? k.log(sum) : k.div(k.number(type, 1), sum);
  k.forEach(Shape{axis.n}, [&](ValueRange i) {
    // Beside a large maximum the logarithm would be rounded away.
    Value v =
        isLog ? k.sub(k.sub(k.load(x, at(i[0])), m), last)
              : k.mul(keeps ? k.load(y, at(i[0])) : exponential(i[0]), last);
    k.store(v, y, at(i[0]));
  });
  return success();
}

template <typename OpTy>
LogicalResult lowerSoftmaxGrad(OpTy op, FunctionLowering &f) {
  constexpr bool isLog = std::is_same_v<OpTy, nn::LogSoftmaxGradOp>;
  AlongAxis axis(nn::getShape(op.getOutput()), op.getAxis());
  Destination d = f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), axis.bounds);
  Value y = k.use(f.get(op.getOutput()), axis.all),
        dy = k.use(f.get(op.getGrad()), axis.all),
        dx = k.use(d.buffer, axis.all);
  auto at = [&](Value i) { return axis.at(k, i); };
  Value sum = total(k, axis.n, k.scalarOf(y), [&](Value i) {
    Value g = k.load(dy, at(i));
    return isLog ? g : k.mul(k.load(y, at(i)), g);
  });
  k.forEach(Shape{axis.n}, [&](ValueRange i) {
    Value g = k.load(dy, at(i[0])), p = k.load(y, at(i[0]));
    Value v = isLog ? k.sub(g, k.mul(k.exp(p), sum)) : k.mul(p, k.sub(g, sum));
    k.store(v, dx, at(i[0]));
  });
  return success();
}

/// What padding counts as: its exponential is 0 beside any logit.
constexpr double kPadding = -1e30;

/// Logits as rows, a point a row.
struct Rows {
  Shape rows, all;
  DimExpr classes;

  Rows(Value logits) : classes(0) {
    Shape shape = nn::getShape(logits);
    classes = shape.back();
    rows = {nn::getNumElements(ArrayRef<DimExpr>(shape).drop_back())};
    all = {rows[0], classes};
  }
};

/// A function that reads the logits of the kernel's row; padding is far below
/// all others.
template <typename OpTy>
std::function<Value(Value)> readLogits(OpTy op, FunctionLowering &f,
                                       KernelBuilder &k, Value x) {
  Value row = k.index(0), bound;
  if (Value classes = op.getClasses())
    bound = k.toIndex(k.load(k.use(f.get(classes), Shape{}), {}));
  return [&k, x, row, bound](Value i) {
    Value logit = k.load(x, {row, i});
    return bound ? k.select(k.less(i, bound), logit,
                            k.number(logit.getType(), kPadding))
                 : logit;
  };
}

/// Whether a label takes part, as the op's description says.
Value isValid(KernelBuilder &k, Value label, const DimExpr &classes,
              int64_t ignore) {
  Type type = label.getType();
  Value count = k.make<arith::IndexCastOp>(type, k.size(classes));
  Value inside = k.both(k.make<arith::CmpIOp>(arith::CmpIPredicate::sge, label,
                                              k.number(type, 0)),
                        k.less(label, count));
  return k.both(inside, k.make<arith::CmpIOp>(arith::CmpIPredicate::ne, label,
                                              k.number(type, double(ignore))));
}

LogicalResult lowerCrossEntropy(nn::CrossEntropyOp op, FunctionLowering &f) {
  Rows r(op.getLogits());
  Destination d = f.destination(op.getResult());
  nn::BlockAttr block = op.getBlockAttr();
  f.checkIndices(op, op.getLabels(),
                 block ? IndexRange::ofBlock(block)
                       : IndexRange{"classes", r.classes, false,
                                    int64_t(op.getIgnoreIndex())});
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), r.rows);
  Value x = k.use(f.get(op.getLogits()), r.all),
        labels = k.use(f.get(op.getLabels()), r.rows),
        y = k.use(d.buffer, r.rows);
  Type type = k.scalarOf(x);
  Value row = k.index(0), label = k.load(labels, row);
  auto element = readLogits(op, f, k, x);
  auto loss = [&] {
    Value m = maximum(k, r.classes, type, element);
    Value sum = total(k, r.classes, type,
                      [&](Value i) { return k.exp(k.sub(element(i), m)); });
    // Differences of logits first: they are exact where the loss is small.
    return k.sub(k.log(sum), k.sub(element(k.toIndex(label)), m));
  };
  Value v = k.either(isValid(k, label, r.classes, op.getIgnoreIndex()), loss,
                     [&] { return k.number(type, 0); });
  k.store(v, y, row);
  return success();
}

LogicalResult lowerCrossEntropyGrad(nn::CrossEntropyGradOp op,
                                    FunctionLowering &f) {
  Rows r(op.getLogits());
  Destination d = f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), r.rows);
  Value x = k.use(f.get(op.getLogits()), r.all),
        labels = k.use(f.get(op.getLabels()), r.rows),
        dy = k.use(f.get(op.getGrad()), r.rows), dx = k.use(d.buffer, r.all);
  Value losses = op.getLoss() ? k.use(f.get(op.getLoss()), r.rows) : Value();
  Type type = k.scalarOf(x);
  Value row = k.index(0), label = k.load(labels, row);
  auto element = readLogits(op, f, k, x);
  // (share of a class - [it is the label]) * dy; rounded once, as the
  // difference is small near the label.
  auto storeAll = [&](Value g, function_ref<Value(Value)> scaledShare) {
    Value at = k.toIndex(label), zero = k.number(type, 0);
    k.forEach(Shape{r.classes}, [&](ValueRange i) {
      Value taken = k.select(k.equal(i[0], at), g, zero);
      k.store(k.sub(scaledShare(i[0]), taken), dx, {row, i[0]});
    });
  };
  auto fromLoss = [&] {
    Value g = k.load(dy, row), loss = k.load(losses, row),
          own = element(k.toIndex(label));
    storeAll(g, [&](Value i) {
      return k.mul(k.exp(k.sub(k.sub(element(i), own), loss)), g);
    });
  };
  // A row that does not count has factor 0; its exponentials are not computed.
  auto softmax = [&] {
    Value m = maximum(k, r.classes, type, element);
    auto exponential = [&](Value i) { return k.exp(k.sub(element(i), m)); };
    bool keeps = !k.isNarrow(dx);
    Value sum = total(k, r.classes, type, [&](Value i) {
      Value e = exponential(i);
      if (keeps)
        k.store(e, dx, {row, i});
      return e;
    });
    Value g = k.load(dy, row), factor = k.div(g, sum);
    if (!keeps)
      return storeAll(g,
                      [&](Value i) { return k.mul(exponential(i), factor); });
    k.forEach(Shape{r.classes}, [&](ValueRange i) {
      k.store(k.mul(k.load(dx, {row, i[0]}), factor), dx, {row, i[0]});
    });
    SmallVector<Value> at{row, k.toIndex(label)};
    k.store(k.sub(k.load(dx, at), g), dx, at);
  };
  auto zeros = [&] {
    k.forEach(Shape{r.classes}, [&](ValueRange i) {
      k.store(k.number(type, 0), dx, {row, i[0]});
    });
  };
  Value counts = isValid(k, label, r.classes, op.getIgnoreIndex());
  if (losses)
    k.when(counts, fromLoss, zeros);
  else
    k.when(counts, softmax, zeros);
  return success();
}

} // namespace

void dt::lower::attachSoftmaxLowerings(MLIRContext *context) {
  attachLowering<nn::SoftmaxOp, lowerSoftmax>(context);
  attachLowering<nn::LogSoftmaxOp, lowerSoftmax>(context);
  attachLowering<nn::SoftmaxGradOp, lowerSoftmaxGrad>(context);
  attachLowering<nn::LogSoftmaxGradOp, lowerSoftmaxGrad>(context);
  attachLowering<nn::CrossEntropyOp, lowerCrossEntropy>(context);
  attachLowering<nn::CrossEntropyGradOp, lowerCrossEntropyGrad>(context);
}
