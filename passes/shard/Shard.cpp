//===- Shard.cpp - Cuts a module's functions over ranks ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One axis of ranks at a time: layers, then the module function that calls
// them. A second axis is cut in what the first has left.
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Axes.h"
#include "passes/shard/CutExperts.h"
#include "passes/shard/EmitLocal.h"
#include "passes/shard/Passes.h"

#include <set>

using namespace mlir;
using namespace dt;

namespace dt::shard {
#define GEN_PASS_DEF_SHARD
#include "passes/shard/Passes.h.inc"
} // namespace dt::shard

using namespace dt::shard;

/// Bytes of traffic that a floating-point operation on a context axis is worth:
/// so many that small sizes do not keep tokens whole either.
static constexpr double kWholeTokens = 1;

namespace {

struct ShardPass : shard::impl::ShardBase<ShardPass> {
  using ShardBase::ShardBase;
  void runOnOperation() override;
};

class ModuleSharder {
public:
  ModuleSharder(dist::ModuleOp module, const Axis &axis, unsigned beam)
      : module(module), axis(axis), beam(beam) {
    if (auto price = module.getMemoryPrice())
      prices.memory = price->convertToDouble();
    if (axis.context)
      prices.flop = kWholeTokens;
    auto program = module->getParentOfType<mlir::ModuleOp>();
    if (!program)
      return;
    prices.microbatches =
        static_cast<double>(dist::getNumMicrobatches(program));
    for (auto edge : program.getOps<dist::EdgeOp>())
      if (llvm::is_contained({edge.getSource(), edge.getTarget()},
                             module.getSymName()))
        edges.push_back(edge);
  }
  LogicalResult run();
  /// Whether some op works on a rank's part only.
  bool cuts() const { return cutsAny; }

private:
  LogicalResult shardPair(Pair pair);
  void setBoundary(ShardProblem &program, const Layer &layer);
  Layout getLayout(dist::EdgeOp edge, RankedTensorType type);
  void setInputs(ShardProblem &program);
  void setOutputs(ShardProblem &program);
  void setPrices(ShardProblem &program) const;
  void settleParameters(ShardProblem &program) const;
  FailureOr<LayerLayouts> solve(ShardProblem &program, LayoutChoice &solution);
  void recordParameters(const ShardProblem &program,
                        const LayoutChoice &solution);

  dist::ModuleOp module;
  Axis axis;
  unsigned beam;
  Prices prices;
  SmallVector<dist::EdgeOp> edges; ///< of the module
  bool cutsAny = false;
  llvm::DenseMap<Operation *, LayerLayouts> layers; // by forward function
};

} // namespace

/// Storing a parameter: by its size, and by how many rows it is multiplied
/// with, so that whether a matrix is cut does not depend on the batch.
void ModuleSharder::setPrices(ShardProblem &program) const {
  for (Variable &v : program.variables)
    if (v.parameter)
      v.price = prices.memory * program.evaluate(nn::getNumElements(v.shape));
  std::vector<double> rows(program.variables.size(), 0);
  for (const Step &step : program.steps)
    for (unsigned i : step.operands) {
      const Variable &v = program.variables[i];
      double size = program.evaluate(nn::getNumElements(v.shape));
      if (v.parameter && step.contraction && size > 0)
        rows[i] = std::max(rows[i], step.flops / (2 * size * std::sqrt(size)));
    }
  for (auto [v, factor] : llvm::zip(program.variables, rows))
    v.price *= std::max(1.0, factor);
}

/// Where tokens are cut, parameters are whole, but experts of each rank's own.
static void keepWhole(ShardProblem &program, const CutConstraints &cuts) {
  for (Variable &v : program.variables)
    if (v.parameter &&
        llvm::none_of(v.classes, [&](unsigned c) { return cuts.experts[c]; }))
      v.given = Layout();
}

