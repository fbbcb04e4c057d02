//===- StageCuts.cpp - Where a module is cut into stages --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/stages/StageCuts.h"

#include "passes/modules/ItemAxes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <limits>

using namespace mlir;

namespace dt::stages {

namespace {

/// What a value comes from.
enum Origin : unsigned { kRaw = 1, kEdge = 2, kParameter = 4 };

/// Backward takes twice the forward's time, and gradients go back as
/// activations came.
constexpr double kWorkFactor = 3, kMessageFactor = 2;
/// Of two ways to cut, the one that sends less may cost this much more.
constexpr double kSlack = 1.05;

nn::Work::Kind workOf(Operation *op) {
  auto model = dyn_cast<nn::CostOpInterface>(op);
  return model ? model.getWork().kind : nn::Work::Stream;
}
bool isView(Operation *op) { return workOf(op) <= nn::Work::View; }

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

NominalCost StageCuts::getCost(int64_t stage) const {
  NominalCost cost;
  for (size_t i = cuts[stage]; i < cuts[stage + 1]; ++i)
    cost += const_cast<NominalCosts &>(costs).of(placed[i]);
  return cost;
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

void StageCuts::findCrossing() {
  size_t n = placed.size();
  crossing.assign(n + 1, {});
  legal.assign(n + 1, true);
  bytes.assign(n + 1, 0);
  prefix.assign(n + 1, 0);
  std::optional<modules::ItemAnalysis> items;
  if (parts > 1)
    items.emplace(module, modules::takesLocalStatistics(
                              module->getParentOfType<mlir::ModuleOp>()));
  for (auto [i, op] : llvm::enumerate(placed)) {
    prefix[i + 1] = prefix[i] + costs.of(op).ns;
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
      double size = costs.bytesOf(value.getType());
      for (size_t c = i + 1; c <= last; ++c) {
        crossing[c].push_back(value);
        bytes[c] += size;
        legal[c] = legal[c] && may;
      }
    }
  }
}

double StageCuts::getMessageTime(size_t cut) {
  return bytes[cut] / kMessageBytesPerNs + kMessageNs * crossing[cut].size();
}

LogicalResult StageCuts::balance(int64_t stages) {
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
  auto time = [&](size_t a, size_t b) {
    return kWorkFactor * (prefix[points[b]] - prefix[points[a]]) +
           kMessageFactor * getMessageTime(points[a]);
  };
  constexpr double none = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(stages + 1,
                                        std::vector<double>(count, none));
  std::vector<std::vector<size_t>> from(stages + 1,
                                        std::vector<size_t>(count, 0));
  auto search = [&](double limit, bool fewestBytes) {
    for (auto &row : best)
      row.assign(count, none);
    best[0][0] = 0;
    for (int64_t s = 1; s <= stages; ++s)
      for (size_t b = s; b < count; ++b)
        for (size_t a = s - 1; a < b; ++a) {
          double t = time(a, b);
          if (best[s - 1][a] == none || t > limit)
            continue;
          double value = fewestBytes ? best[s - 1][a] + bytes[points[a]]
                                     : std::max(best[s - 1][a], t);
          if (value < best[s][b]) {
            best[s][b] = value;
            from[s][b] = a;
          }
        }
    return best[stages][count - 1];
  };
  double cheapest = search(none, /*fewestBytes=*/false);
  search(cheapest * kSlack, /*fewestBytes=*/true);
  std::vector<size_t> inner;
  for (size_t s = stages, b = count - 1; s > 0; --s) {
    b = from[s][b];
    inner.insert(inner.begin(), points[b]);
  }
  cuts = inner; // begins with 0
  cuts.push_back(placed.size());
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
