//===- VerifyApart.cpp - Items that do not depend on one another -*- C++ -*-==//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/modules/VerifyApart.h"

#include "passes/modules/ItemAxes.h"
#include "passes/modules/SplitLosses.h"

using namespace mlir;

namespace dt::modules {

namespace {

constexpr const char *kCut =
    ", so the batch cannot be cut into microbatches, replicas or pieces";

class ApartVerifier {
public:
  explicit ApartVerifier(dist::ModuleOp module)
      : module(module), program(module->getParentOfType<mlir::ModuleOp>()),
        analysis(module, takesLocalStatistics(program)) {}

  LogicalResult verify() {
    if (failed(verifyInputs()))
      return failure();
    func::FuncOp forward = module.getForward();
    remarkFills(forward);
    remarkStatistics();
    Operation *terminator = forward.getBody().front().getTerminator();
    for (unsigned i = 0; i < forward.getNumResults(); ++i)
      if (failed(verifyOutput(i, terminator->getOperand(i))))
        return failure();
    return success();
  }

private:
  /// A loss may differ by more than rounding, under plans that cut a microbatch
  /// or put several together.
  void remarkStatistics() {
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
  void remarkFills(func::FuncOp forward) {
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
  LogicalResult verifyInputs() {
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

  LogicalResult emitCoupled(const ItemState &state, const Twine &use) {
    Operation *at = state.culprit ? state.culprit : module.getOperation();
    return at->emitError() << describe(at) << " of module '"
                           << module.getExternalName() << "' " << state.reason
                           << ", and " << use << " depends on it" << kCut;
  }

  LogicalResult verifyOutput(unsigned index, Value value) {
    StringRef name = dist::ModuleOp::getResultName(module.getForward(), index);
    const ItemState &state = analysis.get(value);
    for (auto loss : program.getOps<dist::LossOp>()) {
      if (loss.getModule() != module.getSymName() ||
          loss.getNumerator() != name)
        continue;
      if (!loss.getDenominator())
        if (LossSplit split = splitLoss(value, analysis); split.culprit)
          return emitCoupled(ItemState::coupled(split.culprit, split.reason),
                             "loss '" + loss.getName() + "'");
      if (state.is(ItemState::Coupled))
        return emitCoupled(state, "loss '" + loss.getName() + "'");
      if (!state.is(ItemState::Sum))
        return loss.emitError() << "the numerator of loss '" << loss.getName()
                                << "' is not a sum over items" << kCut;
    }
    for (auto edge : program.getOps<dist::EdgeOp>()) {
      if (edge.getSource() != module.getSymName() || edge.getOutput() != name)
        continue;
      if (state.is(ItemState::Coupled))
        return emitCoupled(state, "output '" + name + "'");
      if (state.hasOwnNumber())
        return emitCoupled(
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
    return success();
  }

  dist::ModuleOp module;
  mlir::ModuleOp program;
  ItemAnalysis analysis;
};

} // namespace

LogicalResult verifyApart(dist::ModuleOp module) {
  return ApartVerifier(module).verify();
}

} // namespace dt::modules
