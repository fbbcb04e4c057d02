//===- CudaTiles.cpp - kernels that read along one dim and write another --===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A block has a square of 32 by 32 points. Its threads first read along one of
// the square's sides into shared memory, then compute points along the other:
// neighbouring threads touch neighbours both times. Rows of shared memory have
// an element more, so that columns of it lie in different banks.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/codegen/CudaBody.h"

using namespace mlir;

namespace dt::codegen {

static constexpr char kAlong[] = "threadIdx.x % 32";

LogicalResult CudaBody::visitSquare(Value along, Value across,
                                    llvm::function_ref<LogicalResult()> body) {
  Location loc = kernel.getLoc();
  OpBuilder::InsertionGuard guard(b);
  line(loc, "#pragma unroll");
  std::string k = nameLoopVariable(openLoop(loc, "0", "32", "8"), "k"), inside;
  neighbour = "threadIdx.x / 32 + " + k;
  for (auto [index, thread] :
       {std::pair(along, std::string(kAlong)), std::pair(across, neighbour)}) {
    std::string at = names.unique("at");
    line(loc, "const " + indexType() + " " + at + " = " +
                  corners.lookup(index) + " + " + thread + ";");
    texts[index] = at;
    unsigned bound = cast<BlockArgument>(index).getArgNumber();
    inside += (inside.empty() ? "" : " && ") + at + " < " +
              atom(dimText(kernel.getBounds()[bound]));
  }
  auto branch = emitc::IfOp::create(
      b, loc, emitc::LiteralOp::create(b, loc, b.getI1Type(), inside),
      /*addThenBlock=*/true, /*addElseBlock=*/false);
  openBranch(branch.getThenRegion());
  if (failed(body()))
    return failure();
  closeBranch(branch.getThenRegion());
  return success();
}

/// Names where the block's square begins, and all other indices.
void CudaBody::nameSquare(Value along, Value across) {
  Location loc = kernel.getLoc();
  std::string rest = "blockIdx.x";
  auto take = [&](Value index, bool last) {
    nn::DimExpr bound =
        kernel.getBounds()[cast<BlockArgument>(index).getArgNumber()];
    std::string n = atom(dimText(bound)), name = names.unique("square");
    bool corner = index == along || index == across;
    if (corner)
      n = "((" + n + " + 31) / 32)";
    line(loc, "const " + indexType() + " " + name + " = " + indexType() + "(" +
                  rest + ")" + (last ? "" : " % " + n) +
                  (corner ? " * 32;" : ";"));
    (corner ? corners : texts)[index] = name;
    rest += " / " + n;
  };
  SmallVector<Value> order = {along, across};
  for (Value index : llvm::reverse(kernel.getIndices()))
    if (index != along && index != across)
      order.push_back(index);
  for (Value index : order)
    take(index, index == order.back());
}

LogicalResult CudaBody::runTiles() {
  Location loc = kernel.getLoc();
  Value inner = kernel.getIndices().back(),
        outer = kernel.getIndices()[*plan.tile];
  line(loc, "if (" + atom(dimText(kernel.getNumPoints())) + " == 0) return;");
  nameSquare(inner, outer);
  SmallVector<Access> tiled;
  for (Access &access : getAccesses(kernel))
    if (plan.getAccess(access.op).tiled)
      tiled.push_back(access);
  for (const Access &access : tiled) {
    std::string &name = arrays[access.op] = names.unique("tile");
    line(loc, ("__shared__ " + cTypeName(access.type().getElementType()) + " " +
               name + "[32][33];")
                  .str());
  }
  auto read = [&]() -> LogicalResult {
    for (const Access &access : tiled) {
      for (Value index : access.indices)
        if (failed(nameSlice(index)))
          return failure();
      auto [pointer, at] = address(access.buffer, access.indices);
      line(loc, arrays[access.op] + "[" + neighbour + "][" + kAlong +
                    "] = " + pointer + "[" + at + "];");
    }
    return success();
  };
  auto before = std::tuple(texts, values, waiting);
  if (failed(visitSquare(outer, inner, read)))
    return failure();
  std::tie(texts, values, waiting) = std::move(before);
  line(loc, "__syncthreads();");
  return visitSquare(inner, outer, [&] {
    neighbour = std::string(kAlong) + "][" + neighbour;
    return emit(kernel.getBody().front());
  });
}

} // namespace dt::codegen