FailureOr<LayerLayouts> ModuleSharder::solve(ShardProblem &program,
                                             LayoutChoice &solution) {
  setPrices(program);
  CutConstraints cuts = findCuts(program, axis, [&](Operation *op) {
    auto callee =
        module.lookupSymbol<func::FuncOp>(cast<func::CallOp>(op).getCallee());
    auto it = callee ? layers.find(findPair(callee).forward) : layers.end();
    return it == layers.end() ? nullptr : &it->second;
  });
  if (axis.context)
    keepWhole(program, cuts);
  CostModel model(program, cuts, axis, prices);
  solution = searchLayouts(program, model, beam);
  for (auto [step, choice] : llvm::zip(program.steps, solution.choices))
    cutsAny |= !step.strategies.empty() && step.strategies[choice].factor >= 0;
  return emitLocal(program, model, solution, axis);
}

/// A layer's stream is whole, or cut along its tokens; other activations are
/// whole.
void ModuleSharder::setBoundary(ShardProblem &program, const Layer &layer) {
  RankedTensorType stream = getStream(layer);
  Layout layout;
  if ((module.getSequenceParallel() || axis.context) && stream) {
    if (auto cut = getTokenCut(stream, axis))
      layout = {Layout::cut, *cut};
    else
      func::FuncOp(layer.pair.forward).emitRemark()
          << "activations between layers stay whole: " << axis.over
          << " ranks do not divide the tokens of " << stream;
  }
  auto of = [&](const Variable &v) {
    return v.type == stream ? layout : Layout();
  };
  for (Variable &v : program.variables)
    if (v.given)
      v.given = of(v);
  for (auto [output, i] : llvm::zip(layer.outputs, program.forwardReturns))
    if (output)
      program.variables[i].settled = of(program.variables[i]);
  for (unsigned i : program.backwardReturns)
    if (program.variables[i].gradientOf < 0)
      program.variables[i].settled = of(program.variables[i]);
}

/// Where the value of an edge is cut; whole: on each rank.
Layout ModuleSharder::getLayout(dist::EdgeOp edge, RankedTensorType type) {
  if (edge.getCut() && (module.getSequenceParallel() || axis.context))
    if (auto cut = getTokenCut(type, axis))
      return {Layout::cut, *cut};
  return {};
}

/// Arguments that come over edges, and gradients of what goes over edges.
void ModuleSharder::setInputs(ShardProblem &program) {
  auto [f, b] = program.pair;
  for (dist::EdgeOp edge : edges) {
    if (edge.getTarget() == module.getSymName())
      if (auto i = dist::ModuleOp::findArgument(f, edge.getInput())) {
        Variable &v = program.variables[program.variableOf(f.getArgument(*i))];
        v.given = getLayout(edge, v.type);
      }
    if (!b || edge.getSource() != module.getSymName())
      continue;
    auto name = StringAttr::get(edge.getContext(),
                                edge.getTarget() + "." + edge.getInput());
    for (BlockArgument a : b.getArguments())
      if (auto gradient = b.getArgAttrOfType<nn::GradientAttr>(
              a.getArgNumber(), nn::kGradientAttr);
          gradient && gradient.getEdge() == name) {
        Variable &v = program.variables[program.variableOf(a)];
        v.given = getLayout(edge, v.type);
      }
  }
}

