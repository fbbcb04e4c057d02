//===- VerifyLowered.cpp - What code generation relies on -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
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
  std::optional<int64_t> bytes = alloc.getType().getNumBytes().asConstant();
  int64_t end = int64_t(*alloc.getOffset()) + bytes.value_or(0);
  if (end > int64_t(function.getScratchBytes().value_or(0)))
    return alloc.emitOpError() << "ends at byte " << end << " of a scratch of "
                               << function.getScratchBytes().value_or(0);
  return success();
}

LogicalResult verifyCall(rt::CallOp call, SymbolTableCollection &tables) {
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
  for (Type t :
       llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
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
