//===- LowerIndexing.cpp - Gathers, scatters and their gradients ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Gradients add in the order of the indices: points of a kernel divide what is
// added (columns of the slices), never the indices, so no atomics and the same
// bits each time. Indices come from data: the forward ops have wrong ones
// reported, and all clamp them, so that none can touch other memory.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNLimits.h"
#include "passes/lower/FunctionLowering.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

/// An index from data as a valid one: negative ones count from the end.
Value wrap(KernelBuilder &k, Value raw, const DimExpr &extent) {
  Value i = k.toIndex(raw), n = k.size(extent), zero = k.constant(0);
  i = k.select(k.less(i, zero), k.add(i, n), i);
  return k.max(k.min(i, k.sub(n, k.constant(1))), zero);
}

Value inRange(KernelBuilder &k, Value i, const DimExpr &extent) {
  return k.both(
      k.make<arith::CmpIOp>(arith::CmpIPredicate::sge, i, k.constant(0)),
      k.less(i, k.size(extent)));
}

/// Whether negative indices mean something.
bool countsFromEnd(nn::IndexedOpInterface op) { return !op.getFromStart(); }

//===----------------------------------------------------------------------===//
// Gather
//===----------------------------------------------------------------------===//

LogicalResult lowerGather(nn::GatherOp op, FunctionLowering &f) {
  Shape in = aroundAxis(nn::getShape(op.getInput()), op.getAxis());
  DimExpr count = nn::getNumElements(nn::getShape(op.getIndices()));
  Shape out{in[0], count, in[2]};
  Destination d = f.destination(op.getResult());
  if (nn::BlockAttr block = op.getBlockAttr())
    f.checkIndices(op, op.getIndices(), IndexRange::ofBlock(block));
  else if (op.getInOrder())
    f.checkPlaces(op);
  else if (!op.getZeroOutOfRange())
    f.checkIndices(op, op.getIndices(), {"rows", in[1], countsFromEnd(op)});
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), out);
  Value x = k.use(f.get(op.getInput()), in),
        indices = k.use(f.get(op.getIndices()), Shape{count}),
        y = k.use(d.buffer, out);
  Value raw = k.load(indices, k.index(1));
  auto element = [&](Value i) {
    return k.load(x, {k.index(0), i, k.index(2)});
  };
  Value v;
  if (op.getZeroOutOfRange()) {
    Value i = k.toIndex(raw);
    v = k.either(
        inRange(k, i, in[1]), [&] { return element(i); },
        [&] { return k.number(k.scalarOf(x), 0); });
  } else {
    v = element(wrap(k, raw, in[1]));
  }
  k.store(v, y, k.indices());
  return success();
}

/// order[i]: the place of the i-th smallest index, equal ones as they come.
/// Counted for all places at once: work grows with the square of their number,
/// as that of adding rows does while there are no more of them than columns.
Value sortIndices(nn::GatherGradOp op, const DimExpr &count,
                  FunctionLowering &f) {
  Value order =
      f.temporary(f.builder().getI32Type(), Shape{count}, "order", op.getLoc());
  KernelBuilder k(f.builder(), op.getLoc(), "order of " + describe(op),
                  {count});
  Value indices = k.use(f.get(op.getIndices()), Shape{count});
  Value own = k.load(indices, k.index(0));
  Value before =
      k.fold(Shape{count}, k.constant(0), [&](ValueRange i, ValueRange sum) {
        Value other = k.load(indices, i);
        Value is = k.make<arith::OrIOp>(
            k.less(other, own),
            k.both(k.equal(other, own), k.less(i[0], k.index(0))));
        return SmallVector<Value>{
            k.add(sum[0], k.select(is, k.constant(1), k.constant(0)))};
      })[0];
  k.store(k.make<arith::IndexCastOp>(k.b.getI32Type(), k.index(0)),
          k.use(order, Shape{count}), {before});
  return order;
}

