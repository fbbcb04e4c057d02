//===- LowerTopK.cpp - The k largest elements, sorted -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Two kernels, both without scratch and in a fixed order. Where a good part of
// the axis is taken, each element counts those that come before it: that is its
// place, and all elements do it at once. Where few are taken of many, a point
// walks along the axis and inserts into its list what is better than the list's
// last, which is rare.
//
//===----------------------------------------------------------------------===//

#include "passes/lower/FunctionLowering.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

/// At least so many times as many elements as are taken make a list pay.
constexpr int64_t kListRatio = 8;

/// The order of elements: by value, not-a-number above all numbers.
struct Order {
  bool smallest, isUnsigned;

  /// Whether x comes before y whatever their indices are.
  Value before(KernelBuilder &k, Value x, Value y) const {
    return smallest ? greater(k, y, x) : greater(k, x, y);
  }

private:
  Value greater(KernelBuilder &k, Value x, Value y) const {
    if (!isa<FloatType>(x.getType()))
      return k.make<arith::CmpIOp>(isUnsigned ? arith::CmpIPredicate::ugt
                                              : arith::CmpIPredicate::sgt,
                                   x, y);
    Value number = k.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, y, y);
    return k.both(number,
                  k.make<arith::CmpFOp>(arith::CmpFPredicate::UGT, x, y));
  }
};

/// Input [outer, n, inner], results [outer, k, inner].
struct TopK {
  nn::TopKOp op;
  FunctionLowering &f;
  Destination values, indices;
  Shape in, out;
  Order order;

  TopK(nn::TopKOp op, FunctionLowering &f)
      : op(op), f(f), values(f.destination(op.getValues())),
        indices(f.destination(op.getIndices())) {
    Shape shape = nn::getShape(op.getInput());
    ArrayRef<DimExpr> dims(shape);
    int64_t axis = op.getAxis();
    in = {nn::getNumElements(dims.take_front(axis)), dims[axis],
          nn::getNumElements(dims.drop_front(axis + 1))};
    out = in;
    out[1] = nn::getShape(op.getValues())[axis];
    Type element = op.getInput().getType().getElementType();
    order = {op.getSmallest(),
             element.isUnsignedInteger() || element.isInteger(1)};
  }

  bool isShort() const {
    std::optional<int64_t> n = in[1].asConstant(), k = out[1].asConstant();
    return n && k && *n / kListRatio >= *k;
  }
  void countPlaces();
  void keepList();
};

void TopK::countPlaces() {
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), in);
  Value x = k.use(f.get(op.getInput()), in), y = k.use(values.buffer, out),
        at = k.use(indices.buffer, out);
  Value mine = k.load(x, k.indices()), i = k.index(1);
  Value one = k.constant(1), zero = k.constant(0);
  Value place = k.fold(Shape{in[1]}, zero, [&](ValueRange j, ValueRange count) {
    Value other = k.load(x, {k.index(0), j[0], k.index(2)});
    // Of equals the lower index comes first.
    Value notAfter =
        k.make<arith::XOrIOp>(order.before(k, mine, other),
                              k.make<arith::ConstantOp>(k.b.getBoolAttr(true)));
    Value first = k.make<arith::OrIOp>(order.before(k, other, mine),
                                       k.both(notAfter, k.less(j[0], i)));
    return SmallVector<Value>{k.add(count[0], k.select(first, one, zero))};
  })[0];
  auto store = [&] {
    SmallVector<Value> to{k.index(0), place, k.index(2)};
    k.store(mine, y, to);
    k.store(k.make<arith::IndexCastOp>(k.b.getI64Type(), i), at, to);
  };
  if (in[1] == out[1])
    store();
  else
    k.when(k.less(place, k.size(out[1])), store);
}

void TopK::keepList() {
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), {in[0], in[2]});
  Value x = k.use(f.get(op.getInput()), in), y = k.use(values.buffer, out),
        at = k.use(indices.buffer, out);
  Value size = k.size(out[1]), last = k.constant(out[1].constant() - 1);
  Value no = k.make<arith::ConstantOp>(k.b.getBoolAttr(false)),
        yes = k.make<arith::ConstantOp>(k.b.getBoolAttr(true));
  auto entry = [&](Value t) {
    return SmallVector<Value>{k.index(0), t, k.index(1)};
  };
  auto insert = [&](Value v, Value i, Value count) {
    // From where the new element belongs, each takes its successor's place.
    SmallVector<Value> carried = k.fold(
        count, {v, k.make<arith::IndexCastOp>(k.b.getI64Type(), i), no},
        [&](ValueRange t, ValueRange c) {
          Value there = k.load(y, entry(t[0])), place = k.load(at, entry(t[0]));
          Value moves =
              k.make<arith::OrIOp>(c[2], order.before(k, c[0], there));
          k.store(k.select(moves, c[0], there), y, entry(t[0]));
          k.store(k.select(moves, c[1], place), at, entry(t[0]));
          return SmallVector<Value>{k.select(moves, there, c[0]),
                                    k.select(moves, place, c[1]), moves};
        },
        /*simd=*/false);
    k.when(k.less(count, size), [&] {
      k.store(carried[0], y, entry(count));
      k.store(carried[1], at, entry(count));
    });
  };
  k.forEach(
      Shape{in[1]},
      [&](ValueRange i) {
        Value v = k.load(x, {k.index(0), i[0], k.index(1)});
        Value room = k.less(i[0], size);
        Value enters = k.either(
            room, [&] { return yes; },
            [&] { return order.before(k, v, k.load(y, entry(last))); });
        k.when(enters, [&] { insert(v, i[0], k.min(i[0], size)); });
      },
      /*simd=*/false);
}

LogicalResult lowerTopK(nn::TopKOp op, FunctionLowering &f) {
  TopK t(op, f);
  if (t.out[1] == DimExpr(0))
    return success();
  if (t.isShort())
    t.keepList();
  else
    t.countPlaces();
  return success();
}

} // namespace

void dt::lower::attachTopKLowerings(MLIRContext *context) {
  attachLowering<nn::TopKOp, lowerTopK>(context);
}
