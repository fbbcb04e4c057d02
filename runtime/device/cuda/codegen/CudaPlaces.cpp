//===- CudaPlaces.cpp - where a kernel's accesses are in memory -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/codegen/CudaAccess.h"

using namespace mlir;

namespace dt::codegen {

SmallVector<Access> getAccesses(rt::KernelOp kernel) {
  SmallVector<Access> accesses;
  kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<rt::LoadOp, rt::StoreOp>(op))
      accesses.emplace_back(op);
  });
  return accesses;
}

bool isSamePlace(const Access &a, const Access &b) {
  auto variable = [](const Access &access) {
    auto loop = dyn_cast<scf::ForOp>(access.op->getParentOp());
    return loop ? Value(loop.getInductionVar()) : Value();
  };
  Value x = variable(a), y = variable(b);
  return a.buffer == b.buffer &&
         llvm::all_of(llvm::zip(a.indices, b.indices), [&](auto pair) {
           return rt::isSameIndex(std::get<0>(pair), x, std::get<1>(pair), y);
         });
}

bool dependsOn(Value value, Value variable) {
  if (value == variable)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (op->getNumRegions() > 0) // what stands inside may name anything
    return true;
  return llvm::any_of(op->getOperands(),
                      [&](Value v) { return dependsOn(v, variable); });
}

bool isPlus(Value value, Value variable) {
  if (value == variable)
    return true;
  auto sum = value.getDefiningOp<arith::AddIOp>();
  return sum && ((isPlus(sum.getLhs(), variable) &&
                  !dependsOn(sum.getRhs(), variable)) ||
                 (isPlus(sum.getRhs(), variable) &&
                  !dependsOn(sum.getLhs(), variable)));
}

} // namespace dt::codegen