/// Adds to a gradient that is stored narrow: rows of one index, which follow
/// one another in the order of indices, are summed in float32 and rounded once.
class RunAdder {
public:
  RunAdder(nn::GatherGradOp op, FunctionLowering &f, Value gradient)
      : op(op), in(aroundAxis(nn::getShape(op.getResult()), op.getAxis())),
        count(nn::getNumElements(nn::getShape(op.getIndices()))), blocks(in[2]),
        order(sortIndices(op, count, f)),
        sums(f.temporary(KernelBuilder::scalarOf(gradient), {in[0], in[2]},
                         "sums", op.getLoc())),
        k(f.builder(), op.getLoc(), describe(op), {in[0], blocks.count}),
        dx(k.use(gradient, in)),
        dy(k.use(f.get(op.getGrad()), Shape{in[0], count, in[2]})),
        indices(k.use(f.get(op.getIndices()), Shape{count})),
        places(k.use(order, Shape{count})),
        sum(k.use(sums, Shape{in[0], in[2]})) {}

  void run() {
    std::tie(begin, width) = blocks.range(k, k.index(1));
    forColumns([&](Value column) { clear(column); });
    k.forEach(
        Shape{count}, [&](ValueRange n) { addRow(n[0]); }, /*simd=*/false);
  }

private:
  void forColumns(function_ref<void(Value column)> body) {
    k.forEach(width, [&](ValueRange i) { body(k.add(begin, i[0])); });
  }
  void clear(Value column) {
    k.store(k.number(k.scalarOf(sum), 0), sum, {k.index(0), column});
  }
  Value placeAt(Value n) { return k.toIndex(k.load(places, {n})); }

  void addRow(Value n) {
    Value from = placeAt(n), raw = k.load(indices, {from});
    auto add = [&](Value to) {
      forColumns([&](Value column) {
        Value before = k.load(sum, {k.index(0), column});
        k.store(k.add(before, k.load(dy, {k.index(0), from, column})), sum,
                {k.index(0), column});
      });
      k.when(endsAt(n, raw), [&] { addSum(to); });
    };
    if (!op.getZeroOutOfRange())
      return add(wrap(k, raw, in[1]));
    Value to = k.toIndex(raw);
    k.when(inRange(k, to, in[1]), [&] { add(to); });
  }

  Value endsAt(Value n, Value raw) {
    Value last = k.sub(k.size(count), k.constant(1)),
          next = k.min(k.add(n, k.constant(1)), last);
    return k.make<arith::OrIOp>(
        k.equal(n, last),
        k.make<arith::CmpIOp>(arith::CmpIPredicate::ne, raw,
                              k.load(indices, {placeAt(next)})));
  }

  void addSum(Value to) {
    forColumns([&](Value column) {
      SmallVector<Value> at{k.index(0), to, column};
      k.store(k.add(k.load(dx, at), k.load(sum, {k.index(0), column})), dx, at);
      clear(column);
    });
  }

  nn::GatherGradOp op;
  Shape in;
  DimExpr count;
  ColumnBlocks blocks;
  Value order, sums;
  KernelBuilder k;
  Value dx, dy, indices, places, sum;
  Value begin, width;
};

LogicalResult lowerGatherGrad(nn::GatherGradOp op, FunctionLowering &f) {
  Shape in = aroundAxis(nn::getShape(op.getResult()), op.getAxis());
  DimExpr count = nn::getNumElements(nn::getShape(op.getIndices()));
  Shape out{in[0], count, in[2]};
  ColumnBlocks blocks(in[2]);
  Destination d = f.accumulating(op.getResult());
  if (d.add && KernelBuilder::isNarrow(d.buffer)) {
    RunAdder(op, f, d.buffer).run();
    return success();
  }
  d = f.summing(d);
  KernelBuilder k(f.builder(), op.getLoc(), describe(op),
                  {in[0], blocks.count});
  Value dx = k.use(d.buffer, in), dy = k.use(f.get(op.getGrad()), out),
        indices = k.use(f.get(op.getIndices()), Shape{count});
  auto [begin, width] = blocks.range(k, k.index(1));
  auto column = [&, begin = begin](Value row, ValueRange i) {
    return SmallVector<Value>{k.index(0), row, k.add(begin, i[0])};
  };
  if (!d.add)
    k.forEach(
        Shape{in[1]},
        [&, width = width](ValueRange row) {
          k.forEach(width, [&](ValueRange i) {
            k.store(k.number(k.scalarOf(dx), 0), dx, column(row[0], i));
          });
        },
        /*simd=*/false);
  auto addRow = [&, width = width](Value from, Value to) {
    k.forEach(width, [&](ValueRange i) {
      SmallVector<Value> at = column(to, i);
      k.store(k.add(k.load(dx, at), k.load(dy, column(from, i))), dx, at);
    });
  };
  k.forEach(
      Shape{count},
      [&](ValueRange n) {
        Value raw = k.load(indices, n);
        if (!op.getZeroOutOfRange())
          return addRow(n[0], wrap(k, raw, in[1]));
        Value i = k.toIndex(raw);
        k.when(inRange(k, i, in[1]), [&] { addRow(n[0], i); });
      },
      /*simd=*/false);
  return success();
}

