//===- LowerCollectives.cpp - What ranks do together ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A tensor whose dim `axis` is [outer][over][chunk] is, with the dims before
// and behind, [before * outer][over][chunk * behind] as well: the form that the
// runtime's calls have. Where a rank stands is known at run time only, so it is
// stored in a buffer from which kernels read it.
//
//===----------------------------------------------------------------------===//

#include "passes/lower/LowerStrips.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

/// A tensor of which a dim is cut, seen as three dims.
struct CutDim {
  DimExpr outer, over, chunk;

  CutDim(const Shape &part, dist::DimCut cut, uint64_t ranks)
      : outer(dist::getBlockRows(part, cut)), over(ranks), chunk(cut.chunk) {
    ArrayRef<DimExpr> dims(part);
    chunk = chunk * nn::getNumElements(dims.drop_front(cut.dim + 1));
  }
  Shape part() const { return {outer, chunk}; }
  Shape whole() const { return {outer, over, chunk}; }
};

/// Dims of a tensor with some of them split, so that a permutation can move the
/// pieces; `over` is the place of the ranks' dim.
struct SplitDims {
  Shape dims;
  unsigned over = 0;

  /// Dim `axis` is [outer][over][chunk].
  void pushOver(const DimExpr &outer, const DimExpr &n, const DimExpr &chunk) {
    dims.push_back(outer);
    over = dims.size();
    dims.push_back(n);
    dims.push_back(chunk);
  }
  DimExpr before() const {
    return nn::getNumElements(ArrayRef<DimExpr>(dims).take_front(over));
  }
  DimExpr behind() const {
    return nn::getNumElements(ArrayRef<DimExpr>(dims).drop_front(over + 1));
  }
};

/// One i64 that holds this rank's place on the op's axis.
template <typename OpTy> Value placeOf(OpTy op, FunctionLowering &f) {
  OpBuilder &b = f.builder();
  Value place =
      f.temporary(b.getI64Type(), ArrayRef<DimExpr>(), "place", op.getLoc());
  rt::RankPlaceOp::create(b, op.getLoc(), place, op.getOver(), op.getStride());
  return place;
}