/// What leaves the module for another one, or for the loss, is whole, or cut as
/// its edge says.
void ModuleSharder::setOutputs(ShardProblem &program) {
  auto top = module->getParentOfType<mlir::ModuleOp>();
  auto layoutOf = [&](StringRef name,
                      RankedTensorType type) -> std::optional<Layout> {
    for (dist::EdgeOp edge : edges)
      if (edge.getSource() == module.getSymName() && edge.getOutput() == name)
        return getLayout(edge, type);
    for (auto loss : top.getOps<dist::LossOp>())
      if (loss.getModule() == module.getSymName() &&
          loss.getNumerator() == name)
        return Layout();
    return std::nullopt;
  };
  func::FuncOp f = program.pair.forward;
  for (auto [i, index] : llvm::enumerate(program.forwardReturns)) {
    Variable &v = program.variables[index];
    if (f.getResultAttr(i, nn::kResidualAttr))
      continue;
    auto layout = layoutOf(dist::ModuleOp::getResultName(f, i), v.type);
    if (layout || !top)
      v.settled = layout.value_or(Layout());
  }
  func::FuncOp b = program.pair.backward;
  for (auto [i, index] : llvm::enumerate(program.backwardReturns)) {
    Variable &v = program.variables[index];
    v.settled = Layout();
    auto gradient =
        b.getResultAttrOfType<nn::GradientAttr>(i, nn::kGradientAttr);
    for (dist::EdgeOp edge : edges)
      if (gradient && edge.getTarget() == module.getSymName() &&
          edge.getInputAttr() == gradient.getOf())
        v.settled = getLayout(edge, v.type);
  }
}

void ModuleSharder::recordParameters(const ShardProblem &program,
                                     const LayoutChoice &solution) {
  MLIRContext *context = module.getContext();
  for (auto [i, v] : llvm::enumerate(program.variables)) {
    if (!v.symbol)
      continue;
    Mask mask = solution.last[i] & ~kUndecided;
    State state = mask ? llvm::countr_zero(mask) : kWhole;
    if (state >= kFirstCut) {
      Layout layout = v.layout(state);
      nn::ParameterOp(v.symbol)->setAttr(
          dist::kLayoutAttr,
          addCut(nn::ParameterOp(v.symbol)->getAttr(dist::kLayoutAttr), v.type,
                 layout.at, axis));
      auto whole = cast<RankedTensorType>(nn::ParameterOp(v.symbol).getType());
      nn::ParameterOp(v.symbol).setType(localType(whole, layout, axis));
    }
    if (solution.last[v.gradient] & (1 << kPartial)) {
      SmallVector<Attribute> axes;
      if (auto old = nn::ParameterOp(v.symbol)->getAttrOfType<ArrayAttr>(
              dist::kPartialGradientAttr))
        llvm::append_range(axes, old.getValue());
      axes.push_back(dist::CutAttr::get(context,
                                        axis.context ? rt::kTokenAxis : 0, 1,
                                        axis.over, axis.stride));
      nn::ParameterOp(v.symbol)->setAttr(dist::kPartialGradientAttr,
                                         ArrayAttr::get(context, axes));
    }
  }
}

/// Parameters that are to be cut as their copies elsewhere are. A context axis
/// comes after these cuts.
void ModuleSharder::settleParameters(ShardProblem &program) const {
  if (axis.context)
    return;
  for (Variable &v : program.variables) {
    auto hint = v.symbol ? nn::ParameterOp(v.symbol)->getAttrOfType<StringAttr>(
                               dist::kCutHintAttr)
                         : StringAttr();
    if (!hint)
      continue;
    v.given = Layout();
    if (hint == "rows" && v.type.getRank() > 0 &&
        v.type.getDimSize(0) % axis.over == 0)
      v.given = Layout{Layout::cut, {0, v.type.getDimSize(0) / axis.over}};
  }
}

LogicalResult ModuleSharder::shardPair(Pair pair) {
  ShardProblem whole(pair, nullptr);
  settleParameters(whole);
  for (const Layer &layer : findLayers(whole)) {
    if (layers.count(layer.pair.forward))
      continue;
    ShardProblem program(layer.pair, &layer.links);
    setBoundary(program, layer);
    LayoutChoice solution;
    FailureOr<LayerLayouts> layouts = solve(program, solution);
    if (failed(layouts))
      return failure();
    layers[layer.pair.forward] = std::move(*layouts);
  }
  setInputs(whole);
  setOutputs(whole);
  LayoutChoice solution;
  if (failed(solve(whole, solution)))
    return failure();
  recordParameters(whole, solution);
  return success();
}

