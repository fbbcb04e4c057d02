//===- LayerWork.cpp - Layers as they will run, for the planner -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/LayerWork.h"

#include "dialects/dist/SharedExperts.h"
#include "passes/differentiate/Passes.h"
#include "passes/modules/RoundRows.h"
#include "passes/optimize/Passes.h"
#include "passes/outline/Passes.h"
#include "passes/plan/Passes.h"
#include "passes/plan/ShortChains.h"
#include "passes/precision/Passes.h"
#include "passes/schedule/StageWork.h"
#include "passes/shard/Passes.h"
#include "passes/stages/Passes.h"

#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNNames.h"

#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace dt::plan {

using planner::Exchange;
using planner::LayerVariant;
using planner::Linear;
using planner::RankLayer;
using planner::Save;
using schedule::FunctionReader;
using stages::Sizes;

namespace {

/// Layers of the stages that a module is cut into: of a kind up to `chain`
/// first ones that follow one another, those that were seen before go with one
/// another.
std::vector<std::vector<int>> groupLayers(const planner::Module &module,
                                          int chain) {
  std::vector<std::vector<int>> groups;
  std::vector<bool> seen(module.kinds.size(), false);
  bool open = false;
  for (size_t i = 0; i < module.layers.size();) {
    int kind = module.layers[i], count = 0;
    bool isNew = !seen[kind];
    if (isNew || !open)
      groups.emplace_back();
    do {
      groups.back().push_back(int(i++));
      ++count;
    } while (isNew && count < chain && i < module.layers.size() &&
             module.layers[i] == kind);
    open = !isNew;
    seen[kind] = true;
  }
  return groups;
}

/// A stage of `count` equal layers. With sequence parallelism each hands the
/// next its share of the tokens.
class ChainReader {
public:
  ChainReader(dist::ModuleOp stage, size_t count)
      : stage(stage), functions(dist::getFunctions(stage)),
        sizes(stages::getSizesOfItem(stage)), count(double(count)) {}

  /// Nothing, if the layers are no chain of calls, or should hand on shares and
  /// do not.
  std::optional<RankLayer> read(bool shares) {
    Value last = findLastHandedOn(functions.forward);
    if (!last)
      return std::nullopt;
    RankLayer all = schedule::readStage(stage, sizes), layer;
    layer.chained = true;
    FunctionReader(stage, sizes, layer.forward, layer.forwardExchanges)
        .readOneLayer(functions.forward);
    if (shares &&
        llvm::all_of(layer.forwardExchanges, [](const Exchange &exchange) {
          const rt::CollectiveForm &form = rt::formOf(exchange.kind);
          return !form.scatters && !form.gathers;
        }))
      return std::nullopt;
    FunctionReader(stage, sizes, layer.input, layer.backwardExchanges,
                   FunctionReader::Half::Input)
        .readOneLayer(functions.input);
    FunctionReader(stage, sizes, layer.weight, layer.backwardExchanges,
                   FunctionReader::Half::Weight)
        .readOneLayer(functions.weight);
    layer.kept = getResiduals(functions.forward);
    layer.keptToWeights =
        getResiduals(functions.forward, getResidualsReadByWeights());
    layer.keptForWeights = getResiduals(functions.input);
    layer.keptAtStart = all.kept - layer.kept * (count - 1);
    layer.handedOut = all.handedOut * (1 / count);
    layer.scratch =
        schedule::getLayerScratchBytes(stage, sizes) + getStreams(last);
    layer.scratchOfHalves = all.scratchOfHalves;
    layer.parameters = all.parameters / count;
    return layer;
  }

private:
  /// What its last call hands on.
  Value findLastHandedOn(func::FuncOp function) {
    llvm::StringMap<double> calls;
    if (function)
      for (auto call : function.getOps<func::CallOp>())
        if (++calls[call.getCallee()] == count)
          return getHandedOn(call);
    return nullptr;
  }

  /// What a call hands the next one: the result at the place where a call
  /// before or behind it is taken up by one of the same layer.
  static Value getHandedOn(func::CallOp call) {
    auto takesFrom = [&](func::CallOp from) -> std::optional<unsigned> {
      for (OpResult result : from.getResults())
        for (Operation *user : result.getUsers())
          if (auto next = dyn_cast<func::CallOp>(user);
              next && next.getCallee() == from.getCallee())
            return result.getResultNumber();
      return std::nullopt;
    };
    std::optional<unsigned> place = takesFrom(call);
    for (Value operand : call.getOperands()) {
      auto before = operand.getDefiningOp<func::CallOp>();
      if (!place && before && before.getCallee() == call.getCallee())
        place = cast<OpResult>(operand).getResultNumber();
    }
    return call.getResult(place.value_or(0));
  }

