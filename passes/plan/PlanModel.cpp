//===- PlanModel.cpp - A program as the planner sees it ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/PlanModel.h"

#include "passes/modules/CheckPadding.h"
#include "passes/modules/ItemAxes.h"
#include "passes/planner/search/Formulation.h"
#include "passes/shard/Ring.h"
#include "passes/stages/LayerRules.h"
#include "passes/stages/StageCuts.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;

namespace dt::plan {

using planner::LayerKind;
using planner::perItem;

namespace {

/// Heads and widths of more than this are not cut finer.
constexpr int kMostTP = 64;
/// No item is larger to the planner (Data.h).
constexpr int64_t kMostTokens = 1 << 24;
/// Of a moment, a master.
constexpr double kFloatBytes = 4;

/// Mean bytes a parameter: some are trained, of these some have a master beside
/// what functions read.
class MeanBytes {
public:
  void add(nn::ParameterOp parameter) {
    auto program = parameter->getParentOfType<mlir::ModuleOp>();
    RankedTensorType type = parameter.getStoredType();
    double count = double(type.getNumElements());
    bool trains = parameter.getTrainable();
    all += count;
    sum.weight += count * double(nn::getElementBytes(type.getElementType()));
    if (trains)
      sum.gradient +=
          count * double(nn::getElementBytes(
                      parameter.getGradientType().getElementType()));
    sum.optimizer +=
        kFloatBytes * (dist::getStateFloats(program, parameter) +
                       (trains && parameter.getWorking() ? count : 0));
  }
  planner::ParameterBytes get() const {
    return all > 0
               ? planner::ParameterBytes{sum.weight / all, sum.gradient / all,
                                         sum.optimizer / all}
               : planner::ParameterBytes{kFloatBytes, 0, 0};
  }

private:
  double all = 0;
  planner::ParameterBytes sum = {0, 0, 0};
};

void addState(dist::ModuleOp module, planner::Module &result) {
  MeanBytes mean;
  for (auto parameter : module.getOps<nn::ParameterOp>())
    mean.add(parameter);
  result.bytes = mean.get();
  result.trainable = result.bytes.gradient > 0;
  auto shorten = [&](std::optional<planner::ParameterBytes> &bytes) {
    if (bytes == result.bytes)
      bytes.reset();
  };
  for (LayerKind &kind : result.kinds)
    shorten(kind.bytes);
  for (planner::Tie &tie : result.ties)
    shorten(tie.bytes);
}

/// One module: its pieces become layers; where a stage must not begin, the
/// piece belongs to the layer before.
class ModuleBuilder {
public:
  ModuleBuilder(dist::ModuleOp module)
      : module(module), cuts(module, 2), sizes(stages::getSizesOfItem(module)) {
  }

  planner::Module build(std::vector<std::vector<std::string>> &names) {
    result.name = module.getSymName().str();
    stages::KindMeasures measures = stages::getMeasures(module);
    if (measures.tokens)
      result.mostTokens = double(measures.tokens.getMax());
    if (measures.other)
      result.mostOther = double(measures.other.getMax());
    auto precision = module.getPrecision();
    result.precision =
        precision ? dist::stringifyPrecision(*precision).str() : "f32";
    llvm::ArrayRef<stages::StageCuts::Piece> pieces = cuts.getPieces();
    for (size_t i = 0, end; i < pieces.size(); i = end) {
      end = i + 1;
      while (end < pieces.size() && !pieces[end].mayBegin)
        ++end;
      addLayer(pieces.slice(i, end - i),
               end < pieces.size() ? pieces[end].bytes : 0);
      names.emplace_back();
      for (size_t p = i; p < end; ++p)
        names.back().push_back(pieces[p].name);
    }
    if (pieces.empty()) { // hands on parameters, or less: no work, but a place
      names.emplace_back();
      result.layers = {0};
      result.kinds.emplace_back();
      result.kinds[0].name = "empty";
    }
    // Where layers differ in heads, those of some are cut and others' are not.
    int64_t divisor = heads && heads == mostHeads ? heads : widths;
    result.maxTP = 1;
    while (result.maxTP < kMostTP && divisor > 0 &&
           divisor % (2 * result.maxTP) == 0)
      result.maxTP *= 2;
    for (auto &[parameter, tie] : readers)
      if (tie.layers.size() > 1)
        result.ties.push_back(tie);
    addState(module, result);
    return std::move(result);
  }

private:
  void addLayer(llvm::ArrayRef<stages::StageCuts::Piece> pieces, double output);