LogicalResult ModuleSharder::run() {
  for (Pair pair : findPairs(module))
    if (failed(shardPair(pair)))
      return failure();
  return success();
}

/// Numbers of heads that attention has in the module's functions.
static std::set<int64_t> getHeads(dist::ModuleOp module) {
  std::set<int64_t> heads;
  module.walk([&](nn::AttentionOp op) {
    if (auto n = nn::getShape(op.getQuery().getType())[2].asConstant())
      heads.insert(*n);
  });
  return heads;
}

/// `before`: heads of the whole module. Said once of a unit of stages.
static void warnHeads(dist::ModuleOp module, const std::set<int64_t> &before) {
  dist::Placement placement(module);
  int64_t ranks = getTensorParallel(module);
  std::set<int64_t> after = getHeads(module);
  for (int64_t heads : before)
    if (heads % ranks != 0 && after.count(heads) && placement.stage == 0)
      module.emitWarning("'")
          << placement.unit << "' has attention of " << heads
          << " heads, which " << ranks
          << " tensor-parallel ranks (tp) do not divide: every rank "
          << "computes all of it, and keeps its weights whole";
}

static void remarkWhole(dist::ModuleOp module) {
  unsigned cut = 0;
  for (auto p : module.getOps<nn::ParameterOp>())
    cut += p->hasAttr(dist::kLayoutAttr);
  if (cut == 0) {
    module.emitRemark("nothing of '")
        << module.getSymName() << "' can be cut over "
        << getTensorParallel(module) << " ranks: each computes all of it";
    return;
  }
  for (auto p : module.getOps<nn::ParameterOp>()) {
    auto type = cast<RankedTensorType>(p.getType());
    if (!p->hasAttr(dist::kLayoutAttr) && !p.getBuffer() && type.getRank() >= 2)
      p.emitRemark("'") << p.getSymName() << "' " << type
                        << " stays whole on every rank";
  }
}

/// Where the plan's `context` does nothing at all.
static void remarkKeys(dist::ModuleOp module, ArrayRef<Axis> context,
                       bool attends) {
  if (!attends && dist::Placement(module).stage == 0)
    module.emitRemark("`context` does nothing for '")
        << module.getSymName() << "': no op of it is attention";
  else if (llvm::none_of(context, [](const Axis &axis) { return axis.keys; }))
    module.emitRemark("`context` is not ring for '")
        << module.getSymName() << "', but what sends fewer bytes: ranks that "
        << "share out experts among those that share tokens are an axis of "
        << "their own";
}

void ShardPass::runOnOperation() {
  dist::ModuleOp module = getOperation();
  int64_t ranks = getTensorParallel(module);
  bool attends =
      module->walk([](nn::AttentionOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  if (failed(checkExperts(module)))
    return signalPassFailure();
  // As dist-cut-edges sees the module.
  SmallVector<Axis> context = getContextAxes(module);
  if (ranks > 1) {
    std::set<int64_t> heads = getHeads(module);
    for (const Axis &group : getGroup(module))
      for (const Axis &axis : splitAxis(module, group))
        if (failed(ModuleSharder(module, axis, beam).run()))
          return signalPassFailure();
    warnHeads(module, heads);
    remarkWhole(module);
  }
  if (dist::Placement(module).group == ranks)
    return;
  // Heads are for tensor-parallel ranks first.
  bool cuts = false;
  for (const Axis &axis : context) {
    ModuleSharder overTokens(module, axis, beam);
    if (failed(overTokens.run()))
      return signalPassFailure();
    cuts |= overTokens.cuts();
  }
  if (module.getContextKeys())
    remarkKeys(module, context, attends);
  if (!cuts)
    module.emitRemark("no tokens of '")
        << module.getSymName() << "' can be cut over "
        << dist::Placement(module).group / ranks
        << " context-parallel ranks (cp): each computes all of it";
}