//===----------------------------------------------------------------------===//
// Gather elements
//===----------------------------------------------------------------------===//

LogicalResult lowerGatherElements(nn::GatherElementsOp op,
                                  FunctionLowering &f) {
  Shape in = nn::getShape(op.getInput()), out = nn::getShape(op.getIndices());
  int64_t axis =
      op.getAxis() < 0 ? op.getAxis() + int64_t(in.size()) : op.getAxis();
  Destination d = f.destination(op.getResult());
  nn::BlockAttr block = op.getBlockAttr();
  f.checkIndices(op, op.getIndices(),
                 block ? IndexRange::ofBlock(block)
                       : IndexRange{"elements", in[axis], countsFromEnd(op)});
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), out);
  Value indices = k.use(f.get(op.getIndices()), out);
  SmallVector<Value> at = k.indices();
  at[axis] = wrap(k, k.load(indices, k.indices()), in[axis]);
  k.store(k.load(k.use(f.get(op.getInput()), in), at), k.use(d.buffer, out),
          k.indices());
  return success();
}

LogicalResult lowerGatherElementsGrad(nn::GatherElementsGradOp op,
                                      FunctionLowering &f) {
  Shape in = nn::getShape(op.getResult()), out = nn::getShape(op.getIndices());
  int64_t axis =
      op.getAxis() < 0 ? op.getAxis() + int64_t(in.size()) : op.getAxis();
  Destination d = f.summing(f.accumulating(op.getResult()));
  if (!d.add)
    rt::FillOp::create(
        f.builder(), op.getLoc(),
        f.builder().getZeroAttr(
            cast<rt::BufferType>(d.buffer.getType()).getElementType()),
        d.buffer);
  Shape bounds = out;
  bounds.erase(bounds.begin() + axis);
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), bounds);
  Value indices = k.use(f.get(op.getIndices()), out),
        dy = k.use(f.get(op.getGrad()), out), dx = k.use(d.buffer, in);
  k.forEach(
      Shape{out[axis]},
      [&](ValueRange i) {
        SmallVector<Value> from = k.indices(), to = from;
        from.insert(from.begin() + axis, i[0]);
        to.insert(to.begin() + axis, wrap(k, k.load(indices, from), in[axis]));
        k.store(k.add(k.load(dx, to), k.load(dy, from)), dx, to);
      },
      /*simd=*/false);
  return success();
}

//===----------------------------------------------------------------------===//
// Gather and scatter by index tuples
//===----------------------------------------------------------------------===//

/// data [batch, addressed..., inner], indices [batch, count, tuple].
struct TupleShape {
  DimExpr batch = 1, count = 1, inner = 1;
  Shape addressed, data, indices;
  int64_t tuple = 0;

  static FailureOr<TupleShape> get(Operation *op, Value data, Value indices,
                                   int64_t batchDims) {
    Shape x = nn::getShape(data), i = nn::getShape(indices);
    std::optional<int64_t> tuple = i.back().asConstant();
    if (!tuple || *tuple + batchDims > int64_t(x.size()))
      return op->emitOpError("cannot be lowered: the last dim of the indices "
                             "must be a number of axes");
    ArrayRef<DimExpr> xs(x), is(i);
    TupleShape t;
    t.tuple = *tuple;
    t.batch = nn::getNumElements(xs.take_front(batchDims));
    t.count = nn::getNumElements(is.drop_front(batchDims).drop_back());
    llvm::append_range(t.addressed, xs.slice(batchDims, *tuple));
    t.inner = nn::getNumElements(xs.drop_front(batchDims + *tuple));
    t.data.push_back(t.batch);
    t.data.append(t.addressed);
    t.data.push_back(t.inner);
    t.indices = {t.batch, t.count, i.back()};
    return t;
  }
  void check(Operation *op, Value tuples, FunctionLowering &f) const {
    for (int64_t j = 0; j < tuple; ++j)
      f.checkIndices(op, tuples,
                     {"elements", addressed[j], true, std::nullopt, j, tuple});
  }
  /// Indices of the slice that tuple `n` names, without the inner one.
  SmallVector<Value> slice(KernelBuilder &k, Value indices, Value batch,
                           Value n) const {
    SmallVector<Value> at{batch};
    for (int64_t j = 0; j < tuple; ++j)
      at.push_back(
          wrap(k, k.load(indices, {batch, n, k.constant(j)}), addressed[j]));
    return at;
  }
};

