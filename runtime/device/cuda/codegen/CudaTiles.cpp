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

/// A thread's place along a square's side.
static std::string alongSquare() { return cpp::remainder(kThread, kWarp); }

LogicalResult CudaBody::visitSquare(Value along, Value across,
                                    llvm::function_ref<LogicalResult()> body) {
  Location loc = kernel.getLoc();
  OpBuilder::InsertionGuard guard(b);
  std::string k = openUnrolled(loc, kWarp, "k", kTiles);
  neighbour = cpp::sum(cpp::quotient(kThread, kWarp), k);
  SmallVector<std::string> inside;
  for (auto [index, thread] :
       {std::pair(along, alongSquare()), std::pair(across, neighbour)}) {
    std::string at = names.unique("at");
    line(loc, cpp::constant(indexType(), at,
                            cpp::sum(corners.lookup(index), thread)));
    texts[index] = at;
    unsigned bound = cast<BlockArgument>(index).getArgNumber();
    inside.push_back(cpp::compare(at, "<", dimText(kernel.getBounds()[bound])));
  }
  return visitUnder(loc, cpp::both(inside[0], inside[1]), body);
}

/// Names where the block's square begins, and all other indices.
void CudaBody::nameSquare(Value along, Value across) {
  Location loc = kernel.getLoc();
  std::string rest = kBlock;
  auto take = [&](Value index, bool last) {
    std::string
        n = dimText(
            kernel.getBounds()[cast<BlockArgument>(index).getArgNumber()]),
        name = names.unique("square");
    bool corner = index == along || index == across;
    if (corner)
      n = cpp::quotient(cpp::sum(n, kWarp - 1), kWarp);
    std::string at = this->index(rest);
    if (!last)
      at = cpp::remainder(at, n);
    line(loc, cpp::constant(indexType(), name,
                            corner ? cpp::product(at, kWarp) : at));
    (corner ? corners : texts)[index] = name;
    rest = cpp::quotient(rest, n);
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
  returnIf(loc, cpp::compare(dimText(kernel.getNumPoints()), "==", 0));
  nameSquare(inner, outer);
  SmallVector<Access> tiled;
  for (Access &access : getAccesses(kernel))
    if (plan.getAccess(access.op).tiled)
      tiled.push_back(access);
  for (const Access &access : tiled) {
    std::string &name = arrays[access.op] = names.unique("tile");
    line(loc,
         cpp::declare(cpp::words({"__shared__",
                                  cTypeName(access.type().getElementType())}),
                      cpp::element(cpp::element(name, kWarp), kWarp + 1)));
  }
  auto read = [&]() -> LogicalResult {
    for (const Access &access : tiled) {
      for (Value index : access.indices)
        if (failed(nameSlice(index)))
          return failure();
      line(loc,
           cpp::assign(cpp::element(cpp::element(arrays[access.op], neighbour),
                                    alongSquare()),
                       place(access.buffer, access.indices)));
    }
    return success();
  };
  auto before = std::tuple(texts, values, waiting);
  if (failed(visitSquare(outer, inner, read)))
    return failure();
  std::tie(texts, values, waiting) = std::move(before);
  line(loc, "__syncthreads();");
  return visitSquare(inner, outer, [&] {
    for (const Access &access : tiled)
      arrays[access.op] = cpp::element(arrays[access.op], alongSquare());
    return emit(kernel.getBody().front());
  });
}

} // namespace dt::codegen
