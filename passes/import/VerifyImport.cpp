//===- VerifyImport.cpp - What the import phase guarantees ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Imported graphs hold these by construction; IR that is written by hand or
// that another pass has touched may not, and later phases would fail far from
// the cause.
//
//===----------------------------------------------------------------------===//

#include "passes/import/Passes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dt::import {
#define GEN_PASS_DEF_VERIFYIMPORT
#include "passes/import/Passes.h.inc"

namespace {

bool isScalar(Type type) { return type.isIntOrIndexOrFloat(); }

/// An op of another dialect is an operator of a plugin, which says what it
/// costs, or scalar code in the body of an op of nn (a fill rule, a fused
/// body).
LogicalResult verifyDialect(Operation *op) {
  StringRef dialect = op->getName().getDialectNamespace();
  if (isa<ModuleOp, nn::CostOpInterface>(op) ||
      llvm::is_contained(ArrayRef<StringRef>{"nn", "dist", "func"}, dialect))
    return success();
  Operation *parent = op->getParentOp();
  while (parent && parent->getName().getDialectNamespace() != "nn")
    parent = parent->getParentOp();
  if (!parent)
    return op->emitOpError("is left after import, which leaves ops of nn, dist "
                           "and func");
  if (llvm::all_of(op->getOperandTypes(), isScalar) &&
      llvm::all_of(op->getResultTypes(), isScalar))
    return success();
  return op->emitOpError("in the body of ")
         << parent->getName() << " works on something else than scalars";
}

/// Every '?' has an expression over the module's nn.dim symbols.
LogicalResult verifyType(Operation *op, Type type) {
  if (isa<UnrankedTensorType>(type))
    return op->emitOpError("has a tensor of unknown rank after import");
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.hasStaticShape())
    return success();
  auto dims = dyn_cast_or_null<nn::DimsAttr>(tensor.getEncoding());
  if (!dims)
    return op->emitOpError("has a '?' dim without an expression after import");
  auto module = op->getParentOfType<dist::ModuleOp>();
  if (!module)
    return success();
  for (const nn::DimExpr &size : dims.getShape())
    for (const std::string &symbol : size.symbols())
      if (!module.lookupSymbol<nn::DimOp>(symbol))
        return op->emitOpError("has a '?' dim of size '")
               << size.str() << "', but the module has no nn.dim @" << symbol;
  return success();
}

LogicalResult verifyOp(Operation *op) {
  if (isa<nn::AdapterOp>(op))
    return op->emitOpError("is left after import, which makes products of it");
  if (failed(verifyDialect(op)))
    return failure();
  SmallVector<Type> types(op->getResultTypes());
  // Arguments have no op of their own to say so; a declaration has no argument.
  for (Region &region : op->getRegions())
    for (Block &block : region)
      llvm::append_range(types, block.getArgumentTypes());
  if (auto function = dyn_cast<func::FuncOp>(op)) {
    llvm::append_range(types, function.getArgumentTypes());
    llvm::append_range(types, function.getResultTypes());
  }
  for (Type type : types)
    if (failed(verifyType(op, type)))
      return failure();
  return success();
}

struct VerifyImportPass : impl::VerifyImportBase<VerifyImportPass> {
  void runOnOperation() override {
    WalkResult result = getOperation()->walk([](Operation *op) {
      return failed(verifyOp(op)) ? WalkResult::interrupt()
                                  : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace dt::import