LogicalResult lowerGatherNd(nn::GatherNdOp op, FunctionLowering &f) {
  FailureOr<TupleShape> t =
      TupleShape::get(op, op.getInput(), op.getIndices(), op.getBatchDims());
  if (failed(t))
    return failure();
  Shape out{t->batch, t->count, t->inner};
  Destination d = f.destination(op.getResult());
  t->check(op, op.getIndices(), f);
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), out);
  Value x = k.use(f.get(op.getInput()), t->data),
        indices = k.use(f.get(op.getIndices()), t->indices);
  SmallVector<Value> at = t->slice(k, indices, k.index(0), k.index(1));
  at.push_back(k.index(2));
  k.store(k.load(x, at), k.use(d.buffer, out), k.indices());
  return success();
}

/// What a place has after an update.
Value combine(KernelBuilder &k, nn::ScatterNdOp op, Value old, Value update) {
  Type type = getElementTypeOrSelf(op.getInput());
  bool isBool = type.isInteger(1), isFloat = isa<FloatType>(type);
  switch (op.getKind()) {
  case nn::ScatterKind::set:
    break;
  case nn::ScatterKind::add:
    return isBool ? k.make<arith::OrIOp>(old, update) : k.add(old, update);
  case nn::ScatterKind::mul:
    return isBool ? k.both(old, update) : k.mul(old, update);
  case nn::ScatterKind::max:
    return isBool                     ? k.make<arith::OrIOp>(old, update)
           : isFloat                  ? k.make<arith::MaximumFOp>(old, update)
           : type.isUnsignedInteger() ? k.make<arith::MaxUIOp>(old, update)
                                      : k.max(old, update);
  case nn::ScatterKind::min:
    return isBool                     ? k.both(old, update)
           : isFloat                  ? k.make<arith::MinimumFOp>(old, update)
           : type.isUnsignedInteger() ? k.make<arith::MinUIOp>(old, update)
                                      : k.min(old, update);
  }
  return update;
}

LogicalResult lowerScatterNd(nn::ScatterNdOp op, FunctionLowering &f) {
  FailureOr<TupleShape> t =
      TupleShape::get(op, op.getInput(), op.getIndices(), 0);
  if (failed(t))
    return failure();
  Destination d = f.destination(op.getResult());
  bool replaces = op.getKind() == nn::ScatterKind::set;
  if (!replaces)
    d = f.summing(d);
  f.copy(f.get(op.getInput()), d.buffer, op.getLoc());
  t->check(op, op.getIndices(), f);
  ColumnBlocks blocks(t->inner);
  Shape updates{t->count, t->inner};
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), {blocks.count});
  Value y = k.use(d.buffer, t->data),
        indices = k.use(f.get(op.getIndices()), t->indices),
        u = k.use(f.get(op.getUpdates()), updates);
  auto [begin, width] = blocks.range(k, k.index(0));
  k.forEach(
      Shape{t->count},
      [&, begin = begin, width = width](ValueRange n) {
        SmallVector<Value> to = t->slice(k, indices, k.constant(0), n[0]);
        k.forEach(width, [&](ValueRange i) {
          Value column = k.add(begin, i[0]);
          SmallVector<Value> at = to;
          at.push_back(column);
          Value v = k.load(u, {n[0], column});
          k.store(replaces ? v : combine(k, op, k.load(y, at), v), y, at);
        });
      },
      /*simd=*/false);
  return success();
}

} // namespace

void dt::lower::attachIndexingLowerings(MLIRContext *context) {
  attachLowering<nn::GatherOp, lowerGather>(context);
  attachLowering<nn::GatherGradOp, lowerGatherGrad>(context);
  attachLowering<nn::GatherElementsOp, lowerGatherElements>(context);
  attachLowering<nn::GatherElementsGradOp, lowerGatherElementsGrad>(context);
  attachLowering<nn::GatherNdOp, lowerGatherNd>(context);
  attachLowering<nn::ScatterNdOp, lowerScatterNd>(context);
}
