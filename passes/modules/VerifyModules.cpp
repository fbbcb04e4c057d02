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
#include "passes/modules/SplitLosses.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dt::modules {
#define GEN_PASS_DEF_VERIFYMODULES
#include "passes/modules/Passes.h.inc"

namespace {

constexpr const char *kCut =
    ", so the batch cannot be cut into microbatches, replicas or pieces";

struct VerifyModulesPass : impl::VerifyModulesBase<VerifyModulesPass> {
  void runOnOperation() override {
    mlir::ModuleOp program = getOperation();
    for (auto module : program.getOps<dist::ModuleOp>())
      if (module.getForward())
        findSegments(module);
    // Rows behind those of the last item are one more of them.
    bool padded = hasPadding(program);
    if (!isCut(program) && !padded)
      return;
    for (auto module : program.getOps<dist::ModuleOp>()) {
      if (!module.getForward())
        continue;
      if ((!module.getWholeBatch() && failed(verify(module))) ||
          (padded && failed(checkPadding(module))))
        return signalPassFailure();
    }
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

  LogicalResult verify(dist::ModuleOp module) {
    ItemAnalysis analysis(module, takesLocalStatistics(getOperation()));
    if (failed(verifyInputs(module, analysis)))
      return failure();
    func::FuncOp forward = module.getForward();
    remarkFills(forward, analysis);
    remarkStatistics(module);
    Operation *terminator = forward.getBody().front().getTerminator();
    for (unsigned i = 0; i < forward.getNumResults(); ++i)
      if (failed(verifyOutput(module, i, terminator->getOperand(i), analysis)))
        return failure();
    return success();
  }

  /// A loss may differ by more than rounding, under plans that cut a microbatch
  /// or put several together.
  void remarkStatistics(dist::ModuleOp module) {
    int64_t parts = dist::Placement(module).getNumParts(),
            span = module.getSpan();
    if (parts == 1 && span == 1)
      return;
    if (Operation *op = findLocalStatistics(module))
      op->emitRemark() << describe(op) << " takes the statistics of a part: one"
                       << " of " << parts << " of "
                       << (span > 1 ? "several microbatches" : "a microbatch");
  }

  /// What the graph cannot show is said: that each sample has as many places as
  /// rows.
  void remarkFills(func::FuncOp forward, const ItemAnalysis &analysis) {
    forward.walk(
        [&](nn::GatherOp op) {
          if (analysis.get(op.getIndices()).isRunningCount)
            op.emitRemark()
                << describe(op)
                << " fills places in order: each sample is taken to have "
                   "as many places as it has rows to fill them with";
        });
  }

  /// An input of rank 2 or more with numbers only has the items of a whole
  /// batch in it; smaller ones (a scalar, a table of positions) are the same
  /// for all parts.
  LogicalResult verifyInputs(dist::ModuleOp module,
                             const ItemAnalysis &analysis) {
    func::FuncOp forward = module.getForward();
    for (BlockArgument argument : forward.getArguments()) {
      auto type = cast<RankedTensorType>(argument.getType());
      if (type.getRank() < 2 || !analysis.getItemAxes(type).empty())
        continue;
      return module.emitError()
             << "input '"
             << dist::ModuleOp::getArgumentName(forward,
                                                argument.getArgNumber())
             << "' of module '" << module.getExternalName()
             << "' has the fixed dim " << nn::getShape(type)[0].str()
             << " where items should be counted (" << type << ")" << kCut;
    }
    return success();
  }

  LogicalResult emitCoupled(dist::ModuleOp module, const ItemState &state,
                            const Twine &use) {
    Operation *at = state.culprit ? state.culprit : module.getOperation();
    return at->emitError() << describe(at) << " of module '"
                           << module.getExternalName() << "' " << state.reason
                           << ", and " << use << " depends on it" << kCut;
  }

  LogicalResult verifyOutput(dist::ModuleOp module, unsigned index, Value value,
                             const ItemAnalysis &analysis) {
    StringRef name = dist::ModuleOp::getResultName(module.getForward(), index);
    const ItemState &state = analysis.get(value);
    for (auto loss : getOperation().getOps<dist::LossOp>()) {
      if (loss.getModule() != module.getSymName() ||
          loss.getNumerator() != name)
        continue;
      if (!loss.getDenominator())
        if (LossSplit split = splitLoss(value, analysis); split.culprit)
          return emitCoupled(module,
                             ItemState::coupled(split.culprit, split.reason),
                             "loss '" + loss.getName() + "'");
      if (state.is(ItemState::Coupled))
        return emitCoupled(module, state, "loss '" + loss.getName() + "'");
      if (!state.is(ItemState::Sum))
        return loss.emitError() << "the numerator of loss '" << loss.getName()
                                << "' is not a sum over items" << kCut;
    }
    for (auto edge : getOperation().getOps<dist::EdgeOp>()) {
      if (edge.getSource() != module.getSymName() || edge.getOutput() != name)
        continue;
      if (state.is(ItemState::Coupled))
        return emitCoupled(module, state, "output '" + name + "'");
      if (state.hasOwnNumber())
        return emitCoupled(
            module,
            ItemState::coupled(value.getDefiningOp(), nn::kNumberInPart),
            "output '" + name + "'");
      if (state.declaredIndex)
        return edge.emitError()
               << "output '" << name << "' of module '"
               << module.getExternalName()
               << "' has places of an input, which each part counts anew"
               << kCut;
      bool leading =
          state.is(ItemState::PerItem) && state.major == nn::DimExpr(1) &&
          state.axis == dist::getRowAxis(nn::getShape(value.getType()));
      if (!leading && !state.is(ItemState::Invariant))
        return edge.emitError()
               << "output '" << name << "' of module '"
               << module.getExternalName()
               << "' does not have its items on the first axis" << kCut;
    }
    markUnjoined(module, index, value, analysis);
    return success();
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
