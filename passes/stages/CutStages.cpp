//===- CutStages.cpp - Modules into pipeline stages -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/stages/Passes.h"
#include "passes/stages/PlanCluster.h"
#include "passes/stages/StageEmit.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace dt::stages {
#define GEN_PASS_DEF_CUTSTAGES
#include "passes/stages/Passes.h.inc"

namespace {

struct CutStagesPass : impl::CutStagesBase<CutStagesPass> {
  void runOnOperation() override {
    SmallVector<dist::ModuleOp> modules(
        getOperation().getOps<dist::ModuleOp>());
    for (dist::ModuleOp module : modules)
      if (failed(cut(module)))
        return signalPassFailure();
    if (dist::getOnly<dist::PlanOp>(getOperation()))
      placeHeads();
  }

private:
  LogicalResult cut(dist::ModuleOp module) {
    int64_t pp = module.getPp(), vpp = module.getVpp();
    ArrayAttr pieces = module.getStagesAttr();
    int64_t count = pp * vpp;
    if (pieces && pp == 1 && vpp == 1)
      count = pp = int64_t(pieces.size());
    if (count == 1 && !pieces)
      return success();
    dist::Placement placement(module);
    if (failed(check(module, count, pp, vpp, pieces)))
      return failure();
    StageCuts cuts(module, placement.getNumParts());
    if (failed(pieces ? cuts.assign(pieces) : balance(cuts, module)))
      return failure();
    if (count == 1) { // the whole module, and its pieces are named rightly
      module.removeStagesAttr();
      return success();
    }
    for (int64_t stage = 0; stage < count; ++stage)
      describe(module, cuts, stage);
    return emitStages(module, cuts, getRanks(module, placement, count, pp));
  }

  LogicalResult check(dist::ModuleOp module, int64_t count, int64_t pp,
                      int64_t vpp, ArrayAttr pieces) {
    if (pp > 1 << 20 || vpp > 1 << 20 || count > 1 << 20)
      return module.emitError("'pp' and 'vpp' make too many stages");
    if (pieces && int64_t(pieces.size()) != count)
      return module.emitError("'stages' is a list of names for each of ")
             << count << " stages";
    auto saves = module.getSaves();
    if (saves && int64_t(saves->size()) != count)
      return module.emitError("'saves' has ")
             << saves->size() << " words for " << count << " stages";
    func::FuncOp forward = module.getForward();
    if (!forward || !forward.getBody().hasOneBlock() || module.getWholeBatch())
      return module.emitError("cannot be cut into stages: it ")
             << (module.getWholeBatch() ? "runs over the whole batch"
                                        : "has no function @forward");
    auto ranks = module.getUnitRanks();
    dist::Placement placement(module);
    if (ranks && int64_t(ranks->size()) != pp * placement.dp * placement.group)
      return module.emitError("'unit_ranks' names ")
             << ranks->size() << " ranks; expected pp * dp * cp * tp = "
             << pp * placement.dp * placement.group;
    return success();
  }

  bool goesBack() {
    auto plan = dist::getOnly<dist::PlanOp>(getOperation());
    return plan && scheduler::traitsOf(plan.getSchedule()).goesBack;
  }

  LogicalResult balance(StageCuts &cuts, dist::ModuleOp module) {
    auto cluster = openPlanCluster(getOperation());
    if (failed(cluster) || failed(checkRate(*cluster, module)))
      return failure();
    return cuts.balance(*cluster, module.getPp(), module.getVpp(), goesBack());
  }

  /// Without a list: in order from rank 0.
  SmallVector<SmallVector<int64_t>> getRanks(dist::ModuleOp module,
                                             const dist::Placement &placement,
                                             int64_t count, int64_t pp) {
    auto given = module.getUnitRanks();
    SmallVector<SmallVector<int64_t>> ranks;
    int64_t size = placement.dp * placement.group;
    for (int64_t stage = 0; stage < count; ++stage) {
      ranks.emplace_back();
      for (int64_t i = 0; i < size; ++i) {
        int64_t at = scheduler::positionOf(stage, pp, goesBack()) * size + i;
        ranks.back().push_back(given ? (*given)[at] : at);
      }
    }
    return ranks;
  }

  void describe(dist::ModuleOp module, StageCuts &cuts, int64_t stage) {
    InFlightDiagnostic remark = module.emitRemark();
    remark << "stage " << stage << " of " << module.getSymName() << ": "
           << llvm::formatv("{0:f1}", cuts.getFlops(stage) / 1e6).str()
           << " MFLOP forward";
    if (stage == 0)
      return;
    for (Value value : cuts.getCrossing(stage)) {
      Type type = cuts.getSentType(value);
      auto size = nn::getNumBytes(type).evaluate(
          [](StringRef) { return std::optional<int64_t>(1); });
      remark << "; a tensor of " << type << " crosses into it";
      if (size)
        remark << ", " << *size << " bytes an item";
      if (auto name = value.getLoc()->findInstanceOf<NameLoc>())
        remark << " (" << name.getName().getValue() << ")";
    }
  }

  /// A module over the whole batch runs on all ranks that feed it: their
  /// embeddings are there, and each has its own rows' gradients at once.
  void placeHeads() {
    for (auto module : getOperation().getOps<dist::ModuleOp>()) {
      if (!module.getWholeBatch() || module.getRanks())
        continue;
      llvm::SetVector<int64_t> ranks;
      for (auto edge : getOperation().getOps<dist::EdgeOp>())
        if (edge.getTarget() == module.getSymName())
          for (int64_t rank :
               dist::Placement(getOperation().lookupSymbol<dist::ModuleOp>(
                                   edge.getSource()))
                   .ranks)
            ranks.insert(rank);
      SmallVector<int64_t> sorted(ranks.begin(), ranks.end());
      llvm::sort(sorted);
      if (!sorted.empty())
        module.setRanks(sorted);
    }
  }
};

} // namespace

} // namespace dt::stages