Value loadPlace(KernelBuilder &k, Value place) {
  return k.load(k.use(place, {}), {});
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// `chunk`: of the rows of a block; null for one row.
void callCollective(dist::CollectiveOpInterface op, FunctionLowering &f,
                    Value in, Value out, nn::DimAttr chunk = nullptr) {
  MLIRContext *context = f.builder().getContext();
  std::optional<rt::Reduction> reduction = op.getReduction();
  rt::CollectiveOp::create(f.builder(), op.getLoc(), op.getCollectiveKind(),
                           reduction
                               ? rt::ReductionAttr::get(context, *reduction)
                               : rt::ReductionAttr(),
                           in, out, chunk, nn::DimAttr(), op.getOver(),
                           op.getStride(), rt::Stream::compute);
}

/// A block becomes a block, in place where sums are.
void lowerWhole(dist::CollectiveOpInterface op, FunctionLowering &f) {
  Value in = f.get(op.getInput());
  Value out = op.getForm().combines ? f.takeOver(op.getInput(), op.getResult())
                                    : Value();
  if (out)
    f.alias(op.getResult(), out);
  else
    out = f.destination(op.getResult()).buffer;
  callCollective(op, f, in, out);
}

/// A dim is cut on one side only: rows as the runtime knows them.
void lowerRows(dist::CollectiveOpInterface op, FunctionLowering &f, Value part,
               dist::DimCut cut) {
  CutDim dim(nn::getShape(part), cut, op.getOver());
  callCollective(op, f, f.get(op.getInput()),
                 f.destination(op.getResult()).buffer,
                 nn::DimAttr::get(f.builder().getContext(), dim.chunk));
}

//===----------------------------------------------------------------------===//
// From one cut to another
//===----------------------------------------------------------------------===//

/// Moves the ranks' dim between its place and the front.
void moveOver(FunctionLowering &f, Location loc, StringRef name,
              const SplitDims &split, Value from, const Destination &to,
              bool toFront) {
  Shape inside{split.before(), split.dims[split.over], split.behind()};
  Shape front{inside[1], inside[0], inside[2]};
  KernelBuilder k(f.builder(), loc, name, front);
  Value n = k.index(0), i = k.index(1), j = k.index(2);
  Value source = k.use(from, toFront ? inside : front),
        target = k.use(to.buffer, toFront ? front : inside);
  if (toFront)
    k.write(to, k.load(source, {i, n, j}), target, {n, i, j});
  else
    k.write(to, k.load(source, {n, i, j}), target, {i, n, j});
}

/// The blocks of ranks are packed and unpacked by kernels.
void lowerBlocks(dist::CollectiveOpInterface op, FunctionLowering &f,
                 dist::DimCut taken, dist::DimCut given) {
  Location loc = op.getLoc();
  DimExpr over(op.getOver());
  Shape in = nn::getShape(op.getInput()), out = nn::getShape(op.getResult());
  // The input with the scattered dim split, the result with the gathered one
  // split: in both, the ranks' dim in front gives the blocks of one rank, whose
  // dims are the same.
  SplitDims packing, unpacking;
  for (auto [i, dim] : llvm::enumerate(in)) {
    DimExpr gathered(taken.chunk), scattered(given.chunk);
    if (i == given.dim)
      packing.pushOver(*out[i].exactDiv(scattered), over, scattered);
    else
      packing.dims.push_back(dim);
    if (i == taken.dim)
      unpacking.pushOver(*dim.exactDiv(gathered), over, gathered);
    else
      unpacking.dims.push_back(out[i]);
  }
  Type element =
      cast<rt::BufferType>(f.get(op.getInput()).getType()).getElementType();
  Shape blocks{nn::getNumElements(in)};
  Value sent = f.get(op.getInput());
  if (packing.before() != DimExpr(1)) {
    Value packed = f.temporary(element, blocks, "packed", loc);
    moveOver(f, loc, "pack", packing, sent, {packed}, true);
    sent = packed;
  }
  if (unpacking.before() == DimExpr(1))
    return callCollective(op, f, sent, f.destination(op.getResult()).buffer);
  Value received = f.temporary(element, blocks, "received", loc);
  callCollective(op, f, sent, received);
  moveOver(f, loc, "unpack", unpacking, received,
           f.accumulating(op.getResult()), false);
}

struct CollectiveModel : LoweringOpInterface::FallbackModel<CollectiveModel> {
  LogicalResult lowerToRT(Operation *op, FunctionLowering &f) const {
    auto collective = cast<dist::CollectiveOpInterface>(op);
    std::optional<dist::DimCut> taken = collective.getTakenCut(),
                                given = collective.getGivenCut();
    if (f.isLowered(collective.getResult()) ||
        lowerGatheredStrips(collective, f))
      return success();
    if (taken && given)
      lowerBlocks(collective, f, *taken, *given);
    else if (taken)
      lowerRows(collective, f, collective.getInput(), *taken);
    else if (given)
      lowerRows(collective, f, collective.getResult(), *given);
    else
      lowerWhole(collective, f);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Without traffic
//===----------------------------------------------------------------------===//

LogicalResult lowerShardSlice(dist::SliceOp op, FunctionLowering &f) {
  CutDim dim(nn::getShape(op.getResult()), {op.getAxis(), op.getChunk()},
             op.getOver());
  Value place = placeOf(op, f);
  Destination d = f.accumulating(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), dim.part());
  Value from = k.use(f.get(op.getInput()), dim.whole());
  Value v =
      k.load(from, {k.index(0), k.toIndex(loadPlace(k, place)), k.index(1)});
  k.write(d, v, k.use(d.buffer, dim.part()), k.indices());
  return success();
}

LogicalResult lowerPartial(dist::PartialOp op, FunctionLowering &f) {
  Value place = placeOf(op, f);
  Shape flat{nn::getNumElements(nn::getShape(op.getInput()))};
  Destination d = f.accumulating(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), flat);
  Value x = k.load(k.use(f.get(op.getInput()), flat), k.indices());
  Value first = k.equal(loadPlace(k, place), k.number(k.b.getI64Type(), 0));
  // A select, not a product: the value may be infinite.
  k.write(d, k.select(first, x, k.number(x.getType(), 0)),
          k.use(d.buffer, flat), k.indices());
  return success();
}

LogicalResult lowerRank(dist::RankOp op, FunctionLowering &f) {
  rt::RankPlaceOp::create(f.builder(), op.getLoc(),
                          f.destination(op.getResult()).buffer, op.getOver(),
                          op.getStride());
  return success();
}

} // namespace

void dt::lower::attachCollectiveLowerings(MLIRContext *context) {
  // Not getRegisteredOperationsByDialect: it finds nothing if a dialect whose
  // name comes later was loaded before.
  for (RegisteredOperationName op : context->getRegisteredOperations())
    if (isa<dist::DistDialect>(op.getDialect()) &&
        op.hasInterface<dist::CollectiveOpInterface>())
      op.attachInterface<CollectiveModel>();
  attachLowering<dist::SliceOp, lowerShardSlice>(context);
  attachLowering<dist::PartialOp, lowerPartial>(context);
  attachLowering<dist::RankOp, lowerRank>(context);
}