  /// Beside a backward between others: gradients of both its ends; and, where a
  /// message is narrower, what came in as the stage's first layer takes it.
  Linear getStreams(Value handedOn) {
    bool narrow = stage.isBF16() && nn::elementOf(handedOn).isF32();
    return sizes.bytesOfItem(handedOn.getType()) * (narrow ? 3 : 2);
  }

  /// Bytes that a layer behind another keeps: what its call returns, and what
  /// it takes from the call before. What is beside the calls is the stage's.
  Linear getResiduals(
      func::FuncOp function,
      std::optional<llvm::SmallDenseSet<int64_t>> only = std::nullopt) {
    if (!function || function.isExternal())
      return {};
    Linear own, handedOn;
    int64_t number = 0;
    Operation *end = function.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(end->getOperands())) {
      if (!function.getResultAttr(i, nn::kResidualAttr) ||
          (only && !only->contains(number++)))
        continue;
      if (auto call = value.getDefiningOp<func::CallOp>())
        (getHandedOn(call) == value ? handedOn : own) +=
            sizes.bytesOfItem(value.getType());
    }
    return own * (1 / count) + handedOn * (1 / (count - 1));
  }

  /// Numbers of the forward's residuals, among others.
  llvm::SmallDenseSet<int64_t> getResidualsReadByWeights() {
    llvm::SmallDenseSet<int64_t> numbers;
    func::FuncOp function = functions.weight;
    for (unsigned i = 0; function && i < function.getNumArguments(); ++i)
      if (auto number =
              function.getArgAttrOfType<IntegerAttr>(i, nn::kResidualAttr))
        numbers.insert(number.getInt());
    return numbers;
  }

  dist::ModuleOp stage;
  dist::Functions functions;
  Sizes sizes;
  double count;
};

/// Phases from stages to optimize.
void buildLayerWork(OpPassManager &pm) {
  stages::buildStagesPipeline(pm);
  differentiate::buildDifferentiatePipeline(pm);
  shard::buildShardPipeline(pm);
  optimize::buildOptimizePipeline(pm);
}

/// So many replicas at most gather their tokens to share out experts: each has
/// room for the rows of all of them.
constexpr int64_t kMostGathered = 8;