  /// What the largest item has at a cut: rows of it, of which all are alike.
  planner::Linear ofItem(double bytes) const {
    if (result.mostTokens > 0)
      return {0, bytes / result.mostTokens};
    return result.mostOther > 0
               ? planner::Linear{0, 0, 0, bytes / result.mostOther}
               : perItem(bytes);
  }

  dist::ModuleOp module;
  stages::StageCuts cuts;
  stages::Sizes sizes;
  planner::Module result;
  llvm::MapVector<Attribute, planner::Tie> readers; ///< of parameters
  std::vector<std::string> stems; ///< of kinds' names: without numbers
  int64_t heads = 0, mostHeads = 0, widths = 0;
};

void ModuleBuilder::addLayer(llvm::ArrayRef<stages::StageCuts::Piece> pieces,
                             double output) {
  stages::LayerBuilder builder(module, sizes);
  for (size_t i = pieces.front().begin; i < pieces.back().end; ++i)
    builder.add(cuts.getPlaced()[i]);
  LayerKind kind = builder.finish(ofItem(pieces.front().bytes), ofItem(output));
  MeanBytes mean;
  for (auto [parameter, count] : builder.getParameters()) {
    auto op = module.lookupSymbol<nn::ParameterOp>(
        cast<FlatSymbolRefAttr>(parameter).getAttr());
    mean.add(op);
    planner::Tie &tie = readers[parameter];
    tie.layers.push_back(int(result.layers.size()));
    tie.parameters = count;
    MeanBytes own;
    own.add(op);
    tie.bytes = own.get();
  }
  if (!builder.getParameters().empty())
    kind.bytes = mean.get();
  heads = std::gcd(heads, builder.getHeads());
  mostHeads = std::max(mostHeads, builder.getHeads());
  widths = std::gcd(widths, builder.getWidths());
  // "h.3" is one of the kind "h".
  llvm::StringRef first = pieces.front().name;
  kind.name = pieces.size() == 1 && first.contains('.')
                  ? first.rsplit('.').first.str()
                  : first.str();
  size_t known = 0;
  auto isAlike = [&](const LayerKind &other) {
    return stems[known] == kind.name && other.parameters == kind.parameters &&
           other.bytes == kind.bytes &&
           other.forward.size() == kind.forward.size() &&
           other.output == kind.output;
  };
  while (known < result.kinds.size() && !isAlike(result.kinds[known]))
    ++known;
  result.layers.push_back(int(known));
  if (known < result.kinds.size())
    return;
  // The last layer of a stack hands on less: a kind of its own, by number.
  bool isFirst = !llvm::is_contained(stems, kind.name);
  stems.push_back(kind.name);
  if (!isFirst)
    kind.name = first.str();
  result.kinds.push_back(std::move(kind));
}

llvm::Error fail(dist::ModuleOp module, const Twine &what) {
  return llvm::createStringError("module '" + module.getSymName() +
                                 "': " + what);
}

} // namespace

void setOneItem(dist::ModuleOp module) {
  auto program = module->getParentOfType<mlir::ModuleOp>();
  StringRef own = module.getItem().value_or("");
  for (auto dim : module.getOps<nn::DimOp>())
    if (dim.getItem())
      dim.setBound(*dim.getItem() == own || own != dist::kSample
                       ? dim.getLargest().value_or(1)
                       : dist::getMostOfSample(program, dim).value_or(1));
}

namespace {

class ProgramBuilder {
public:
  explicit ProgramBuilder(mlir::ModuleOp program) : program(program) {}

