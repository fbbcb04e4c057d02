//===- LowerMovement.cpp - Transpose, slice, pad, concat --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Dims that move together are merged first, so that most kernels are two or
// three loops over long runs; what moves nothing becomes a view.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNColumns.h"
#include "passes/lower/FunctionLowering.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

//===----------------------------------------------------------------------===//
// Transpose
//===----------------------------------------------------------------------===//

/// A permutation after merging input dims that stay neighbours.
struct MergedPermutation {
  Shape input;                       ///< merged
  SmallVector<unsigned> permutation; ///< result dim -> input dim

  MergedPermutation(const Shape &shape, ArrayRef<int64_t> order) {
    SmallVector<int64_t> kept; // input dims that are not 1, in result order
    for (int64_t p : order)
      if (shape[p] != DimExpr(1))
        kept.push_back(p);
    // Runs of the result that are consecutive in the input (dims of size 1 in
    // between do not matter).
    SmallVector<int64_t> rank;
    for (int64_t p : kept)
      rank.push_back(llvm::count_if(kept, [&](int64_t q) { return q < p; }));
    SmallVector<std::pair<int64_t, DimExpr>> runs;
    for (auto [i, p] : llvm::enumerate(kept)) {
      if (i && rank[i] == rank[i - 1] + 1)
        runs.back().second = runs.back().second * shape[p];
      else
        runs.push_back({rank[i], shape[p]});
    }
    input.resize(runs.size(), DimExpr(1));
    for (auto &run : runs) {
      unsigned at = llvm::count_if(
          runs, [&](auto &other) { return other.first < run.first; });
      input[at] = run.second;
      permutation.push_back(at);
    }
  }
};

LogicalResult lowerTranspose(nn::TransposeOp op, FunctionLowering &f) {
  MergedPermutation p(nn::getShape(op.getInput()), op.getPermutation());
  if (p.permutation.size() <= 1) {
    f.alias(op.getResult(), f.view(f.get(op.getInput()),
                                   nn::getShape(op.getResult()), op.getLoc()));
    return success();
  }
  Shape out;
  for (unsigned d : p.permutation)
    out.push_back(p.input[d]);
  Destination d = f.accumulating(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), out);
  SmallVector<Value> at(out.size());
  for (auto [i, from] : llvm::enumerate(p.permutation))
    at[from] = k.index(i);
  k.write(d, k.load(k.use(f.get(op.getInput()), p.input), at),
          k.use(d.buffer, out), k.indices());
  return success();
}

//===----------------------------------------------------------------------===//
// Slice
//===----------------------------------------------------------------------===//

/// Per dim: input and result size, first element, step. Dims that are taken
/// whole are merged into the one before.
struct SliceDims {
  Shape in, out, start;
  SmallVector<int64_t> step;

  void push(const DimExpr &i, const DimExpr &o, const DimExpr &s, int64_t by) {
    bool whole = i == o && s == DimExpr(0) && by == 1;
    if (whole && !in.empty() && step.back() == 1) {
      in.back() = in.back() * i;
      out.back() = out.back() * i;
      start.back() = start.back() * i;
      return;
    }
    in.push_back(i);
    out.push_back(o);
    start.push_back(s);
    step.push_back(by);
  }
};

LogicalResult lowerSlice(nn::SliceOp op, FunctionLowering &f) {
  Shape in = nn::getShape(op.getInput()), out = nn::getShape(op.getResult());
  SliceDims dims;
  for (size_t i = 0; i < in.size(); ++i) {
    bool fromEnd = !op.getFromEnd().empty() && op.getFromEnd()[i];
    DimExpr start(op.getStarts()[i]);
    dims.push(in[i], out[i], fromEnd ? in[i] - start : start, op.getSteps()[i]);
  }
  // Leading dims of 1: one contiguous range.
  unsigned lead = 0;
  while (lead + 1 < dims.in.size() && dims.in[lead] == DimExpr(1))
    ++lead;
  Value from = f.get(op.getInput());
  if (dims.in.empty() || (lead + 1 == dims.in.size() && dims.step[lead] == 1)) {
    f.alias(op.getResult(),
            f.view(from, out, op.getLoc(),
                   dims.in.empty() ? DimExpr(0) : dims.start[lead]));
    return success();
  }
  if (nn::isReadInPlace(op))
    return success();
  Destination d = f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), dims.out);
  SmallVector<Value> at;
  for (size_t i = 0; i < dims.in.size(); ++i) {
    Value v = k.index(i);
    if (dims.step[i] != 1)
      v = k.mul(v, k.constant(dims.step[i]));
    at.push_back(dims.start[i] == DimExpr(0) ? v
                                             : k.add(v, k.size(dims.start[i])));
  }
  k.store(k.load(k.use(from, dims.in), at), k.use(d.buffer, dims.out),
          k.indices());
  return success();
}

