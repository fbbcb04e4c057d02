//===- LowerExperts.cpp - Rows by expert, and their products --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Moving rows is a kernel; sorting and the products are library calls. Points
// of a kernel never add to the same element, so bits repeat.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNNames.h"
#include "passes/lower/FunctionLowering.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

/// Rows of a token that are added without a loop.
constexpr uint64_t kMostUnrolled = 16;

LogicalResult lowerLimitChoices(nn::LimitChoicesOp op, FunctionLowering &f) {
  Shape shape = nn::getShape(op.getExperts());
  f.checkIndices(op, op.getExperts(), {"experts", DimExpr(op.getCount())});
  rt::LimitChoicesOp::create(
      f.builder(), op.getLoc(), f.get(op.getExperts()), f.get(op.getSegments()),
      f.destination(op.getResult()).buffer, shape[0], shape[1], op.getEach(),
      op.getCount(), op.getMost().value_or(0), op.getCapacity());
  return success();
}

/// "experts 'mlp.experts.up_proj'": by the weight of a product, where one
/// follows.
std::string nameExperts(nn::RouteOp op) {
  for (Operation *user : op.getOffsets().getUsers()) {
    auto product = dyn_cast<nn::GroupedLinearOp>(user);
    if (!product)
      continue;
    if (auto read = product.getWeight().getDefiningOp<nn::ReadOp>())
      return "experts '" + read.getParameter().str() + "'";
    auto argument = dyn_cast<BlockArgument>(product.getWeight());
    auto function =
        argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
                 : func::FuncOp();
    if (!function)
      continue;
    if (auto name = function.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), nn::kNameAttr))
      return "experts '" + name.str() + "'";
  }
  return "experts";
}

LogicalResult lowerRoute(nn::RouteOp op, FunctionLowering &f) {
  DimExpr rows = nn::getShape(op.getExperts())[0];
  Value order = f.destination(op.getOrder()).buffer,
        place = f.destination(op.getPlace()).buffer,
        offsets = f.destination(op.getOffsets()).buffer;
  f.checkIndices(op, op.getExperts(), {"experts", DimExpr(op.getCount())});
  rt::RouteOp::create(f.builder(), op.getLoc(), f.get(op.getExperts()),
                      f.get(op.getFirst()), order, place, offsets, rows,
                      nn::getShape(op.getOrder())[0], op.getCount(),
                      op.getParts(), op.getPlaced() / op.getParts(),
                      op.getSlotsAttr(), nameExperts(op));
  return success();
}

/// The element, 0 where the row is -1.
Value loadIfAny(KernelBuilder &k, Value x, Value row, Value at, Value column) {
  Value none = k.less(row, k.number(row.getType(), 0));
  Value value = k.load(x, {at, column});
  // A select, not a product: what is read instead may be infinite.
  return k.select(none, k.number(value.getType(), 0), value);
}

LogicalResult lowerDispatch(nn::DispatchOp op, FunctionLowering &f) {
  Shape in = nn::getShape(op.getInput()), out = nn::getShape(op.getResult());
  Destination d = f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), out);
  Value order = k.use(f.get(op.getOrder()), Shape{out[0]});
  Value row = k.load(order, k.index(0));
  Value x = k.use(f.get(op.getInput()), in);
  // -1 is the first token.
  Value token = k.div(k.toIndex(row), k.constant(op.getEach()));
  if (op.getParts())
    token = k.max(token, k.constant(0));
  Value value = op.getParts() ? loadIfAny(k, x, row, token, k.index(1))
                              : k.load(x, {token, k.index(1)});
  k.store(value, k.use(d.buffer, out), k.indices());
  return success();
}

