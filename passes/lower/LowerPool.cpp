//===- LowerPool.cpp - Max and average pooling and their gradient ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/FunctionLowering.h"

#include <limits>

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

/// Tensors as [planes, spatial...].
template <typename OpTy> struct Windows {
  OpTy op;
  KernelBuilder *k = nullptr;
  Shape in, out; ///< with planes first
  ArrayRef<int64_t> kernel, strides, pads, dilations;
  unsigned rank;
  bool isMax, includePad;

  Windows(OpTy op, const Shape &input, const Shape &output)
      : op(op), kernel(op.getKernel()), strides(op.getStrides()),
        pads(op.getPads()), dilations(op.getDilations()), rank(kernel.size()),
        isMax(op.getKind() == nn::PoolKind::max),
        includePad(op.getKind() == nn::PoolKind::avg_include_pad) {
    in = planes(input);
    out = planes(output);
  }
  static Shape planes(const Shape &s) {
    Shape r{s[0] * s[1]};
    r.append(s.begin() + 2, s.end());
    return r;
  }
  Shape kernelShape() const {
    return llvm::map_to_vector<4>(kernel, [](int64_t n) { return DimExpr(n); });
  }

  /// Position in the input of tap `tap` of window `window`, and whether it is
  /// inside.
  SmallVector<Value> tapAt(Value plane, ValueRange window, ValueRange tap,
                           Value &inside) {
    SmallVector<Value> at{plane};
    inside = nullptr;
    for (unsigned i = 0; i < rank; ++i) {
      Value p = k->add(k->mul(window[i], k->constant(strides[i])),
                       k->mul(tap[i], k->constant(dilations[i])));
      if (pads[i])
        p = k->sub(p, k->constant(pads[i]));
      Value ok = k->both(
          k->make<arith::CmpIOp>(arith::CmpIPredicate::sge, p, k->constant(0)),
          k->less(p, k->size(in[i + 1])));
      inside = inside ? k->both(inside, ok) : ok;
      at.push_back(p);
    }
    return at;
  }

  /// Number of taps that an average divides by: those inside the input, or
  /// inside the padded input.
  Value count(Type type, ValueRange window) {
    Value total;
    for (unsigned i = 0; i < rank; ++i) {
      DimExpr end = includePad ? in[i + 1] + DimExpr(pads[i] + pads[rank + i])
                               : in[i + 1];
      Value n = k->fold(
          Shape{DimExpr(kernel[i])}, k->number(type, 0),
          [&](ValueRange tap, ValueRange carried) {
            Value p = k->add(k->mul(window[i], k->constant(strides[i])),
                             k->mul(tap[0], k->constant(dilations[i])));
            if (!includePad && pads[i])
              p = k->sub(p, k->constant(pads[i]));
            Value ok = k->both(k->make<arith::CmpIOp>(arith::CmpIPredicate::sge,
                                                      p, k->constant(0)),
                               k->less(p, k->size(end)));
            Value one = k->select(ok, k->number(type, 1), k->number(type, 0));
            return SmallVector<Value>{k->add(carried[0], one)};
          },
          /*simd=*/false)[0];
      total = total ? k->mul(total, n) : n;
    }
    return total;
  }

  /// Folds over the taps that lie inside.
  SmallVector<Value>
  taps(Value plane, ValueRange window, ValueRange init,
       function_ref<SmallVector<Value>(ArrayRef<Value>, ValueRange)> body) {
    return k->fold(
        kernelShape(), init,
        [&](ValueRange tap, ValueRange carried) {
          Value inside;
          SmallVector<Value> at = tapAt(plane, window, tap, inside);
          auto branch = scf::IfOp::create(
              k->b, k->loc, inside,
              [&](OpBuilder &nested, Location) {
                OpBuilder::InsertionGuard guard(k->b);
                k->b.restoreInsertionPoint(nested.saveInsertionPoint());
                scf::YieldOp::create(k->b, k->loc, body(at, carried));
              },
              [&](OpBuilder &nested, Location loc) {
                scf::YieldOp::create(nested, loc, carried);
              });
          return SmallVector<Value>(branch.getResults());
        },
        /*simd=*/false);
  }
};

