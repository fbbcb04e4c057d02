//===- Shard.cpp - Cuts a module's functions over ranks ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One axis of ranks at a time: layers, then the module function that calls
// them. A second axis is cut in what the first has left.
//
//===----------------------------------------------------------------------===//

#include "passes/shard/CutExperts.h"
#include "passes/shard/EmitLocal.h"
#include "passes/shard/Layers.h"
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
    if (auto program = module->getParentOfType<mlir::ModuleOp>())
      prices.microbatches =
          static_cast<double>(dist::getNumMicrobatches(program));
  }
  /// Whether some dim asks for smaller axes than this one.
  bool wantsSmallerAxes();
  LogicalResult run();
  /// Whether some op works on a rank's part only.
  bool cuts() const { return cutsAny; }

private:
  SmallVector<Pair> findPairs();
  LogicalResult shardPair(Pair pair);
  void setBoundary(ShardProblem &program, const Layer &layer);
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
  bool cutsAny = false;
  llvm::DenseMap<Operation *, LayerLayouts> layers; // by forward function
};

} // namespace

/// Functions that are called from outside and have something to cut.
SmallVector<Pair> ModuleSharder::findPairs() {
  SmallVector<Pair> pairs;
  for (auto f : module.getOps<func::FuncOp>()) {
    if (f.isPrivate() || f.isExternal())
      continue;
    Pair pair = findPair(f);
    bool reads = false;
    for (func::FuncOp part : {pair.forward, pair.backward})
      if (part)
        part.walk([&](nn::ReadOp) { reads = true; });
    if (reads && pair.forward == f)
      pairs.push_back(pair);
  }
  return pairs;
}

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

/// What leaves the module for another one, or for the loss, is whole.
void ModuleSharder::setOutputs(ShardProblem &program) {
  auto top = module->getParentOfType<mlir::ModuleOp>();
  auto leaves = [&](StringRef name) {
    for (auto edge : top.getOps<dist::EdgeOp>())
      if (edge.getSource() == module.getSymName() && edge.getOutput() == name)
        return true;
    for (auto loss : top.getOps<dist::LossOp>())
      if (loss.getModule() == module.getSymName() &&
          loss.getNumerator() == name)
        return true;
    return false;
  };
  func::FuncOp f = program.pair.forward;
  for (auto [i, v] : llvm::enumerate(program.forwardReturns))
    if (!f.getResultAttr(i, nn::kResidualAttr) &&
        (!top || leaves(dist::ModuleOp::getResultName(f, i))))
      program.variables[v].settled = Layout();
  for (unsigned i : program.backwardReturns)
    program.variables[i].settled = Layout();
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
  setOutputs(whole);
  LayoutChoice solution;
  if (failed(solve(whole, solution)))
    return failure();
  recordParameters(whole, solution);
  return success();
}

bool ModuleSharder::wantsSmallerAxes() {
  for (Pair pair : findPairs()) {
    ShardProblem whole(pair, nullptr);
    auto none = [](Operation *) -> const LayerLayouts * { return nullptr; };
    for (const Layer &layer : findLayers(whole)) {
      ShardProblem program(layer.pair, &layer.links);
      if (findCuts(program, axis, none).wantsSmallerAxes)
        return true;
    }
    if (findCuts(whole, axis, none).wantsSmallerAxes)
      return true;
  }
  return false;
}

LogicalResult ModuleSharder::run() {
  for (Pair pair : findPairs())
    if (failed(shardPair(pair)))
      return failure();
  return success();
}

/// 4 -> 4, or 2 x 2 where that fits better: major axis first.
static SmallVector<Axis> findAxes(dist::ModuleOp module, const Axis &whole,
                                  unsigned beam) {
  if (!ModuleSharder(module, whole, beam).wantsSmallerAxes())
    return {whole};
  SmallVector<Axis> axes;
  for (int64_t rest = whole.over, p = 2; rest > 1;) {
    if (rest % p) {
      ++p;
      continue;
    }
    rest /= p;
    axes.push_back({p, rest * whole.stride, whole.experts});
    axes.back().bounded = whole.bounded;
  }
  return axes;
}

/// The tensor-parallel group; with `ep` the axis of experts first, the major
/// one.
static SmallVector<Axis> getGroup(dist::ModuleOp module) {
  int64_t ranks = getTensorParallel(module);
  int64_t ep = sharesOverTokens(module) ? ranks : module.getEp();
  if (ep == 1)
    return {{ranks, 1}};
  if (ep == ranks)
    return {{ranks, 1, true}};
  return {{ep, ranks / ep, true}, {ranks / ep, 1}};
}

