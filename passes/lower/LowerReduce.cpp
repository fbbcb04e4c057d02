//===- LowerReduce.cpp - Reductions, running sums, arg max ------*- C++ -*-===//
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

/// The input's dims, neighbours of one kind merged, those of size 1 left out.
struct ReducedDims {
  Shape dims;
  SmallVector<bool> reduced;

  ReducedDims(const Shape &shape, ArrayRef<int64_t> axes) {
    int64_t rank = shape.size();
    for (int64_t i = 0; i < rank; ++i) {
      const DimExpr &d = shape[i];
      bool r = llvm::any_of(
          axes, [&](int64_t a) { return (a < 0 ? a + rank : a) == i; });
      if (d == DimExpr(1))
        continue;
      if (!dims.empty() && reduced.back() == r) {
        dims.back() = dims.back() * d;
      } else {
        dims.push_back(d);
        reduced.push_back(r);
      }
    }
  }
  Shape pick(bool r) const {
    Shape s;
    for (auto [d, is] : llvm::zip(dims, reduced))
      if (is == r)
        s.push_back(d);
    return s;
  }
  /// Indices of an element from those along kept and reduced dims.
  SmallVector<Value> at(ValueRange kept, ValueRange along) const {
    SmallVector<Value> indices;
    size_t i = 0, j = 0;
    for (bool r : reduced)
      indices.push_back(r ? along[j++] : kept[i++]);
    return indices;
  }
};

/// How two elements become one, and what leaves the other as it is.
struct Combiner {
  nn::ReduceKind kind;
  Type type;
  bool isUnsigned = false;

  Value operator()(KernelBuilder &k, Value x, Value y) const {
    bool isFloat = isa<FloatType>(type), isBool = type.isInteger(1);
    switch (kind) {
    case nn::ReduceKind::sum:
    case nn::ReduceKind::mean:
      return isBool ? k.make<arith::OrIOp>(x, y) : k.add(x, y);
    case nn::ReduceKind::prod:
      return isBool ? k.make<arith::AndIOp>(x, y) : k.mul(x, y);
    case nn::ReduceKind::max:
      if (isBool)
        return k.make<arith::OrIOp>(x, y);
      if (isUnsigned)
        return k.make<arith::MaxUIOp>(x, y);
      return isFloat ? k.make<arith::MaximumFOp>(x, y) : k.max(x, y);
    case nn::ReduceKind::min:
      if (isBool)
        return k.make<arith::AndIOp>(x, y);
      if (isUnsigned)
        return k.make<arith::MinUIOp>(x, y);
      return isFloat ? k.make<arith::MinimumFOp>(x, y) : k.min(x, y);
    }
    llvm_unreachable("all kinds are listed");
  }

  Value identity(KernelBuilder &k) const {
    if (type.isInteger(1))
      return k.make<arith::ConstantOp>(k.b.getBoolAttr(
          kind == nn::ReduceKind::min || kind == nn::ReduceKind::prod));
    bool max = kind == nn::ReduceKind::max;
    if (kind == nn::ReduceKind::prod)
      return k.number(type, 1);
    if (!max && kind != nn::ReduceKind::min)
      return k.number(type, 0);
    if (isa<FloatType>(type)) {
      double inf = std::numeric_limits<double>::infinity();
      return k.number(type, max ? -inf : inf);
    }
    unsigned bits = type.getIntOrFloatBitWidth();
    APInt least =
        isUnsigned ? APInt::getMinValue(bits) : APInt::getSignedMinValue(bits);
    APInt most =
        isUnsigned ? APInt::getMaxValue(bits) : APInt::getSignedMaxValue(bits);
    return k.make<arith::ConstantOp>(
        k.b.getIntegerAttr(type, max ? least : most));
  }

  /// Result from the combination of `count` elements.
  Value finish(KernelBuilder &k, Value v, const DimExpr &count) const {
    if (kind != nn::ReduceKind::mean)
      return v;
    if (isa<FloatType>(type))
      return k.div(v, k.sizeAs(type, count));
    return k.div(v, k.make<arith::IndexCastOp>(type, k.size(count)));
  }
};

/// Destination that may be a gradient when sums are what is computed.
Destination reduceDestination(nn::ReduceOp op, FunctionLowering &f) {
  bool sum = op.getKind() == nn::ReduceKind::sum &&
             isa<FloatType>(getElementTypeOrSelf(op));
  return sum ? f.accumulating(op.getResult()) : f.destination(op.getResult());
}

/// The last dim is reduced: a point of the kept dims walks its elements.
void reduceRows(nn::ReduceOp op, FunctionLowering &f, const ReducedDims &dims,
                const Combiner &combine) {
  Shape kept = dims.pick(false), along = dims.pick(true);
  Destination d = reduceDestination(op, f);
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), kept);
  Value x = k.use(f.get(op.getInput()), dims.dims), y = k.use(d.buffer, kept);
  SmallVector<Value> point = k.indices();
  Value v =
      k.fold(along, combine.identity(k), [&](ValueRange i, ValueRange carried) {
        Value e = k.load(x, dims.at(point, i));
        return SmallVector<Value>{combine(k, carried[0], e)};
      })[0];
  k.write(d, combine.finish(k, v, nn::getNumElements(along)), y, point);
}