  llvm::Expected<PlannedProgram> build() {
    cutBatch();
    for (auto item : program.getOps<dist::ItemOp>())
      result.kinds.push_back(boundsOf(item.getName(), item.getMax()));
    llvm::sort(result.kinds, [](const ItemBound &a, const ItemBound &b) {
      return a.name < b.name;
    });
    result.model.items.clear();
    for (const ItemBound &kind : result.kinds)
      result.model.items.push_back(kind.name);
    result.sample = boundsOf(dist::kSample, 1);
    for (auto module : program.getOps<dist::ModuleOp>())
      if (llvm::Error error = add(module))
        return std::move(error);
    for (auto edge : program.getOps<dist::EdgeOp>())
      addEdge(edge);
    planner::spreadGradients(result.model);
    if (llvm::Error error = result.model.check())
      return std::move(error);
    return std::move(result);
  }

private:
  ItemBound boundsOf(StringRef kind, int64_t most) {
    stages::KindMeasures measures = stages::getMeasures(program, kind);
    ItemBound bound{kind.str(), most, {1, 0}, {}};
    auto read = [&](dist::MeasureOp measure, int32_t &size) {
      if (!measure)
        return;
      size = int32_t(std::min<int64_t>(measure.getMax(), kMostTokens));
      bound.measures.push_back(measure.getName().str());
    };
    read(measures.tokens, bound.largest.tokens);
    read(measures.other, bound.largest.other);
    return bound;
  }
  planner::ItemKind kindOf(StringRef name) const {
    auto kind = llvm::find_if(result.kinds, [&](const ItemBound &known) {
      return known.name == name;
    });
    return name == dist::kSample
               ? planner::ItemKind::Sample
               : planner::ItemKind(1 + (kind - result.kinds.begin()));
  }
  void addBounds(dist::ModuleOp module, planner::Module &entry);

  void cutBatch();
  llvm::Error add(dist::ModuleOp module);
  void addEdge(dist::EdgeOp edge);

