//===- KernelBuilder.cpp - Writes the body of an rt.kernel ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/KernelBuilder.h"

#include <functional>

using namespace mlir;
using namespace dt;
using namespace dt::lower;

KernelBuilder::KernelBuilder(OpBuilder &outer, Location loc, StringRef name,
                             ArrayRef<DimExpr> bounds)
    : b(outer.getContext()), loc(loc) {
  op =
      rt::KernelOp::create(outer, loc, name, bounds, ValueRange(), TypeRange());
  b.setInsertionPointToEnd(&op.getBody().front());
}

SmallVector<Value> KernelBuilder::indices() {
  return SmallVector<Value>(op.getIndices().begin(), op.getIndices().end());
}

Value KernelBuilder::use(Value buffer, ArrayRef<DimExpr> shape) {
  // A plain view of the whole is only another set of dims.
  while (auto view = buffer.getDefiningOp<rt::ViewOp>()) {
    auto source = cast<rt::BufferType>(view.getSource().getType());
    if (source.getNumElements() != view.getType().getNumElements())
      break;
    buffer = view.getSource();
  }
  Type type = cast<rt::BufferType>(buffer.getType()).withShape(shape);
  Value &arg = captured[{buffer, type}];
  if (!arg) {
    op.getBuffersMutable().append(buffer);
    arg = op.getBody().front().addArgument(type, loc);
  }
  return arg;
}

Type KernelBuilder::scalarOf(Value array) {
  return rt::getScalarType(
      cast<rt::BufferType>(array.getType()).getElementType());
}

bool KernelBuilder::isNarrow(Value array) {
  Type element = cast<rt::BufferType>(array.getType()).getElementType();
  return isa<FloatType>(element) && scalarOf(array) != element;
}

Value KernelBuilder::load(Value array, ValueRange at) {
  return rt::LoadOp::create(b, loc, array, at);
}

void KernelBuilder::store(Value v, Value array, ValueRange at) {
  rt::StoreOp::create(b, loc, v, array, at);
}

void KernelBuilder::write(const Destination &d, Value v, Value array,
                          ValueRange at) {
  store(d.add ? add(load(array, at), v) : v, array, at);
}

std::pair<Value, SmallVector<Value>>
KernelBuilder::locate(Value buffer, const RowColumns &columns,
                      ArrayRef<DimExpr> shape, ValueRange at) {
  unsigned axis = columns.axis;
  Shape rows(shape.take_front(axis));
  SmallVector<Value> place(at.take_front(axis));
  // Heads of the whole, if they are as large; else elements of a row.
  ArrayRef<DimExpr> inner =
      shape.drop_front(std::min(axis + 1u, unsigned(shape.size())));
  DimExpr unit = nn::getNumElements(inner);
  std::optional<DimExpr> pitch = columns.pitch.exactDiv(unit),
                         offset = columns.offset.exactDiv(unit);
  Value column = axis < shape.size() ? at[axis] : constant(0);
  if (pitch && offset) {
    rows.push_back(*pitch);
    llvm::append_range(rows, inner);
  } else {
    for (auto [i, dim] : llvm::zip(at.drop_front(axis + 1), inner))
      column = add(mul(column, size(dim)), i);
    rows.push_back(columns.pitch);
    offset = columns.offset;
  }
  place.push_back(*offset == DimExpr(0) ? column : add(column, size(*offset)));
  if (rows.size() > place.size())
    place.append(at.begin() + axis + 1, at.end());
  return {use(buffer, rows), place};
}

Value KernelBuilder::load(const Source &s, ArrayRef<DimExpr> shape,
                          ValueRange at) {
  if (!s.columns)
    return load(use(s.buffer, shape), at);
  auto [array, place] = locate(s.buffer, *s.columns, shape, at);
  return load(array, place);
}

