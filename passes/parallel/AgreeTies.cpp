//===- AgreeTies.cpp - Tied parameters are cut alike --------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The shard phase cuts each module by itself, and a tied parameter may be used
// in different ways: an embedding in the first stage, class scores in the last.
// Its copies must be cut alike, or their gradients could not be summed. So the
// phase is tried on a copy of the program; what does not agree is asked to be
// cut by rows (a vocabulary), and where that does not work is kept whole.
//
//===----------------------------------------------------------------------===//

#include "passes/parallel/Passes.h"
#include "passes/shard/Pipeline.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace dt::parallel {
#define GEN_PASS_DEF_AGREETIES
#include "passes/parallel/Passes.h.inc"

namespace {

struct AgreeTiesPass : impl::AgreeTiesBase<AgreeTiesPass> {
  void runOnOperation() override {
    if (!concernsShards())
      return;
    SmallVector<dist::TieOp> open = findDisagreeing();
    for (StringRef how : {"rows", "whole"}) {
      if (open.empty())
        return;
      for (dist::TieOp tie : open)
        for (SymbolRefAttr name : {tie.getAlias(), tie.getParameter()})
          if (auto parameter = find(getOperation(), name))
            parameter->setAttr(kCutHintAttr,
                               StringAttr::get(&getContext(), how));
      open = findDisagreeing();
    }
    for (dist::TieOp tie : open)
      tie.emitError("the copies of this parameter are cut differently over "
                    "tensor-parallel ranks");
    if (!open.empty())
      signalPassFailure();
  }

private:
  static nn::ParameterOp find(mlir::ModuleOp program, SymbolRefAttr name) {
    return dyn_cast_or_null<nn::ParameterOp>(
        SymbolTable::lookupSymbolIn(program, name));
  }

  bool concernsShards() {
    return llvm::any_of(getOperation().getOps<dist::TieOp>(), [&](auto tie) {
      return llvm::any_of(ArrayRef{tie.getAlias(), tie.getParameter()},
                          [&](SymbolRefAttr name) {
                            auto module =
                                getOperation().lookupSymbol<dist::ModuleOp>(
                                    name.getRootReference());
                            return module && dist::Placement(module).tp > 1;
                          });
    });
  }

  /// Ties whose ends differ after the shard phase.
  SmallVector<dist::TieOp> findDisagreeing() {
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    auto trial = mlir::ModuleOp::create(builder, getOperation().getLoc());
    builder.setInsertionPointToEnd(trial.getBody());
    for (Operation &op : *getOperation().getBody())
      if (&op != trial && !isa<dist::TieOp, dist::PlanOp>(op))
        builder.clone(op);
    OpPassManager pm(mlir::ModuleOp::getOperationName());
    buildShardPipeline(pm);
    LogicalResult result = failure();
    { // What is said there is said again by the phase itself.
      ScopedDiagnosticHandler silent(&getContext(),
                                     [](Diagnostic &) { return success(); });
      result = runPipeline(pm, trial);
    }
    SmallVector<dist::TieOp> open;
    for (auto tie : getOperation().getOps<dist::TieOp>()) {
      nn::ParameterOp a = find(trial, tie.getAlias()),
                      b = find(trial, tie.getParameter());
      if (succeeded(result) && a && b &&
          (a.getType() != b.getType() ||
           a->getAttr(dist::kLayoutAttr) != b->getAttr(dist::kLayoutAttr)))
        open.push_back(tie);
    }
    trial.erase();
    return open;
  }
};

} // namespace

} // namespace dt::parallel
