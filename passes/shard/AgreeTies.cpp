//===- AgreeTies.cpp - Tied parameters are cut alike ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The shard phase pads and cuts each module by itself, and a tied parameter may
// be used in different ways: an embedding in the first stage, class scores in
// the last. Its copies must come out alike, or their gradients could not be
// summed. So the phase is tried on a copy of the program; what does not agree
// is asked to be padded as class scores and cut by rows (a vocabulary), and
// where that does not work is kept whole.
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dt::shard {
#define GEN_PASS_DEF_AGREETIES
#include "passes/shard/Passes.h.inc"

namespace {

struct AgreeTiesPass : impl::AgreeTiesBase<AgreeTiesPass> {
  void runOnOperation() override {
    if (getOperation().getOps<dist::TieOp>().empty())
      return;
    SmallVector<dist::TieOp> open = findDisagreeing();
    for (StringRef how : {"rows", "whole"}) {
      if (open.empty())
        return;
      for (SymbolRefAttr name : findCopies(open))
        if (auto parameter = find(getOperation(), name))
          parameter->setAttr(dist::kCutHintAttr,
                             StringAttr::get(&getContext(), how));
      open = findDisagreeing();
    }
    for (dist::TieOp tie : open)
      tie.emitError("the copies ")
          << tie.getAlias() << " and " << tie.getParameter()
          << " of a parameter are cut differently over tensor-parallel ranks; "
             "expected equal tp of their units";
    if (!open.empty())
      signalPassFailure();
  }

private:
  static nn::ParameterOp find(mlir::ModuleOp program, SymbolRefAttr name) {
    return dyn_cast_or_null<nn::ParameterOp>(
        SymbolTable::lookupSymbolIn(program, name));
  }

  /// All copies of what these ties join, also by other ties.
  llvm::SetVector<SymbolRefAttr> findCopies(ArrayRef<dist::TieOp> ties) {
    llvm::SetVector<SymbolRefAttr> copies;
    for (dist::TieOp tie : ties) {
      copies.insert(tie.getAlias());
      copies.insert(tie.getParameter());
    }
    for (size_t before = 0; before != copies.size();) {
      before = copies.size();
      for (auto tie : getOperation().getOps<dist::TieOp>())
        if (copies.contains(tie.getAlias()) ||
            copies.contains(tie.getParameter())) {
          copies.insert(tie.getAlias());
          copies.insert(tie.getParameter());
        }
    }
    return copies;
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
    buildShardEachModule(pm);
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

} // namespace dt::shard