/// The last dim is kept: a point takes a block of its columns through all rows
/// and combines in place, so that memory is read along the rows.
void reduceColumns(nn::ReduceOp op, FunctionLowering &f,
                   const ReducedDims &dims, const Combiner &combine) {
  Shape kept = dims.pick(false), along = dims.pick(true);
  ColumnBlocks blocks(kept.back());
  Shape bounds(kept.begin(), kept.end() - 1);
  bounds.push_back(blocks.count);
  Destination d = f.summing(reduceDestination(op, f));
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), bounds);
  Value x = k.use(f.get(op.getInput()), dims.dims), y = k.use(d.buffer, kept);
  auto [begin, width] = blocks.range(k, k.indices().back());
  auto column = [&, begin = begin](ValueRange i) {
    SmallVector<Value> at = k.indices();
    at.back() = k.add(begin, i[0]);
    return at;
  };
  if (!d.add)
    k.forEach(width, [&](ValueRange i) {
      k.store(combine.identity(k), y, column(i));
    });
  k.forEach(
      along,
      [&, width = width](ValueRange row) {
        k.forEach(width, [&](ValueRange i) {
          SmallVector<Value> at = column(i);
          Value e = k.load(x, dims.at(at, row));
          k.store(combine(k, k.load(y, at), e), y, at);
        });
      },
      /*simd=*/false);
  if (combine.kind == nn::ReduceKind::mean)
    k.forEach(width, [&](ValueRange i) {
      SmallVector<Value> at = column(i);
      k.store(combine.finish(k, k.load(y, at), nn::getNumElements(along)), y,
              at);
    });
}

LogicalResult lowerReduce(nn::ReduceOp op, FunctionLowering &f) {
  ReducedDims dims(nn::getShape(op.getInput()), op.getAxes());
  Type element = getElementTypeOrSelf(op);
  Combiner combine{op.getKind(), rt::getScalarType(element),
                   element.isUnsignedInteger()};
  if (!llvm::is_contained(dims.reduced, true))
    f.alias(op.getResult(), f.view(f.get(op.getInput()),
                                   nn::getShape(op.getResult()), op.getLoc()));
  else if (dims.reduced.back())
    reduceRows(op, f, dims, combine);
  else
    reduceColumns(op, f, dims, combine);
  return success();
}

LogicalResult lowerCumsum(nn::CumsumOp op, FunctionLowering &f) {
  Shape all = aroundAxis(nn::getShape(op.getInput()), op.getAxis());
  Destination d = f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), {all[0], all[2]});
  Value x = k.use(f.get(op.getInput()), all), y = k.use(d.buffer, all);
  Type type = k.scalarOf(x);
  Value last = k.size(all[1] - DimExpr(1));
  k.fold(
      Shape{all[1]}, k.number(type, 0),
      [&](ValueRange i, ValueRange carried) {
        Value at = op.getReverse() ? k.sub(last, i[0]) : i[0];
        SmallVector<Value> indices{k.index(0), at, k.index(1)};
        Value sum = k.add(carried[0], k.load(x, indices));
        k.store(op.getExclusive() ? carried[0] : sum, y, indices);
        return SmallVector<Value>{sum};
      },
      /*simd=*/false);
  return success();
}

LogicalResult lowerArgMax(nn::ArgMaxOp op, FunctionLowering &f) {
  Shape all = aroundAxis(nn::getShape(op.getInput()), op.getAxis());
  Shape kept{all[0], all[2]};
  Destination d = f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), kept);
  Value x = k.use(f.get(op.getInput()), all), y = k.use(d.buffer, kept);
  auto element = [&](Value i) {
    return k.load(x, {k.index(0), i, k.index(1)});
  };
  Value zero = k.constant(0);
  Type type = op.getInput().getType().getElementType();
  auto less = [&](Value x, Value y) {
    return type.isUnsignedInteger()
               ? k.make<arith::CmpIOp>(arith::CmpIPredicate::ult, x, y)
               : k.less(x, y);
  };
  // An axis of no element has no first one to begin with.
  Value first =
      all[1].isConstant() && all[1].constant() > 0
          ? element(zero)
          : k.either(
                k.less(zero, k.size(all[1])), [&] { return element(zero); },
                [&] { return k.number(rt::getScalarType(type), 0); });
  SmallVector<Value> best = k.fold(
      Shape{all[1]}, {first, zero},
      [&](ValueRange i, ValueRange carried) {
        Value v = element(i[0]);
        Value better = op.getMin() ? less(v, carried[0]) : less(carried[0], v);
        if (op.getLast())
          better = k.make<arith::OrIOp>(better, k.equal(v, carried[0]));
        return SmallVector<Value>{k.select(better, v, carried[0]),
                                  k.select(better, i[0], carried[1])};
      },
      /*simd=*/false);
  k.store(k.make<arith::IndexCastOp>(k.b.getI64Type(), best[1]), y,
          k.indices());
  return success();
}

} // namespace

void dt::lower::attachReduceLowerings(MLIRContext *context) {
  attachLowering<nn::ReduceOp, lowerReduce>(context);
  attachLowering<nn::CumsumOp, lowerCumsum>(context);
  attachLowering<nn::ArgMaxOp, lowerArgMax>(context);
}
