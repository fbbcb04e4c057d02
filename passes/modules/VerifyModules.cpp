//===- VerifyModules.cpp - Parts do not depend on one another ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Without this check a batch that must not be cut would train on, silently and
// wrongly.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "passes/modules/CheckPadding.h"
#include "passes/modules/ItemAxes.h"
#include "passes/modules/Passes.h"
#include "passes/modules/VerifyApart.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dt::modules {
#define GEN_PASS_DEF_VERIFYMODULES
#include "passes/modules/Passes.h.inc"

namespace {

struct VerifyModulesPass : impl::VerifyModulesBase<VerifyModulesPass> {
  void runOnOperation() override {
    mlir::ModuleOp program = getOperation();
    for (auto module : program.getOps<dist::ModuleOp>()) {
      if (!module.getForward())
        continue;
      findSegments(module);
      if (failed(checkLimits(module)))
        return signalPassFailure();
    }
    // Rows behind those of the last item are one more of them.
    bool padded =
        llvm::any_of(program.getOps<dist::ModuleOp>(), dist::hasPadding);
    if (!isCut(program) && !padded)
      return;
    for (auto module : program.getOps<dist::ModuleOp>()) {
      if (!module.getForward())
        continue;
      if ((!module.getWholeBatch() && failed(verifyApart(module))) ||
          (padded && failed(checkPadding(module))))
        return signalPassFailure();
      if (!module.getWholeBatch())
        markUnjoined(module);
    }
  }

  /// A capacity of experts counts by sample, also where the batch is whole: one
  /// sample's rows stand one after another.
  LogicalResult checkLimits(dist::ModuleOp module) {
    SmallVector<nn::LimitChoicesOp> limits;
    module.getForward().walk(
        [&](nn::LimitChoicesOp op) { limits.push_back(op); });
    if (limits.empty())
      return success();
    ItemAnalysis analysis(module, takesLocalStatistics(getOperation()));
    for (nn::LimitChoicesOp op : limits) {
      const ItemState &state = analysis.get(op.getResult());
      bool before = state.is(ItemState::Coupled) &&
                    state.culprit != op.getExperts().getDefiningOp() &&
                    state.culprit != op;
      bool apart = state.is(ItemState::PerItem) &&
                   state.axis == (op.getSegments() ? 1 : 0) &&
                   state.major == nn::DimExpr(1);
      if (!before && !apart && !state.is(ItemState::Invariant))
        return op.emitError("'")
               << module.getExternalName()
               << "' has a capacity of experts (experts.capacity), but rows of "
                  "different samples stand between one another";
    }
    return success();
  }

  /// Raw inputs that attention compares along an axis of several items' rows.
  void findSegments(dist::ModuleOp module) {
    llvm::SetVector<BlockArgument> inputs;
    llvm::EquivalenceClasses<unsigned> compared;
    module.getForward().walk([&](nn::AttentionOp op) {
      BlockArgument queries = rawInput(op.getQuerySegments()),
                    keys = rawInput(op.getKeySegments());
      // What rows of several items are compared with may be items, one number
      // each.
      bool rows =
          hasRowsOfItems(module, queries) || hasRowsOfItems(module, keys);
      for (BlockArgument ids : {queries, keys})
        if (rows && ids)
          inputs.insert(ids);
      if (rows && queries && keys)
        compared.unionSets(queries.getArgNumber(), keys.getArgNumber());
    });
    auto name = [&](unsigned argument) {
      return dist::ModuleOp::getArgumentName(module.getForward(), argument);
    };
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    for (BlockArgument input : inputs) {
      unsigned number = input.getArgNumber(),
               first = compared.contains(number)
                           ? compared.getLeaderValue(number)
                           : number;
      dist::SegmentsOp::create(
          builder, module.getLoc(), module.getExternalName(), name(number),
          first == number ? StringAttr() : builder.getStringAttr(name(first)));
    }
  }

  /// Of numbers that may have been cast and reshaped; null: of none.
  BlockArgument rawInput(Value ids) {
    while (Operation *op = ids ? ids.getDefiningOp() : nullptr) {
      bool moves = isa<nn::CastOp, nn::ReshapeOp, nn::BroadcastOp>(op);
      std::optional<unsigned> from =
          moves ? std::optional(0u) : findShifted(op);
      if (!from)
        return {};
      ids = op->getOperand(*from);
    }
    return dyn_cast_or_null<BlockArgument>(ids);
  }

  bool hasRowsOfItems(dist::ModuleOp module, Value value) {
    if (!value)
      return false;
    return llvm::any_of(nn::getShape(value), [&](const nn::DimExpr &size) {
      return llvm::any_of(size.symbols(), [&](const std::string &symbol) {
        auto dim = module.lookupSymbol<nn::DimOp>(symbol);
        return dim && dim.getMeasure();
      });
    });
  }

  void markUnjoined(dist::ModuleOp module) {
    ItemAnalysis analysis(module, takesLocalStatistics(getOperation()));
    func::FuncOp forward = module.getForward();
    Operation *terminator = forward.getBody().front().getTerminator();
    for (unsigned i = 0; i < forward.getNumResults(); ++i)
      markUnjoined(module, i, terminator->getOperand(i), analysis);
  }

  /// What is only looked at may mix items; then parts do not show the whole's.
  void markUnjoined(dist::ModuleOp module, unsigned index, Value value,
                    const ItemAnalysis &analysis) {
    const ItemState &state = analysis.get(value);
    bool joins = state.is(ItemState::PerItem) &&
                 state.major == nn::DimExpr(1) && !state.hasOwnNumber() &&
                 !state.declaredIndex;
    if (joins || analysis.getItemAxes(value.getType()).empty())
      return;
    func::FuncOp forward = module.getForward();
    forward.setResultAttr(index, dist::kUnjoinedAttr,
                          UnitAttr::get(&getContext()));
    module.emitWarning() << "output '"
                         << dist::ModuleOp::getResultName(forward, index)
                         << "' of module '" << module.getExternalName()
                         << "' is not made of one item's rows after another's; "
                            "the batch is cut, "
                            "so --save-outputs leaves it out";
  }
};

} // namespace

} // namespace dt::modules