/// Blocks so small that each rank has several of every stretch of tokens: what
/// a causal rule, a window or segments leave of attention is then about as much
/// on all ranks (striped attention, Brandon et al. 2023). 0: nothing is left
/// out.
static int64_t getTokenBlock(dist::ModuleOp module, int64_t over) {
  constexpr int64_t kMost = 128, kRounds = 8;
  int64_t apart = module.getSequenceParallel() ? getTensorParallel(module) : 1;
  bool bounded = false;
  // Of packed rows there are several times as many as they are a multiple of.
  SmallVector<std::pair<int64_t, int64_t>> tokens; // and rounds that they want
  module.walk([&](nn::AttentionOp op) {
    bounded |= op.getCausal() || op.getWindow() || op.getQuerySegments();
    nn::DimExpr size = nn::getShape(op.getQuery())[1];
    auto rows = getTokens(size);
    if (rows && *rows && *rows % (over * apart) == 0)
      tokens.emplace_back(*rows / apart, size.isConstant() ? kRounds : 1);
  });
  int64_t block = kMost;
  auto fits = [&](std::pair<int64_t, int64_t> entry) {
    auto [rows, rounds] = entry;
    return rows % (block * over) == 0 && rows / (block * over) >= rounds;
  };
  while (block > 1 && !llvm::all_of(tokens, fits))
    block /= 2;
  return bounded ? block : 0;
}

/// Whether the module's rows are packed, so that samples have no dim.
static bool hasPackedRows(dist::ModuleOp module) {
  return llvm::any_of(module.getOps<nn::DimOp>(), [&](nn::DimOp dim) {
    return dim.getMeasure() && dim.getItem() == module.getItem();
  });
}

/// Ranks (j, c, t) of a replica stand at (j * cp + c) * tp + t. Where they
/// share out experts, neighbours do, on an axis of their own inside of the
/// others'. Joined replicas come first: of packed rows, too, they have their
/// tokens.
static SmallVector<Axis> getContextAxes(dist::ModuleOp module) {
  int64_t group = getTensorParallel(module), ranks = module.getCp(),
          joined = module.getJoined();
  SmallVector<Axis> axes;
  if (hasPackedRows(module))
    ranks *= joined;
  else if (joined > 1)
    axes.push_back({joined, group * ranks, /*experts=*/true, /*context=*/true,
                    /*block=*/0, /*samples=*/true});
  if (ranks == 1)
    return axes;
  int64_t share = sharesOverTokens(module)
                      ? std::min<int64_t>(module.getEp() / group, ranks)
                      : 1;
  int64_t block = getTokenBlock(module, ranks);
  if (ranks > share)
    axes.push_back({ranks / share, group * share, /*experts=*/false,
                    /*context=*/true, block * share});
  if (share > 1)
    axes.push_back({share, group, /*experts=*/true, /*context=*/true, block});
  return axes;
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

void ShardPass::runOnOperation() {
  dist::ModuleOp module = getOperation();
  int64_t ranks = getTensorParallel(module);
  if (failed(checkExperts(module)))
    return signalPassFailure();
  // A rank of those may have all rows that a capacity leaves to its experts.
  bool bounded = llvm::all_of(getContextAxes(module),
                              [](const Axis &axis) { return axis.experts; });
  auto bind = [&](SmallVector<Axis> axes) {
    for (Axis &axis : axes)
      axis.bounded = axis.experts && bounded;
    return axes;
  };
  if (ranks > 1) {
    std::set<int64_t> heads = getHeads(module);
    for (const Axis &whole : bind(getGroup(module)))
      for (const Axis &axis : findAxes(module, whole, beam))
        if (failed(ModuleSharder(module, axis, beam).run()))
          return signalPassFailure();
    warnHeads(module, heads);
    remarkWhole(module);
  }
  if (dist::Placement(module).group == ranks)
    return;
  // Heads are for tensor-parallel ranks first.
  bool cuts = false;
  for (const Axis &axis : bind(getContextAxes(module))) {
    ModuleSharder overTokens(module, axis, beam);
    if (failed(overTokens.run()))
      return signalPassFailure();
    cuts |= overTokens.cuts();
  }
  if (!cuts)
    module.emitRemark("no tokens of '")
        << module.getSymName() << "' can be cut over "
        << dist::Placement(module).group / ranks
        << " context-parallel ranks (cp): each computes all of it";
}