void KernelBuilder::write(const Destination &d, Value v,
                          ArrayRef<DimExpr> shape, ValueRange at) {
  if (!d.columns)
    return write(d, v, use(d.buffer, shape), at);
  auto [array, place] = locate(d.buffer, *d.columns, shape, at);
  store(v, array, place);
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelBuilder::fold(Value extent, ValueRange init, Body body,
                                       bool simd) {
  auto loop =
      scf::ForOp::create(b, loc, constant(0), extent, constant(1), init);
  if (simd)
    loop->setAttr(rt::RTDialect::kSimd, b.getUnitAttr());
  OpBuilder::InsertionGuard guard(b);
  Block *block = loop.getBody();
  // Without carried values the builder has already made the terminator.
  if (!block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
    block->back().erase();
  b.setInsertionPointToEnd(block);
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(b, loc, next);
  return loop.getResults();
}

SmallVector<Value> KernelBuilder::fold(ArrayRef<DimExpr> dims, ValueRange init,
                                       Body body, bool simd) {
  SmallVector<Value> ivs(dims.size());
  std::function<SmallVector<Value>(size_t, ValueRange)> nest =
      [&](size_t i, ValueRange carried) -> SmallVector<Value> {
    if (i == dims.size())
      return body(ivs, carried);
    if (dims[i] == DimExpr(1)) {
      ivs[i] = constant(0);
      return nest(i + 1, carried);
    }
    bool innermost = llvm::all_of(dims.drop_front(i + 1), [](const DimExpr &d) {
      return d == DimExpr(1);
    });
    return fold(
        size(dims[i]), carried,
        [&](ValueRange iv, ValueRange inside) {
          ivs[i] = iv[0];
          return nest(i + 1, inside);
        },
        simd && innermost);
  };
  return nest(0, init);
}

void KernelBuilder::forEach(ArrayRef<DimExpr> dims, Effect body, bool simd) {
  fold(
      dims, ValueRange(),
      [&](ValueRange ivs, ValueRange) {
        body(ivs);
        return SmallVector<Value>();
      },
      simd);
}

void KernelBuilder::forEach(Value extent, Effect body, bool simd) {
  fold(
      extent, ValueRange(),
      [&](ValueRange ivs, ValueRange) {
        body(ivs);
        return SmallVector<Value>();
      },
      simd);
}

Value KernelBuilder::either(Value condition, function_ref<Value()> then,
                            function_ref<Value()> otherwise) {
  auto branch = [&](function_ref<Value()> build) {
    return [this, build](OpBuilder &nested, Location) {
      OpBuilder::InsertionGuard guard(b);
      b.restoreInsertionPoint(nested.saveInsertionPoint());
      Value v = build();
      scf::YieldOp::create(b, loc, v);
    };
  };
  return scf::IfOp::create(b, loc, condition, branch(then), branch(otherwise))
      .getResult(0);
}

void KernelBuilder::when(Value condition, function_ref<void()> then,
                         function_ref<void()> otherwise) {
  auto branch = [&](function_ref<void()> build) {
    return [this, build](OpBuilder &nested, Location) {
      OpBuilder::InsertionGuard guard(b);
      b.restoreInsertionPoint(nested.saveInsertionPoint());
      build();
      scf::YieldOp::create(b, loc);
    };
  };
  if (otherwise)
    scf::IfOp::create(b, loc, condition, branch(then), branch(otherwise));
  else
    scf::IfOp::create(b, loc, condition, branch(then));
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value KernelBuilder::number(Type type, double v) {
  if (isa<FloatType>(type))
    return make<arith::ConstantOp>(b.getFloatAttr(type, v));
  return make<arith::ConstantOp>(b.getIntegerAttr(type, int64_t(v)));
}

Value KernelBuilder::constant(int64_t v) {
  return make<arith::ConstantIndexOp>(v);
}

Value KernelBuilder::size(const DimExpr &e) {
  if (std::optional<int64_t> c = e.asConstant())
    return constant(*c);
  return make<rt::SizeOp>(b.getIndexType(),
                          nn::DimAttr::get(b.getContext(), e));
}

Value KernelBuilder::sizeAs(Type type, const DimExpr &e) {
  if (std::optional<int64_t> c = e.asConstant())
    return number(type, double(*c));
  Value v = make<arith::IndexCastOp>(b.getI64Type(), size(e));
  return make<arith::SIToFPOp>(type, v);
}

static bool isFloat(Value v) { return isa<FloatType>(v.getType()); }

Value KernelBuilder::add(Value x, Value y) {
  return isFloat(x) ? make<arith::AddFOp>(x, y) : make<arith::AddIOp>(x, y);
}
Value KernelBuilder::sub(Value x, Value y) {
  return isFloat(x) ? make<arith::SubFOp>(x, y) : make<arith::SubIOp>(x, y);
}
Value KernelBuilder::mul(Value x, Value y) {
  return isFloat(x) ? make<arith::MulFOp>(x, y) : make<arith::MulIOp>(x, y);
}
Value KernelBuilder::div(Value x, Value y) {
  return isFloat(x) ? make<arith::DivFOp>(x, y) : make<arith::DivSIOp>(x, y);
}
Value KernelBuilder::rem(Value x, Value y) {
  return make<arith::RemSIOp>(x, y);
}
Value KernelBuilder::max(Value x, Value y) {
  return isFloat(x) ? make<arith::MaxNumFOp>(x, y) : make<arith::MaxSIOp>(x, y);
}
Value KernelBuilder::min(Value x, Value y) {
  return isFloat(x) ? make<arith::MinNumFOp>(x, y) : make<arith::MinSIOp>(x, y);
}
Value KernelBuilder::exp(Value x) { return make<math::ExpOp>(x); }
Value KernelBuilder::log(Value x) { return make<math::LogOp>(x); }
Value KernelBuilder::rsqrt(Value x) { return make<math::RsqrtOp>(x); }
Value KernelBuilder::less(Value x, Value y) {
  return isFloat(x) ? make<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, y)
                    : make<arith::CmpIOp>(arith::CmpIPredicate::slt, x, y);
}
Value KernelBuilder::equal(Value x, Value y) {
  return isFloat(x) ? make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, x, y)
                    : make<arith::CmpIOp>(arith::CmpIPredicate::eq, x, y);
}
Value KernelBuilder::both(Value x, Value y) {
  return make<arith::AndIOp>(x, y);
}
Value KernelBuilder::select(Value c, Value x, Value y) {
  return make<arith::SelectOp>(c, x, y);
}
Value KernelBuilder::toIndex(Value integer) {
  return make<arith::IndexCastOp>(b.getIndexType(), integer);
}

//===----------------------------------------------------------------------===//
// Blocks of columns
//===----------------------------------------------------------------------===//

ColumnBlocks::ColumnBlocks(const DimExpr &columns)
    : columns(columns), width(1) {
  // A number of blocks must be an expression: symbolic widths go one by one
  // unless a factor divides them whatever the symbols are.
  for (int64_t w : {64, 32, 16, 8}) {
    std::optional<int64_t> n = columns.asConstant();
    if (n ? (w <= 16 || *n >= 8 * w) && *n >= w
          : columns.exactDiv(DimExpr(w)).has_value()) {
      width = w;
      break;
    }
  }
  if (std::optional<int64_t> n = columns.asConstant()) {
    if (*n < 8 && *n > 0)
      width = *n;
    count = DimExpr((*n + width - 1) / width);
  } else {
    count = *columns.exactDiv(DimExpr(width));
  }
}

std::pair<Value, Value> ColumnBlocks::range(KernelBuilder &k, Value i) {
  Value begin = k.mul(i, k.constant(width));
  Value n = k.constant(width);
  std::optional<int64_t> all = columns.asConstant();
  if (all && *all % width)
    n = k.min(n, k.sub(k.constant(*all), begin));
  return {begin, n};
}

Shape dt::lower::aroundAxis(const Shape &shape, int64_t axis) {
  if (axis < 0)
    axis += shape.size();
  ArrayRef<nn::DimExpr> dims(shape);
  return {nn::getNumElements(dims.take_front(axis)), shape[axis],
          nn::getNumElements(dims.drop_front(axis + 1))};
}