//===----------------------------------------------------------------------===//
// Pad
//===----------------------------------------------------------------------===//

/// A dim of a pad; `plain` ones are taken over as they are.
struct PadDim {
  DimExpr in, out;
  int64_t low, interior;
  bool reverse;
  bool plain() const {
    return in == out && low == 0 && interior == 0 && !reverse;
  }
};

SmallVector<PadDim> padDims(nn::PadOp op) {
  Shape in = nn::getShape(op.getInput()), out = nn::getShape(op.getResult());
  SmallVector<PadDim> dims;
  for (size_t i = 0; i < in.size(); ++i) {
    PadDim d{in[i], out[i], op.getLow()[i], op.getInterior()[i],
             !op.getReverse().empty() && op.getReverse()[i]};
    if (d.plain() && !dims.empty() && dims.back().plain()) {
      dims.back().in = dims.back().in * d.in;
      dims.back().out = dims.back().in;
      continue;
    }
    dims.push_back(d);
  }
  return dims;
}

/// Index in the input of element `i` of the result; says in `inside` whether it
/// comes from there at all (null: always).
Value padSource(KernelBuilder &k, const PadDim &d, Value i, Value &inside) {
  if (d.plain())
    return i;
  auto also = [&](Value c) { inside = inside ? k.both(inside, c) : c; };
  Value at = i, zero = k.constant(0);
  if (d.low) {
    at = k.sub(at, k.constant(d.low));
    also(k.make<arith::CmpIOp>(arith::CmpIPredicate::sge, at, zero));
  }
  if (d.interior) {
    Value stride = k.constant(d.interior + 1);
    also(k.equal(k.rem(at, stride), zero));
    at = k.div(at, stride);
  }
  also(k.less(at, k.size(d.in)));
  return d.reverse ? k.sub(k.size(d.in - DimExpr(1)), at) : at;
}

LogicalResult lowerPad(nn::PadOp op, FunctionLowering &f) {
  SmallVector<PadDim> dims = padDims(op);
  Shape in, out;
  for (const PadDim &d : dims) {
    in.push_back(d.in);
    out.push_back(d.out);
  }
  Type type = rt::getScalarType(getElementTypeOrSelf(op.getInput()));
  bool add = isa<FloatType>(type) && op.getValue().isZero();
  Destination d =
      add ? f.accumulating(op.getResult()) : f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), out);
  Value from = k.use(f.get(op.getInput()), in);
  SmallVector<Value> at;
  Value inside;
  for (auto [i, dim] : llvm::enumerate(dims))
    at.push_back(padSource(k, dim, k.index(i), inside));
  auto element = [&] { return k.load(from, at); };
  Value v =
      inside
          ? k.either(
                inside, element,
                [&] { return k.number(type, op.getValue().convertToDouble()); })
          : element();
  k.write(d, v, k.use(d.buffer, out), k.indices());
  return success();
}

//===----------------------------------------------------------------------===//
// Concat
//===----------------------------------------------------------------------===//

LogicalResult lowerConcat(nn::ConcatOp op, FunctionLowering &f) {
  Shape out = nn::getShape(op.getResult());
  int64_t axis =
      op.getAxis() < 0 ? op.getAxis() + int64_t(out.size()) : op.getAxis();
  // [outer, axis and everything after it]: an input is a range of each row.
  DimExpr outer = nn::getNumElements(ArrayRef<DimExpr>(out).take_front(axis));
  auto rowOf = [&](const Shape &s) {
    return nn::getNumElements(ArrayRef<DimExpr>(s).drop_front(axis));
  };
  Shape target{outer, rowOf(out)};
  Destination d = f.wholeOf(op);
  DimExpr offset(0);
  for (Value input : op.getInputs()) {
    Shape source{outer, rowOf(nn::getShape(input))};
    if (f.isInColumns(input)) {
      offset = offset + source[1];
      continue;
    }
    KernelBuilder k(f.builder(), op.getLoc(), describe(op), source);
    Value v = k.load(k.use(f.get(input), source), k.indices());
    k.store(v, k.use(d.buffer, target),
            {k.index(0), k.add(k.index(1), k.size(offset))});
    offset = offset + source[1];
  }
  return success();
}

} // namespace

void dt::lower::attachMovementLowerings(MLIRContext *context) {
  attachLowering<nn::TransposeOp, lowerTranspose>(context);
  attachLowering<nn::SliceOp, lowerSlice>(context);
  attachLowering<nn::PadOp, lowerPad>(context);
  attachLowering<nn::ConcatOp, lowerConcat>(context);
}