/// Ranks that share out experts, at most; with a capacity rows travel, and room
/// is bounded.
int64_t getMostExpertRanks(mlir::ModuleOp program, int tp, int64_t ranks) {
  bool isLimited =
      program.walk([](nn::LimitChoicesOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  return isLimited ? ranks : std::min(ranks, kMostGathered * tp);
}

/// Whether a module's layers differ with a layout's `ep`.
bool canShareExperts(const planner::Module &module,
                     const LayerVariant &layout) {
  int experts = module.getExperts();
  return layout.ep > 1 && layout.tp <= module.maxTP && experts > 0 &&
         experts % layout.ep == 0;
}

/// More ranks than a TP group share out experts over replicas, each with an
/// item. (Over ranks of `cp` these have blocks of tokens, and the keys and
/// values that travel besides are priced by rule.)
void shareOut(dist::ModuleOp module, const LayerVariant &layout) {
  module.setEp(layout.ep);
  int64_t joined = dist::countJoined(layout.ep, layout.tp, 1);
  if (joined == 1)
    return;
  module.setJoined(joined);
  for (auto dim : module.getOps<nn::DimOp>())
    if (dim.getItem())
      dim.setBound(*dim.getBound() * joined);
  (void)modules::roundRows(module, [](nn::DimOp) { return success(); });
}

/// Marks every module: its stages are its kinds of layers, its halves of
/// backward apart, `tp` ranks, a saved set.
void markLayers(mlir::ModuleOp outlined, const PlannedProgram &program,
                const LayerVariant &layout, int chain) {
  Builder b(outlined.getContext());
  for (auto [m, module] : llvm::enumerate(program.model.modules)) {
    auto op = outlined.lookupSymbol<dist::ModuleOp>(module.name);
    int64_t own = std::min<int64_t>(layout.tp, module.maxTP);
    SmallVector<Attribute> stages;
    for (const std::vector<int> &group : groupLayers(module, chain)) {
      SmallVector<StringRef> names;
      for (int layer : group)
        llvm::append_range(names, program.pieces[m][layer]);
      stages.push_back(b.getStrArrayAttr(names));
    }
    if (!llvm::is_contained(program.pieces[m], std::vector<std::string>()))
      op.setStagesAttr(b.getArrayAttr(stages));
    op.setUnit(module.name);
    op.setTp(own);
    if (canShareExperts(module, layout)) {
      shareOut(op, layout);
      own *= op.getJoined();
    }
    op.setRanks(llvm::to_vector(llvm::seq(own)));
    op.setSplitBackward(true);
    // So that what would be done in strips is marked.
    op.setOverlap(2);
    op.setSequenceParallel(layout.sequenceParallel);
    op.setSave(layout.save);
  }
}

/// As often as much of all that grows with a part.
void multiply(RankLayer &layer, double factor) {
  auto all = [&](auto... values) { ((*values = *values * factor), ...); };
  auto ops = [&](std::vector<planner::Op> &list) {
    for (planner::Op &op : list)
      all(&op.rows, &op.flops, &op.bytes);
  };
  for (auto *list : {&layer.forward, &layer.input, &layer.weight})
    ops(*list);
  for (auto *list : {&layer.forwardExchanges, &layer.backwardExchanges})
    for (Exchange &exchange : *list) {
      all(&exchange.bytes, &exchange.rows);
      ops(exchange.beside);
    }
  for (auto [key, bytes] : planner::kRankLayer)
    all(&(layer.*bytes));
}

/// What became of the marked modules. Layers that sequence parallelism makes no
/// difference to stand beside others as they are; where it makes none to any
/// there is nothing to describe. Whether all that can be described is.
bool readLayers(mlir::ModuleOp optimized, PlannedProgram &program,
                const LayerVariant &layout, int chain) {
  bool all = true;
  for (planner::Module &module : program.model.modules) {
    if (layout.tp > module.maxTP || module.partitioned.count(layout) ||
        (layout.ep > 1 && !canShareExperts(module, layout)))
      continue;
    std::vector<std::vector<int>> groups = groupLayers(module, chain);
    std::vector<RankLayer> layers(module.kinds.size());
    std::vector<bool> seen(module.kinds.size(), false);
    bool any = !layout.sequenceParallel;
    for (auto stage : optimized.getOps<dist::ModuleOp>()) {
      dist::Placement place(stage);
      if (place.unit != module.name || place.stage >= int64_t(groups.size()))
        continue;
      const std::vector<int> &group = groups[place.stage];
      int kind = module.layers[group.front()];
      if (seen[kind])
        continue;
      std::optional<RankLayer> chained;
      if (group.size() > 1)
        chained =
            ChainReader(stage, group.size()).read(layout.sequenceParallel);
      any |= chained.has_value();
      // A chain that is none was described alone.
      auto alone =
          module.partitioned.find({layout.tp, layout.save, false, layout.ep});
      if (chained)
        layers[kind] = std::move(*chained);
      else if (group.size() == 1)
        layers[kind] =
            schedule::readStage(stage, stages::getSizesOfItem(stage));
      // Of a part of one replica, not of all that are joined.
      if (chained || group.size() == 1)
        multiply(layers[kind], double(stage.getJoined()));
      else if (alone != module.partitioned.end())
        layers[kind] = alone->second[kind];
      else
        continue;
      seen[kind] = true;
    }
    bool known = any && llvm::all_of(seen, [](bool s) { return s; });
    if (known)
      module.partitioned[layout] = std::move(layers);
    all &= known;
  }
  return all;
}

/// Adds a layout of all modules' layers. Where equal layers are no chain of
/// calls, each is described alone.
void describeLayout(mlir::ModuleOp outlined, PlannedProgram &program,
                    const LayerVariant &layout) {
  for (int chain : {kDescribedChain, 1}) {
    OwningOpRef<mlir::ModuleOp> copy = outlined.clone();
    markLayers(*copy, program, layout, chain);
    OpPassManager pm(mlir::ModuleOp::getOperationName());
    buildLayerWork(pm);
    if (failed(runUnverified(pm, *copy)) ||
        readLayers(*copy, program, layout, chain) || layout.sequenceParallel)
      return;
  }
}

/// Where a plan chooses the size of microbatches, layers are cut over ranks as
/// for the smallest parts: in one of a whole batch messages would weigh more
/// than any table.
void takeSmallestParts(mlir::ModuleOp program) {
  auto batch = dist::getOnly<dist::BatchOp>(program);
  if (batch && batch.getOpenMicro())
    for (auto module : program.getOps<dist::ModuleOp>())
      if (!module.getWholeBatch())
        setOneItem(module);
}

bool hasChains(const PlannedProgram &program) {
  return llvm::any_of(program.model.modules, [](const planner::Module &module) {
    return std::adjacent_find(module.layers.begin(), module.layers.end()) !=
           module.layers.end();
  });
}

/// Whether layers in the layout may differ from those in a simpler one.
bool isDescribed(const PlannedProgram &program, const LayerVariant &layout) {
  bool shares =
      llvm::any_of(program.model.modules, [&](const planner::Module &module) {
        return canShareExperts(module, layout);
      });
  return (layout.ep == 1 || shares) &&
         (!layout.sequenceParallel || (layout.tp > 1 && hasChains(program)));
}

/// Those that are described, without sequence parallelism.
std::vector<LayerVariant> listLayouts(mlir::ModuleOp outlined,
                                      const PlannedProgram &program,
                                      int64_t mostTP, int64_t mostRanks) {
  int64_t most = 1;
  for (const planner::Module &module : program.model.modules)
    most = std::max<int64_t>(most, module.maxTP);
  std::vector<LayerVariant> layouts;
  for (int tp = 1; tp <= std::min(most, mostTP); tp *= 2)
    for (int64_t ep = 1; ep <= getMostExpertRanks(outlined, tp, mostRanks);
         ep *= 2)
      for (Save save : {Save::None, Save::Vjp, Save::All}) {
        LayerVariant layout{tp, save, /*sequenceParallel=*/false, int(ep)};
        if (isDescribed(program, layout))
          layouts.push_back(layout);
      }
  return layouts;
}

} // namespace

mlir::ModuleOp copyProgram(mlir::ModuleOp program, mlir::ModuleOp inside) {
  OpBuilder builder = OpBuilder::atBlockEnd(inside.getBody());
  auto copy = mlir::ModuleOp::create(builder, program.getLoc());
  builder.setInsertionPointToEnd(copy.getBody());
  for (Operation &op : *program.getBody())
    if (!isa<mlir::ModuleOp>(op))
      builder.clone(op);
  return copy;
}

LogicalResult runUnverified(OpPassManager &pm, mlir::ModuleOp copy) {
  PassManager own(copy.getContext());
  static_cast<OpPassManager &>(own) = pm;
  own.enableVerifier(false);
  return own.run(copy);
}

llvm::Expected<PlannedProgram>
describePartitioned(mlir::ModuleOp program, int64_t mostTP, int64_t mostRanks) {
  mlir::ModuleOp outlined = copyProgram(program, program);
  llvm::scope_exit erase([&] { outlined.erase(); });
  OpPassManager pm(mlir::ModuleOp::getOperationName());
  precision::buildPrecisionPipeline(pm);
  outline::buildOutlinePipeline(pm);
  if (failed(runUnverified(pm, outlined)))
    return llvm::createStringError(
        "dist-plan: layers of the program cannot be found");
  auto describe = [&] {
    OwningOpRef<mlir::ModuleOp> copy = outlined.clone();
    return describeProgram(*copy);
  };
  llvm::Expected<PlannedProgram> result = describe();
  if (!result)
    return result;
  // Layers are read off a program of fewer of them.
  shortenChains(outlined);
  takeSmallestParts(outlined);
  llvm::Expected<PlannedProgram> brief = describe();
  if (!brief)
    return brief;
  QuietCopies quiet(program.getContext());
  std::vector<LayerVariant> layouts =
      listLayouts(outlined, *brief, mostTP, mostRanks);
  std::vector<PlannedProgram> described(layouts.size(), *brief);
  parallelFor(program.getContext(), 0, layouts.size(), [&](size_t i) {
    for (bool sequenceParallel : {false, true}) {
      layouts[i].sequenceParallel = sequenceParallel;
      if (isDescribed(*brief, layouts[i]))
        describeLayout(outlined, described[i], layouts[i]);
    }
  });
  for (PlannedProgram &few : described)
    for (auto [module, own] :
         llvm::zip_equal(result->model.modules, few.model.modules))
      module.partitioned.merge(own.partitioned);
  return result;
}

} // namespace dt::plan