  mlir::ModuleOp program;
  PlannedProgram result;
  llvm::StringMap<int> numbers;
  int paceRank = -1;
};

/// What the recipe leaves open may be every size that divides the batch.
void ProgramBuilder::cutBatch() {
  auto batch = dist::getOnly<dist::BatchOp>(program);
  result.global = batch ? batch.getGlobal() : 1;
  if (batch && batch.getParts()) {
    result.parts = *batch.getParts();
    result.partTokens = *batch.getTokens();
  }
  if (batch && batch.getOpenMicro())
    for (int64_t number :
         planner::divisors(result.parts ? result.parts : result.global))
      result.microbatches[number] = result.global / number;
  else
    result.microbatches[dist::getNumMicrobatches(program)] =
        batch ? batch.getMicro() : 1;
}

/// Of measures that the recipe bounds in a part (docs/sizes.md), those that a
/// module adds up of its own items; if these are samples, also of what they
/// hold.
void ProgramBuilder::addBounds(dist::ModuleOp module, planner::Module &entry) {
  StringRef own = module.getItem().value_or("");
  for (auto measure : program.getOps<dist::MeasureOp>()) {
    StringRef kind = measure.getKind();
    bool isAdded = llvm::any_of(module.getOps<nn::DimOp>(), [&](nn::DimOp dim) {
      return dim.getItem() == kind && dim.getMeasure() == measure.getName();
    });
    stages::KindMeasures known = stages::getMeasures(program, kind);
    bool isOther = measure == known.other;
    if (!measure.getPart() || !isAdded ||
        (kind != own && own != dist::kSample) ||
        (measure != known.tokens && !isOther))
      continue;
    entry.bounds.push_back({kindOf(kind), isOther, double(*measure.getPart()),
                            (kind + "." + measure.getName()).str()});
  }
}

/// What `PlannedProgram::tokens` has.
static int64_t divideTokens(dist::ModuleOp module) {
  std::optional<int64_t> common;
  llvm::StringMap<bool> rounded; // dims whose rows a plan may round up
  auto canRound = [&](const nn::DimExpr &rows) {
    auto symbols = rows.symbols();
    auto dim = rows.terms().size() == 1 && symbols.size() == 1
                   ? module.lookupSymbol<nn::DimOp>(symbols[0])
                   : nn::DimOp();
    if (!dim || !dim.getMeasure())
      return false;
    auto [known, fresh] = rounded.try_emplace(symbols[0]);
    if (fresh)
      known->second = !modules::findPaddingTrouble(module, dim);
    return known->second;
  };
  module.walk([&](nn::AttentionOp op) {
    nn::DimExpr rows = nn::getShape(op.getQuery())[1];
    int64_t number = rows.asConstant().value_or(canRound(rows) ? 0 : 1);
    common = std::gcd(common.value_or(0), number);
  });
  return common.value_or(1);
}

/// Of attention in all of the module's functions.
static planner::KeyHeads readKeys(dist::ModuleOp module) {
  planner::KeyHeads keys;
  bool any = false;
  keys.ring = true;
  module.walk([&](nn::AttentionOp op) {
    auto query = nn::getShape(op.getQuery())[2].asConstant(),
         key = nn::getShape(op.getKey())[2].asConstant();
    keys.ring &= shard::mayGoRound(op);
    if (!query || !key || *key < 1)
      return;
    keys.count = int(std::gcd<int64_t>(keys.count, *key));
    keys.shared =
        std::max(any ? keys.shared : 1, double(*query) / double(*key));
    any = true;
  });
  return any ? keys : planner::KeyHeads();
}

llvm::Error ProgramBuilder::add(dist::ModuleOp module) {
  if (module.getWholeBatch()) {
    result.needsBatchSync = true;
    return llvm::Error::success();
  }
  func::FuncOp forward = module.getForward();
  if (!forward || !forward.getBody().hasOneBlock())
    return fail(module, "there is no function @forward to plan");
  setOneItem(module);
  std::vector<std::vector<std::string>> names;
  planner::Module entry = ModuleBuilder(module).build(names);
  entry.keys = readKeys(module);
  auto item = module.getItem();
  int64_t most = item ? dist::getItemMax(program, *item).value_or(1) : 0;
  if (item)
    entry.item = kindOf(*item);
  addBounds(module, entry);
  // Where statistics are a part's, the loss would depend on the plan.
  result.items.push_back(modules::findLocalStatistics(module) ? 0 : most);
  result.tokens.push_back(divideTokens(module));
  if (int rank = getPaceRank(module); rank > paceRank) {
    paceRank = rank;
    result.model.pace = int(result.model.modules.size());
  }
  numbers[module.getSymName()] = int(result.model.modules.size());
  result.model.modules.push_back(std::move(entry));
  result.pieces.push_back(std::move(names));
  return llvm::Error::success();
}

void ProgramBuilder::addEdge(dist::EdgeOp edge) {
  auto from = numbers.find(edge.getSource()),
       to = numbers.find(edge.getTarget());
  if (from == numbers.end())
    return;
  auto source = program.lookupSymbol<dist::ModuleOp>(edge.getSource()),
       target = program.lookupSymbol<dist::ModuleOp>(edge.getTarget());
  stages::Sizes sizes = stages::getSizesOfItem(source);
  func::FuncOp forward = source.getForward();
  planner::Linear bytes;
  double elementBytes = kFloatBytes;
  if (auto i = dist::ModuleOp::findResult(forward, edge.getOutput())) {
    Type type = forward.getResultTypes()[*i];
    if (isa<RankedTensorType>(type))
      bytes = perItem(sizes.ofNothing(nn::getNumBytes(type))) +
              sizes.bytesOfItem(type);
    elementBytes = double(nn::getElementBytes(getElementTypeOrSelf(type)));
  }
  if (to == numbers.end()) { // the whole batch's
    planner::Contrast &contrast = result.model.contrast;
    if (!llvm::is_contained(contrast.towers, from->second))
      contrast.towers.push_back(from->second);
    contrast.width =
        std::max({1.0, contrast.width, sizes.atMost(bytes) / elementBytes});
    return;
  }
  result.model.edges.push_back({from->second, to->second, bytes});
  result.edges.push_back((edge.getTarget() + "." + edge.getInput()).str());
  // What does not count items on its first axis cannot be cut over replicas.
  func::FuncOp into = target.getForward();
  auto argument = dist::ModuleOp::findArgument(into, edge.getInput());
  if (!argument ||
      !stages::countsItems(target, into.getArgumentTypes()[*argument]))
    result.items[from->second] = result.items[to->second] = 0;
}

} // namespace

llvm::Expected<PlannedProgram> describeProgram(mlir::ModuleOp program) {
  return ProgramBuilder(program).build();
}

int getPaceRank(dist::ModuleOp module) {
  bool samples = module.getItem().value_or("") == dist::kSample;
  return samples ? (module.getRole() == dist::Role::backbone ? 2 : 1) : 0;
}

} // namespace dt::plan