LogicalResult lowerPool(nn::PoolOp op, FunctionLowering &f) {
  Windows<nn::PoolOp> w(op, nn::getShape(op.getInput()),
                        nn::getShape(op.getResult()));
  Destination d = f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), w.out);
  w.k = &k;
  Value x = k.use(f.get(op.getInput()), w.in), y = k.use(d.buffer, w.out);
  Type type = k.scalarOf(x);
  SmallVector<Value> point = k.indices();
  ValueRange window = ValueRange(point).drop_front();
  double start = w.isMax ? -std::numeric_limits<double>::infinity() : 0.0;
  Value v = w.taps(point[0], window, k.number(type, start),
                   [&](ArrayRef<Value> at, ValueRange carried) {
                     Value e = k.load(x, at);
                     Value r = w.isMax
                                   ? k.make<arith::MaximumFOp>(carried[0], e)
                                   : k.add(carried[0], e);
                     return SmallVector<Value>{r};
                   })[0];
  if (!w.isMax)
    v = k.div(v, w.count(type, window));
  k.store(v, y, point);
  return success();
}

/// A point takes a plane: windows overlap, so they go one after another.
LogicalResult lowerPoolDx(nn::PoolDxOp op, FunctionLowering &f) {
  Windows<nn::PoolDxOp> w(op, nn::getShape(op.getInput()),
                          nn::getShape(op.getGrad()));
  Destination d = f.summing(f.destination(op.getResult()));
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), {w.in[0]});
  w.k = &k;
  Value x = k.use(f.get(op.getInput()), w.in),
        dy = k.use(f.get(op.getGrad()), w.out), dx = k.use(d.buffer, w.in);
  Type type = k.scalarOf(x);
  Value plane = k.index(0);
  auto at = [&](ValueRange i) {
    SmallVector<Value> indices{plane};
    llvm::append_range(indices, i);
    return indices;
  };
  k.forEach(ArrayRef<DimExpr>(w.in).drop_front(),
            [&](ValueRange i) { k.store(k.number(type, 0), dx, at(i)); });
  auto addAt = [&](ValueRange to, Value g) {
    k.store(k.add(k.load(dx, to), g), dx, to);
  };
  auto maxWindow = [&](ValueRange window, Value g) {
    // The first largest element: its position is carried along.
    SmallVector<Value> init{
        k.number(type, -std::numeric_limits<double>::infinity()),
        k.make<arith::ConstantOp>(k.b.getBoolAttr(false))};
    for (unsigned i = 0; i < w.rank; ++i)
      init.push_back(k.constant(0));
    SmallVector<Value> best =
        w.taps(plane, window, init, [&](ArrayRef<Value> p, ValueRange carried) {
          Value e = k.load(x, p);
          Value none = k.make<arith::XOrIOp>(
              carried[1], k.make<arith::ConstantOp>(k.b.getBoolAttr(true)));
          Value better = k.make<arith::OrIOp>(none, k.less(carried[0], e));
          SmallVector<Value> next{
              k.select(better, e, carried[0]),
              k.make<arith::ConstantOp>(k.b.getBoolAttr(true))};
          for (unsigned i = 0; i < w.rank; ++i)
            next.push_back(k.select(better, p[i + 1], carried[i + 2]));
          return next;
        });
    ValueRange position = ValueRange(best).drop_front(2);
    k.when(best[1], [&] { addAt(at(position), g); });
  };
  auto averageWindow = [&](ValueRange window, Value g) {
    Value share = k.div(g, w.count(type, window));
    w.taps(plane, window, {}, [&](ArrayRef<Value> p, ValueRange) {
      addAt(p, share);
      return SmallVector<Value>();
    });
  };
  k.forEach(
      ArrayRef<DimExpr>(w.out).drop_front(),
      [&](ValueRange window) {
        Value g = k.load(dy, at(window));
        w.isMax ? maxWindow(window, g) : averageWindow(window, g);
      },
      /*simd=*/false);
  return success();
}

} // namespace

void dt::lower::attachPoolLowerings(MLIRContext *context) {
  attachLowering<nn::PoolOp, lowerPool>(context);
  attachLowering<nn::PoolDxOp, lowerPoolDx>(context);
}
