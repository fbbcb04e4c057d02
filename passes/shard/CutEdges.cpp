//===- CutEdges.cpp - Streams that stay cut between stages ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Where layers hand on tokens that are cut over a replica's ranks, whole values
// between the stages would be gathered only to be cut again, sent by one rank
// for all, and kept by each (Megatron-LM sends what a rank has, too:
// Korthikanti et al. 2022, section 4.2.2).
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Axes.h"
#include "passes/shard/Cuts.h"
#include "passes/shard/EmitLocal.h"
#include "passes/shard/Passes.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlir;
using namespace dt;
using namespace dt::shard;

namespace dt::shard {
#define GEN_PASS_DEF_CUTEDGES
#include "passes/shard/Passes.h.inc"
} // namespace dt::shard

namespace {

/// What the partitioner does with a module, as far as its edges are concerned.
struct Stage {
  explicit Stage(dist::ModuleOp module);
  /// Whether each function that knows the edge is partitioned.
  bool partitions(dist::EdgeOp edge);
  bool hasStream(const nn::Shape &shape) const {
    return llvm::is_contained(streams, shape) ||
           (streams.empty() && hasTokens(shape)) || sharesOut(shape);
  }
  bool hasTokens(const nn::Shape &shape) const;
  bool sharesOut(const nn::Shape &shape) const;

  dist::ModuleOp module;
  dist::Placement placement;
  SmallVector<Axis> axes;         ///< over which it cuts what is between layers
  SmallVector<nn::Shape> streams; ///< of layers that hand them to one another
  llvm::DenseSet<Operation *> partitioned;
};

Stage::Stage(dist::ModuleOp module) : module(module), placement(module) {
  int64_t ranks = getTensorParallel(module);
  if (ranks > 1 && module.getSequenceParallel()) {
    SmallVector<Axis> group = getGroup(module);
    // How a second axis is split shows only when the first is cut.
    if (group.size() > 1)
      return;
    axes = splitAxis(module, group[0]);
  }
  if (placement.group > ranks)
    llvm::append_range(axes, getContextAxes(module));
  if (axes.empty())
    return; // no edge of its is cut
  for (Pair pair : findPairs(module)) {
    partitioned.insert(pair.forward);
    if (pair.backward)
      partitioned.insert(pair.backward);
    ShardProblem whole(pair, nullptr);
    for (const Layer &layer : findLayers(whole))
      if (RankedTensorType stream = getStream(layer))
        streams.push_back(nn::getShape(stream));
  }
}

/// Whether a value has the tokens of attention's queries before its features.
/// A stage of one layer has no other that says what a stream is.
bool Stage::hasTokens(const nn::Shape &shape) const {
  bool found = false;
  dist::ModuleOp(module).walk([&](nn::AttentionOp op) {
    nn::Shape query = nn::getShape(op.getQuery());
    found |= shape.size() == 3 && shape[0] == query[0] && shape[1] == query[1];
    found |= shape.size() == 2 && shape[0] == query[0] * query[1];
  });
  return found;
}

/// Whether a value has samples in front, and ranks have other samples, not
/// other tokens of all.
bool Stage::sharesOut(const nn::Shape &shape) const {
  return !axes.empty() && !shape.empty() && countsItems(module, shape[0]) &&
         llvm::all_of(axes, [](const Axis &axis) { return axis.samples; });
}

bool Stage::partitions(dist::EdgeOp edge) {
  for (auto f : module.getOps<func::FuncOp>()) {
    if (f.isPrivate() || f.isExternal() || partitioned.contains(f))
      continue;
    if (edge.getTarget() == module.getSymName() &&
        dist::ModuleOp::findArgument(f, edge.getInput()))
      return false;
    if (edge.getSource() == module.getSymName() &&
        dist::ModuleOp::findResult(f, edge.getOutput()))
      return false;
  }
  return true;
}

struct CutEdgesPass : shard::impl::CutEdgesBase<CutEdgesPass> {
  void runOnOperation() override;

private:
  Stage &stageOf(StringRef name);
  bool canCut(dist::EdgeOp edge);

  std::map<std::string, Stage> stages;
};

Stage &CutEdgesPass::stageOf(StringRef name) {
  auto module = getOperation().lookupSymbol<dist::ModuleOp>(name);
  return stages.try_emplace(name.str(), module).first->second;
}

/// Whether each axis divides what the axes before it leave of a value's tokens.
bool canCutTokens(RankedTensorType type, ArrayRef<Axis> axes) {
  for (const Axis &axis : axes) {
    auto cut = getTokenCut(type, axis);
    if (!cut)
      return false;
    type = localType(type, {Layout::cut, *cut}, axis);
  }
  return true;
}

bool CutEdgesPass::canCut(dist::EdgeOp edge) {
  Stage &from = stageOf(edge.getSource()), &to = stageOf(edge.getTarget());
  if (from.placement.unit != to.placement.unit || from.axes.empty() ||
      from.axes != to.axes || from.module.getWholeBatch() ||
      to.module.getWholeBatch() || !from.partitions(edge) ||
      !to.partitions(edge))
    return false;
  func::FuncOp forward = dist::getFunctions(from.module).forward;
  auto result = dist::ModuleOp::findResult(forward, edge.getOutput());
  auto type = dyn_cast<RankedTensorType>(forward.getResultTypes()[*result]);
  return type &&
         (from.hasStream(nn::getShape(type)) ||
          to.hasStream(nn::getShape(type))) &&
         canCutTokens(type, from.axes);
}

void CutEdgesPass::runOnOperation() {
  stages.clear();
  shareTokenBlocks(getOperation());
  // One value has one layout, whoever takes it.
  std::map<std::pair<StringRef, StringRef>, SmallVector<dist::EdgeOp>> outputs;
  for (auto edge : getOperation().getOps<dist::EdgeOp>())
    outputs[{edge.getSource(), edge.getOutput()}].push_back(edge);
  for (auto &[output, edges] : outputs)
    if (llvm::all_of(edges, [&](dist::EdgeOp edge) { return canCut(edge); }))
      for (dist::EdgeOp edge : edges)
        edge.setCut(true);
}

} // namespace
