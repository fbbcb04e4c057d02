//===- CutContrastive.cpp - Towers a part, their loss a whole batch -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A contrastive loss compares every item with every other. It stays exact on a
// cut batch if only the comparison sees the whole batch (DISTMM, NSDI 2024):
// towers run a microbatch at a time and hand over their embeddings.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/ItemAxes.h"
#include "passes/modules/ModuleGraph.h"
#include "passes/modules/MoveOps.h"
#include "passes/modules/Passes.h"

#include "dialects/dist/DistOps.h"

using namespace mlir;

namespace dt::modules {
#define GEN_PASS_DEF_CUTCONTRASTIVE
#include "passes/modules/Passes.h.inc"

namespace {

class Cutter {
public:
  Cutter(mlir::ModuleOp program, dist::ModuleOp module,
         const ItemAnalysis &analysis)
      : program(program), module(module), analysis(analysis) {}

  /// False if some value cannot go over an edge; nothing has changed then.
  bool findFrontier();
  LogicalResult cut();

private:
  bool require(Value value);
  void remark() const;
  LogicalResult checkSpans(dist::ModuleOp head);

  mlir::ModuleOp program;
  dist::ModuleOp module;
  const ItemAnalysis &analysis;
  MovedOps ops;
};

bool Cutter::require(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    const ItemState &state = analysis.get(argument);
    return state.is(ItemState::Invariant) ||
           (state.is(ItemState::PerItem) && state.axis == 0);
  }
  Operation *op = value.getDefiningOp();
  if (ops.contains(op))
    return true;
  const ItemState &state = analysis.get(value);
  if (state.is(ItemState::Sum))
    return false;
  bool leading = state.is(ItemState::PerItem) && state.axis == 0 &&
                 state.major == nn::DimExpr(1);
  // An item's own number means another thing in the whole batch, and so does a
  // place that each part counts anew; the whole batch has the input as it came.
  // What comes from no input is better computed again than sent.
  bool numbered = state.hasOwnNumber() || state.declaredIndex;
  if (leading && !numbered && !isIndependent(op))
    return true;
  ops.copied.insert(op);
  return llvm::all_of(op->getOperands(), [&](Value v) { return require(v); });
}

bool Cutter::findFrontier() {
  Block &body = module.getForward().getBody().front();
  // What nobody takes, such as what attention keeps for its gradient, says
  // nothing about the op.
  for (Operation &op : body.without_terminator())
    if (llvm::any_of(op.getResults(), [&](Value v) {
          return !v.use_empty() && analysis.get(v).is(ItemState::Coupled);
        }))
      ops.owned.insert(&op);
  // Nothing comes back from the head.
  for (Operation *op : ops.owned)
    for (Operation *user : op->getUsers())
      if (user != body.getTerminator() && !ops.owned.contains(user))
        return false;
  for (Operation *op : ops.owned)
    for (Value operand : op->getOperands())
      if (!require(operand))
        return false;
  return true;
}

void Cutter::remark() const {
  ModuleGraph graph(module, {});
  SetVector<Value> crossing;
  double flops = 0;
  for (Operation *op : ops.owned)
    flops += graph[*graph.find(op)].flops;
  for (const ModuleGraph::Node &node : graph.getNodes())
    if (ops.contains(node.op))
      for (Value operand : node.op->getOperands())
        if (operand.getDefiningOp() && !ops.contains(operand.getDefiningOp()))
          crossing.insert(operand);
  double samples = graph.getSamples();
  remarkCut(graph, dist::ModuleOp(module).getExternalName(),
            crossing.getArrayRef(), ops.owned.front())
      << "; what compares every item with every other ("
      << formatCount(flops / samples)
      << "FLOPs a sample in a microbatch) is apart from the "
      << formatCount((graph.getFlops() - flops) / samples)
      << "FLOPs that are left";
}

LogicalResult Cutter::cut() {
  remark();
  std::string name =
      freeModuleName(program, (module.getSymName() + "_head").str());
  dist::ModuleOp head = moveToNewModule(module, ops, name, /*upstream=*/false);
  head.setRole(dist::Role::head);
  head.setWholeBatch(true);
  head.removePrecisionAttr();
  head.setNarrowResidual(false);
  head.setNarrowGradients(false);
  module.setRole(dist::Role::tower);
  auto batch = dist::getOnly<dist::BatchOp>(program);
  int64_t global = batch ? batch.getGlobal() : 1;
  for (auto dim : head.getOps<nn::DimOp>())
    if (dim.getItem())
      dim.setBound(global * dist::getMostOfSample(program, dim).value_or(1));
  return checkSpans(head);
}

/// The plan was checked with the module as a whole, behind which there was
/// somebody who could take a task of several microbatches apart.
LogicalResult Cutter::checkSpans(dist::ModuleOp head) {
  for (auto edge : program.getOps<dist::EdgeOp>()) {
    auto from = program.lookupSymbol<dist::ModuleOp>(edge.getSource());
    if (edge.getTarget() == head.getSymName() && from.getSpan() > 1)
      return from.emitError("units.")
             << from.getSymName() << ".span: what it feeds runs over the whole "
             << "batch ('" << module.getSymName()
             << "') and takes single microbatches; expected 1, not "
             << from.getSpan();
  }
  return success();
}

struct CutContrastivePass : impl::CutContrastiveBase<CutContrastivePass> {
  void runOnOperation() override {
    mlir::ModuleOp program = getOperation();
    SmallVector<dist::ModuleOp> modules(program.getOps<dist::ModuleOp>());
    for (dist::ModuleOp module : modules) {
      if (module.getWholeBatch() || !module.getForward() || !isWanted(module))
        continue;
      ItemAnalysis analysis(module, takesLocalStatistics(program));
      if (!hasPairwiseLoss(module, analysis))
        continue;
      Cutter cutter(program, module, analysis);
      if (cutter.findFrontier() && failed(cutter.cut()))
        return signalPassFailure();
    }
  }

  /// A comparison is float32, also where the towers are not.
  bool isWanted(dist::ModuleOp module) {
    return isCut(getOperation()) || module.getSplit() || module.isBF16();
  }

  /// Some loss compares items with items, and none is coupled otherwise.
  bool hasPairwiseLoss(dist::ModuleOp module, const ItemAnalysis &analysis) {
    func::FuncOp forward = module.getForward();
    Operation *terminator = forward.getBody().front().getTerminator();
    bool pairwise = false;
    for (auto loss : getOperation().getOps<dist::LossOp>()) {
      if (loss.getModule() != module.getSymName())
        continue;
      unsigned i = *dist::ModuleOp::findResult(forward, loss.getNumerator());
      const ItemState &state = analysis.get(terminator->getOperand(i));
      if (!state.is(ItemState::Coupled))
        continue;
      if (!state.pairwise)
        return false;
      pairwise = true;
    }
    return pairwise;
  }
};

} // namespace

} // namespace dt::modules