LogicalResult lowerCombine(nn::CombineOp op, FunctionLowering &f) {
  Shape in = nn::getShape(op.getInput()), out = nn::getShape(op.getResult());
  Destination d = f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), out);
  Value place = k.use(f.get(op.getPlace()), nn::getShape(op.getPlace())),
        x = k.use(f.get(op.getInput()), in);
  Value each = k.constant(op.getEach()), first = k.mul(k.index(0), each);
  auto part = [&](Value j) {
    Value row = k.load(place, k.add(first, j)), at = k.toIndex(row);
    if (!op.getParts())
      return k.load(x, {at, k.index(1)});
    return loadIfAny(k, x, row, k.max(at, k.constant(0)), k.index(1));
  };
  Value sum;
  // Few without a loop, so that the loop over columns is the innermost.
  if (op.getEach() <= kMostUnrolled) {
    sum = part(k.constant(0));
    for (uint64_t j = 1; j < op.getEach(); ++j)
      sum = k.add(sum, part(k.constant(j)));
  } else {
    sum = k.fold(
        each, k.number(k.scalarOf(x), 0),
        [&](ValueRange j, ValueRange sum) {
          return SmallVector<Value>{k.add(sum[0], part(j[0]))};
        },
        /*simd=*/false)[0];
  }
  k.store(sum, k.use(d.buffer, out), k.indices());
  return success();
}

LogicalResult lowerGroupedLinear(nn::GroupedLinearOp op, FunctionLowering &f) {
  Shape x = nn::getShape(op.getInput()), y = nn::getShape(op.getResult());
  rt::GroupedMatmulOp::create(
      f.builder(), op.getLoc(), f.get(op.getInput()), f.get(op.getWeight()),
      f.get(op.getOffsets()), f.get(op.getBias()),
      f.destination(op.getResult()).buffer, x[0], y[1], x[1],
      nn::getShape(op.getWeight())[0].constant(), !op.getInOut());
  return success();
}

LogicalResult lowerGroupedLinearDw(nn::GroupedLinearDwOp op,
                                   FunctionLowering &f) {
  Value a = op.getGrad(), b = op.getInput();
  if (op.getInOut())
    std::swap(a, b);
  Destination d = f.summing(f.accumulating(op.getResult()));
  rt::GroupedMatmulDwOp::create(
      f.builder(), op.getLoc(), f.get(a), f.get(b), f.get(op.getOffsets()),
      d.buffer, nn::getShape(a)[0], nn::getShape(b)[1], nn::getShape(a)[1],
      nn::getShape(op.getResult())[0].constant(), d.add);
  return success();
}

LogicalResult lowerGroupedSum(nn::GroupedSumOp op, FunctionLowering &f) {
  Shape in = nn::getShape(op.getInput()), out = nn::getShape(op.getResult());
  Destination d = f.accumulating(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), out);
  Value offsets = k.use(f.get(op.getOffsets()), nn::getShape(op.getOffsets())),
        x = k.use(f.get(op.getInput()), in);
  Value begin = k.toIndex(k.load(offsets, k.index(0)));
  Value end = k.toIndex(k.load(offsets, k.add(k.index(0), k.constant(1))));
  Value sum = k.fold(
      k.sub(end, begin), k.number(k.scalarOf(x), 0),
      [&](ValueRange i, ValueRange sum) {
        Value row = k.add(begin, i[0]);
        return SmallVector<Value>{k.add(sum[0], k.load(x, {row, k.index(1)}))};
      },
      /*simd=*/false)[0];
  k.write(d, sum, k.use(d.buffer, out), k.indices());
  return success();
}

} // namespace

void dt::lower::attachExpertLowerings(MLIRContext *context) {
  attachLowering<nn::LimitChoicesOp, lowerLimitChoices>(context);
  attachLowering<nn::RouteOp, lowerRoute>(context);
  attachLowering<nn::DispatchOp, lowerDispatch>(context);
  attachLowering<nn::CombineOp, lowerCombine>(context);
  attachLowering<nn::GroupedLinearOp, lowerGroupedLinear>(context);
  attachLowering<nn::GroupedLinearDwOp, lowerGroupedLinearDw>(context);
  attachLowering<nn::GroupedSumOp, lowerGroupedSum>(context);
}
