//===- LowerElementwise.cpp - nn.fused, broadcast, generate, constants ----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One kernel a fused op, over as few dims as broadcasting allows: equal shapes
// become one loop, [rows, d] with [d] two.
//
//===----------------------------------------------------------------------===//

#include "passes/lower/FunctionLowering.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

/// The dims of an elementwise kernel: those of the result, neighbours merged
/// where every operand either has both or repeats along both, but not across
/// `splits`, dims at which columns begin.
struct MergedDims {
  Shape bounds;
  /// Per dim of `splits`, which of `bounds` begins there.
  llvm::SmallDenseMap<unsigned, unsigned> boundAt;
  /// Per operand: which of `bounds` it has (it repeats along the others).
  SmallVector<SmallVector<unsigned>> used;

  MergedDims(const Shape &result, ArrayRef<Shape> operands,
             ArrayRef<unsigned> splits);
  Shape shapeOf(unsigned operand) const {
    Shape shape;
    for (unsigned d : used[operand])
      shape.push_back(bounds[d]);
    return shape;
  }
};

MergedDims::MergedDims(const Shape &result, ArrayRef<Shape> operands,
                       ArrayRef<unsigned> splits)
    : used(operands.size()) {
  size_t rank = result.size();
  auto has = [&](const Shape &operand, size_t dim) {
    size_t missing = rank - operand.size();
    return dim >= missing && operand[dim - missing] != DimExpr(1);
  };
  SmallVector<bool> last;
  bool split = false;
  for (size_t d = 0; d < rank; ++d) {
    if (llvm::is_contained(splits, d)) {
      boundAt[d] = bounds.size();
      split = true;
    }
    if (result[d] == DimExpr(1))
      continue;
    SmallVector<bool> now;
    for (const Shape &operand : operands)
      now.push_back(has(operand, d));
    if (!bounds.empty() && now == last && !split) {
      bounds.back() = bounds.back() * result[d];
      continue;
    }
    for (auto [i, yes] : llvm::enumerate(now))
      if (yes)
        used[i].push_back(bounds.size());
    bounds.push_back(result[d]);
    last = now;
    split = false;
  }
  if (llvm::is_contained(splits, rank))
    boundAt[rank] = bounds.size();
}

using Scalars = SmallVector<Value>;

/// Kernel that computes results from elements of the operands.
LogicalResult
lowerElementwise(Operation *op, ValueRange operands, FunctionLowering &f,
                 function_ref<Scalars(KernelBuilder &, ValueRange)> body) {
  SmallVector<Shape> shapes;
  SmallVector<Source> sources;
  SmallVector<Destination> destinations;
  SmallVector<unsigned> splits;
  for (Value v : operands) {
    shapes.push_back(nn::getShape(v));
    sources.push_back(f.read(v));
    if (sources.back().columns)
      splits.push_back(sources.back().columns->axis);
  }
  for (Value result : op->getResults()) {
    if (std::optional<Destination> columns = f.columns(result)) {
      destinations.push_back(*columns);
      splits.push_back(columns->columns->axis);
      continue;
    }
    destinations.push_back(isa<FloatType>(getElementTypeOrSelf(result))
                               ? f.accumulating(result)
                               : f.destination(result));
  }
  MergedDims dims(nn::getShape(op->getResult(0)), shapes, splits);
  auto merge = [&](std::optional<RowColumns> &columns) {
    if (columns)
      columns->axis = dims.boundAt.lookup(columns->axis);
  };
  for (Destination &d : destinations)
    merge(d.columns);
  for (Source &s : sources)
    merge(s.columns);
  KernelBuilder k(f.builder(), op->getLoc(), describe(op), dims.bounds);
  Scalars elements;
  for (auto [i, source] : llvm::enumerate(sources)) {
    Scalars at;
    for (unsigned d : dims.used[i])
      at.push_back(k.index(d));
    elements.push_back(k.load(source, dims.shapeOf(i), at));
  }
  Scalars results = body(k, elements);
  for (auto [destination, v] : llvm::zip(destinations, results))
    k.write(destination, v, dims.bounds, k.indices());
  return success();
}

/// Copies a region's scalar ops into the kernel; returns what it yields.
Scalars inlineScalars(KernelBuilder &k, Block &block, ValueRange arguments) {
  IRMapping map;
  map.map(block.getArguments(), arguments);
  for (Operation &op : block.without_terminator()) {
    if (auto size = dyn_cast<nn::SizeOp>(op)) {
      map.map(size.getResult(), k.size(size.getSize()));
      continue;
    }
    k.b.clone(op, map);
  }
  Scalars results;
  for (Value v : block.getTerminator()->getOperands())
    results.push_back(map.lookupOrDefault(v));
  return results;
}

LogicalResult lowerFused(nn::FusedOp op, FunctionLowering &f) {
  return lowerElementwise(
      op, op.getInputs(), f, [&](KernelBuilder &k, ValueRange elements) {
        return inlineScalars(k, op.getBody().front(), elements);
      });
}

LogicalResult lowerBroadcast(nn::BroadcastOp op, FunctionLowering &f) {
  return lowerElementwise(
      op, op.getInput(), f,
      [](KernelBuilder &, ValueRange elements) { return Scalars(elements); });
}

LogicalResult lowerGenerate(nn::GenerateOp op, FunctionLowering &f) {
  Shape shape = nn::getShape(op.getResult());
  Destination d = f.destination(op.getResult());
  KernelBuilder k(f.builder(), op.getLoc(), describe(op), shape);
  Scalars v = inlineScalars(k, op.getBody().front(), k.indices());
  k.store(v[0], k.use(d.buffer, shape), k.indices());
  return success();
}

LogicalResult lowerConstant(nn::ConstantOp op, FunctionLowering &f) {
  OpBuilder &b = f.builder();
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense)
    return op.emitOpError("cannot be lowered: its value is not dense");
  if (dense.isSplat()) {
    Destination d = f.destination(op.getResult());
    rt::FillOp::create(b, op.getLoc(),
                       cast<TypedAttr>(dense.getSplatValue<Attribute>()),
                       d.buffer);
    return success();
  }
  auto type = rt::BufferType::get(cast<RankedTensorType>(op.getType()));
  f.alias(op.getResult(),
          rt::ConstantOp::create(b, op.getLoc(), type, op.getValue()));
  return success();
}

} // namespace

LogicalResult dt::lower::lowerScalarOp(Operation *op, FunctionLowering &f) {
  return lowerElementwise(op, op->getOperands(), f,
                          [&](KernelBuilder &k, ValueRange elements) {
                            auto scalar = cast<nn::ScalarOpInterface>(op);
                            return Scalars{scalar.buildScalar(k.b, elements)};
                          });
}

void dt::lower::attachElementwiseLowerings(MLIRContext *context) {
  attachLowering<nn::FusedOp, lowerFused>(context);
  attachLowering<nn::BroadcastOp, lowerBroadcast>(context);
  attachLowering<nn::GenerateOp, lowerGenerate>(context);
  attachLowering<nn::ConstantOp, lowerConstant>(context);
}
