//===- StageCuts.cpp - Where a module is cut into stages --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/stages/StageCuts.h"

#include "dialects/nn/NNInference.h"
#include "passes/modules/ItemAxes.h"
#include "passes/planner/describe/Plan.h"
#include "passes/stages/LayerRules.h"
#include "passes/stages/PlanCluster.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <numeric>

using namespace mlir;

namespace dt::stages {

namespace {

/// What a value comes from.
enum Origin : unsigned { kRaw = 1, kEdge = 2, kParameter = 4 };

/// Gradients go back as activations came.
constexpr double kMessageFactor = 2;

nn::Work::Kind workOf(Operation *op) {
  auto model = dyn_cast<nn::CostOpInterface>(op);
  return model ? model.getWork().kind : nn::Work::Stream;
}
bool isView(Operation *op) { return workOf(op) <= nn::Work::View; }

/// Seconds of a part at its bounds in each of the ops, forward and backward, by
/// the planner's rules for layers.
std::vector<double> priceOps(dist::ModuleOp module, ArrayRef<Operation *> ops,
                             const planner::Cluster &cluster) {
  Sizes sizes(module);
  planner::Module priced;
  priced.precision = getPrecisionName(module);
  priced.inputGradient = true;
  priced.trainable =
      llvm::any_of(module.getOps<nn::ParameterOp>(),
                   [](nn::ParameterOp p) { return p.getTrainable(); });
  llvm::StringMap<int> called; // equal layers are priced once
  for (Operation *op : ops) {
    auto call = dyn_cast<func::CallOp>(op);
    int next = int(priced.kinds.size());
    int kind =
        call ? called.try_emplace(call.getCallee(), next).first->second : next;
    priced.layers.push_back(kind);
    if (kind < next)
      continue;
    LayerBuilder builder(module, sizes);
    builder.add(op);
    priced.kinds.push_back(builder.finish({}, {}));
  }
  planner::CostOptions options;
  options.tp = int(module.getTp());
  options.cp = int(module.getCp());
  options.save = module.getSave().value_or(rt::Save::Vjp);
  options.sequenceParallel = module.getSequenceParallel();
  planner::ModuleCost cost(cluster, 0, priced);
  std::vector<double> seconds;
  for (int kind : priced.layers)
    seconds.push_back(
        cost.layer(kind, options, planner::TokenSums::of(0)).total());
  return seconds;
}

} // namespace

bool countsItems(dist::ModuleOp module, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  nn::Shape shape = tensor ? nn::getShape(tensor) : nn::Shape();
  auto axis = size_t(dist::getRowAxis(shape));
  auto first = axis == shape.size() ? std::nullopt : shape[axis].asAffine();
  if (!first || first->symbol.empty() || first->offset != 0)
    return false;
  auto symbol = module.lookupSymbol<nn::DimOp>(first->symbol);
  return symbol && symbol.getItem();
}

StageCuts::StageCuts(dist::ModuleOp module, int64_t parts)
    : module(module), forward(module.getForward()), parts(parts),
      costs(module) {
  classify();
  namePieces();
  findCrossing();
  for (auto [i, piece] : llvm::enumerate(pieces)) {
    piece.end = i + 1 < pieces.size() ? pieces[i + 1].begin : placed.size();
    piece.mayBegin = i == 0 || legal[piece.begin];
    piece.bytes = bytes[piece.begin];
  }
}

void StageCuts::classify() {
  llvm::StringSet<> fed;
  auto program = module->getParentOfType<mlir::ModuleOp>();
  for (auto edge : program.getOps<dist::EdgeOp>())
    if (edge.getTarget() == module.getSymName())
      fed.insert(edge.getInput());
  llvm::DenseMap<Value, unsigned> origins;
  for (BlockArgument argument : forward.getArguments())
    origins[argument] = fed.contains(dist::ModuleOp::getArgumentName(
                            forward, argument.getArgNumber()))
                            ? kEdge
                            : kRaw;
  for (Operation &op : forward.getBody().front().without_terminator()) {
    unsigned origin = isa<nn::ReadOp>(op) ? unsigned(kParameter) : 0u;
    bool free = isa<nn::ReadOp>(op) || isMemoryEffectFree(&op);
    SetVector<Value> used(op.operand_begin(), op.operand_end());
    getUsedValuesDefinedAbove(op.getRegions(), used);
    for (Value operand : used) {
      origin |= origins.lookup(operand);
      free &= isFree(operand);
    }
    for (Value result : op.getResults())
      origins[result] = origin;
    bool dependsOnItems = origin & (kRaw | kEdge);
    // Products would be expensive to do again.
    bool cheap = !isa<func::CallOp>(op) && workOf(&op) < nn::Work::Product;
    bool again = !dependsOnItems || (origin == kRaw && cheap) ||
                 (!(origin & kParameter) && isView(&op));
    // A call has no effect of its own that would be seen.
    free |= isa<func::CallOp>(op) && !dependsOnItems;
    if (free && again && !ordersExperts(&op))
      continue;
    indexOf[&op] = placed.size();
    placed.push_back(&op);
  }
}

int64_t StageCuts::getStage(Operation *op) const {
  auto index = indexOf.find(op);
  if (index == indexOf.end())
    return -1;
  return std::upper_bound(cuts.begin(), cuts.end() - 1, index->second) -
         cuts.begin() - 1;
}

bool StageCuts::isFree(Value value) const {
  Operation *op = value.getDefiningOp();
  return !op || !indexOf.contains(op);
}

double StageCuts::getFlops(int64_t stage) {
  double flops = 0;
  for (size_t i = cuts[stage]; i < cuts[stage + 1]; ++i)
    flops += costs.flopsOf(placed[i]);
  return flops;
}

void StageCuts::namePieces() {
  llvm::StringMap<int64_t> count;
  size_t last = 0;
  for (auto [i, op] : llvm::enumerate(placed)) {
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      continue;
    if (pieces.empty() && i > 0)
      pieces.push_back({"embed", 0});
    pieces.push_back(
        {(call.getCallee() + "." + Twine(count[call.getCallee()]++)).str(), i});
    last = i;
  }
  if (pieces.empty() && !placed.empty())
    pieces.push_back({"embed", 0});
  else if (last + 1 < placed.size())
    pieces.push_back({"head", last + 1});
}

bool StageCuts::mayCross(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return false;
  return llvm::all_of(nn::getShape(type),
                      [](const nn::DimExpr &dim) { return dim.asAffine(); }) &&
         (parts == 1 || countsItems(module, type));
}

bool StageCuts::ordersExperts(Operation *op) const {
  return dist::ModuleOp(module).getEp() > 1 && isa<nn::RouteOp>(op);
}

Type StageCuts::getSentType(Value value) const {
  dist::ModuleOp owner = module;
  Operation *end = func::FuncOp(forward).getBody().front().getTerminator();
  bool narrow = owner.isBF16() && nn::elementOf(value).isF32() &&
                !llvm::is_contained(end->getOperands(), value);
  return narrow ? nn::withElementType(value.getType(),
                                      BFloat16Type::get(value.getContext()))
                : value.getType();
}

void StageCuts::findCrossing() {
  size_t n = placed.size();
  crossing.assign(n + 1, {});
  legal.assign(n + 1, true);
  bytes.assign(n + 1, 0);
  std::optional<modules::ItemAnalysis> items;
  if (parts > 1)
    items.emplace(module, modules::takesLocalStatistics(
                              module->getParentOfType<mlir::ModuleOp>()));
  for (auto [i, op] : llvm::enumerate(placed)) {
    for (Value value : op->getResults()) {
      size_t last = i;
      for (Operation *user : value.getUsers()) {
        // A use inside a region is one of the op that has it.
        Operation *at = forward.getBody().front().findAncestorOpInBlock(*user);
        auto index = indexOf.find(at);
        if (index != indexOf.end())
          last = std::max(last, index->second);
      }
      if (last == i)
        continue;
      bool may = mayCross(value) && !ordersExperts(op);
      if (may && items) {
        const modules::ItemState &state = items->get(value);
        int64_t rows = dist::getRowAxis(nn::getShape(value));
        may = state.is(modules::ItemState::PerItem) && state.axis == rows &&
              state.major == nn::DimExpr(1);
      }
      double size = costs.bytesOf(getSentType(value));
      for (size_t c = i + 1; c <= last; ++c) {
        crossing[c].push_back(value);
        bytes[c] += size;
        legal[c] = legal[c] && may;
      }
    }
  }
}

LogicalResult StageCuts::balance(const planner::Cluster &cluster, int64_t pp,
                                 int64_t vpp, bool goesBack) {
  int64_t stages = pp * vpp;
  std::vector<size_t> points = {0};
  for (size_t c = 1; c < placed.size(); ++c)
    if (legal[c])
      points.push_back(c);
  points.push_back(placed.size());
  size_t count = points.size();
  if (placed.empty() || int64_t(count) - 1 < stages)
    return module.emitError()
           << "units." << module.getSymName() << ": " << stages
           << " stages need " << stages - 1
           << " places to cut at; the module has "
           << (placed.empty() ? 0 : count - 2)
           << (parts > 1 ? " where all that crosses counts items on its "
                           "first axis"
                         : "")
           << (module.getEp() > 1 ? " outside of layers of experts (ep)" : "");
  std::vector<double> seconds = priceOps(module, placed, cluster), work,
                      messages;
  dist::Placement place(module);
  bool inNode = place.dp * place.group < cluster.nodes[0].devices;
  planner::Link link = cluster.pointToPoint(0, 0, inNode);
  for (size_t i = 0; i + 1 < count; ++i) {
    work.push_back(std::accumulate(seconds.begin() + points[i],
                                   seconds.begin() + points[i + 1], 0.0));
    messages.push_back(kMessageFactor * link.time(bytes[points[i]]));
  }
  cuts.clear();
  for (int i :
       planner::balancedRounds(work, int(pp), int(vpp), goesBack, messages))
    cuts.push_back(points[i]);
  return success();
}

/// Indices of the pieces that a name or a range ("layers.0-2") means.
LogicalResult StageCuts::parsePieces(StringRef text,
                                     std::vector<size_t> &result) {
  auto find = [&](StringRef name) {
    auto it = llvm::find_if(pieces, [&](auto &p) { return p.name == name; });
    return it == pieces.end() ? pieces.size() : size_t(it - pieces.begin());
  };
  auto [firstName, lastNumber] = text.split('-');
  size_t first = find(firstName), last = first;
  if (!lastNumber.empty())
    last = find((firstName.rsplit('.').first + "." + lastNumber).str());
  if (first >= pieces.size() || last >= pieces.size() || last < first)
    return failure();
  for (size_t i = first; i <= last; ++i)
    result.push_back(i);
  return success();
}

LogicalResult StageCuts::assign(ArrayAttr stages) {
  std::string names = llvm::join(
      llvm::map_range(pieces, [](auto &piece) { return piece.name; }), ", ");
  auto fail = [&](size_t stage) {
    InFlightDiagnostic error = module.emitError();
    error << "units." << module.getSymName() << ".stages[" << stage << "]: ";
    return error;
  };
  size_t next = 0;
  cuts.clear();
  for (auto [s, list] : llvm::enumerate(stages.getAsRange<ArrayAttr>())) {
    std::vector<size_t> members;
    for (auto text : list.getAsRange<StringAttr>())
      if (failed(parsePieces(text, members)))
        return fail(s) << "there is no piece '" << text.getValue()
                       << "' (pieces: " << names << ")";
    size_t cut = next < pieces.size() ? pieces[next].begin : placed.size();
    for (size_t member : members) {
      if (member != next)
        return fail(s) << "expected "
                       << (next < pieces.size()
                               ? "'" + pieces[next].name + "' next"
                               : std::string("no further piece"))
                       << ", not '" << pieces[member].name
                       << "' (pieces in order: " << names << ")";
      ++next;
    }
    if (cut > 0) {
      for (Value value : crossing[cut]) {
        if (ordersExperts(value.getDefiningOp()))
          return fail(s) << "begins between products of experts, of which each "
                            "rank has its own (ep = "
                         << module.getEp() << ")";
        if (!legal[cut] && !mayCross(value))
          return fail(s) << "a tensor of type " << value.getType()
                         << " would cross, which does not count items on its "
                            "first axis, and a microbatch has "
                         << parts << " parts";
      }
    }
    if (!legal[cut])
      return fail(s) << "what would cross does not have its items on its "
                        "first axis, and a microbatch has "
                     << parts << " parts";
    cuts.push_back(cut);
  }
  if (next != pieces.size())
    return fail(stages.size() - 1)
           << "'" << pieces[next].name << "' is in no stage";
  cuts.push_back(placed.size());
  return success();
}

} // namespace dt::stages
