//===- VerifyLowered.cpp - What code generation relies on -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "passes/lower/Layout.h"
#include "passes/lower/Passes.h"

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_VERIFYLOWERED
#include "passes/lower/Passes.h.inc"

namespace {

LogicalResult verifyAlloc(rt::AllocOp alloc) {
  auto function = alloc->getParentOfType<rt::FuncOp>();
  if (!alloc.getOffset())
    return alloc.emitOpError("has no place in its function's scratch");
  // Sizes in rows count with as many as there may be.
  FailureOr<int64_t> bytes =
      SymbolBounds(function).evaluate(alloc, alloc.getType().getNumBytes());
  if (failed(bytes))
    return failure();
  int64_t offset = int64_t(*alloc.getOffset()), end = offset + *bytes;
  if (offset < 0)
    return alloc.emitOpError() << "begins at byte " << offset;
  if (end > int64_t(function.getScratchBytes().value_or(0)))
    return alloc.emitOpError() << "ends at byte " << end << " of a scratch of "
                               << function.getScratchBytes().value_or(0);
  return success();
}

LogicalResult verifyCall(rt::CallOp call, SymbolTableCollection &tables) {
  // That what it gives is large enough, the op verifies.
  auto callee =
      tables.lookupNearestSymbolFrom<rt::FuncOp>(call, call.getCalleeAttr());
  if (callee && callee.getScratchBytes().value_or(0) > 0 && !call.getScratch())
    return call.emitOpError()
           << "gives no scratch to " << call.getCalleeAttr() << ", which needs "
           << *callee.getScratchBytes() << " bytes";
  return success();
}

LogicalResult verifyOp(Operation *op, SymbolTableCollection &tables) {
  StringRef dialect = op->getName().getDialectNamespace();
  bool facts = isa<dist::ItemOp, dist::DimsOp, dist::InputOp, dist::DataOp>(op);
  if (!facts &&
      !llvm::is_contained(
          ArrayRef<StringRef>{"rt", "arith", "math", "scf", "builtin"},
          dialect) &&
      !isa<nn::DimOp, nn::ParameterOp>(op))
    return op->emitOpError("is left after lowering to rt");
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      llvm::append_range(types, block.getArgumentTypes());
  for (Type t : types)
    if (isa<TensorType>(t))
      return op->emitOpError() << "still has a value of type " << t;
  if (auto alloc = dyn_cast<rt::AllocOp>(op))
    return verifyAlloc(alloc);
  if (auto call = dyn_cast<rt::CallOp>(op))
    return verifyCall(call, tables);
  return success();
}

struct VerifyLowered : impl::VerifyLoweredBase<VerifyLowered> {
  void runOnOperation() override {
    SymbolTableCollection tables;
    WalkResult walk = getOperation().walk([&](Operation *op) {
      return failed(verifyOp(op, tables)) ? WalkResult::interrupt()
                                          : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace dt::lower
