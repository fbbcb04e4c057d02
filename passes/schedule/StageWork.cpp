//===- StageWork.cpp - What a rank does of a stage --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/StageWork.h"

#include "dialects/dist/DistOps.h"
#include "dialects/dist/Strips.h"
#include "dialects/nn/NNNames.h"
#include "passes/stages/LayerRules.h"
#include "passes/stages/PlanCluster.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace dt::schedule {

using planner::Exchange;
using planner::Op;
using planner::perItem;
using planner::RankLayer;

static Op::Kind kindOf(nn::Work::Kind kind) {
  switch (kind) {
  case nn::Work::Product:
    return Op::Gemm;
  case nn::Work::Batched:
  case nn::Work::Attention:
    return Op::Attention;
  case nn::Work::Convolution:
    return Op::Convolution;
  default:
    return Op::Stream;
  }
}

/// What takes long enough to hide a collective, as rt-place-streams has it.
static bool isLong(Operation *op) {
  auto model = dyn_cast<nn::CostOpInterface>(op);
  nn::Work::Kind kind = model ? model.getWork().kind : nn::Work::None;
  return isa<func::CallOp>(op) ||
         (kind != nn::Work::None && kindOf(kind) != Op::Stream);
}

/// Ops before one in its block, the last first.
static auto getBefore(Operation *op) {
  return llvm::make_range(++Block::reverse_iterator(op),
                          op->getBlock()->rend());
}

/// Whether a product stands between what a collective needs and what needs it,
/// or can go behind it, as rt-place-streams does it.
static bool isCovered(Operation *collective) {
  for (Operation &op : getBefore(collective)) {
    if (llvm::is_contained(op.getUsers(), collective))
      break;
    if (isLong(&op))
      return true;
  }
  for (Operation *op = collective->getNextNode();
       op && !llvm::is_contained(collective->getUsers(), op);
       op = op->getNextNode())
    if (isLong(op))
      return true;
  return llvm::any_of(getBefore(collective), [&](Operation &op) {
    return isLong(&op) && llvm::all_of(op.getUsers(), [&](Operation *user) {
             return collective->isBeforeInBlock(user);
           });
  });
}

void FunctionReader::read(func::FuncOp function) {
  if (!function || function.isExternal())
    return;
  for (Operation &op : function.getBody().front())
    read(&op);
}

void FunctionReader::readOneLayer(func::FuncOp function) {
  if (!function || function.isExternal())
    return;
  Block &body = function.getBody().front();
  llvm::StringMap<int> calls;
  StringRef layer;
  for (auto call : body.getOps<func::CallOp>())
    if (++calls[call.getCallee()] > calls.lookup(layer) || layer.empty())
      layer = call.getCallee();
  bool inside = false;
  for (Operation &op : body) {
    auto call = dyn_cast<func::CallOp>(op);
    bool begins = call && call.getCallee() == layer;
    if (begins && std::exchange(inside, true))
      return;
    if (inside)
      read(&op);
  }
}

void FunctionReader::readHalves(func::FuncOp function, FunctionReader &weight) {
  llvm::DenseSet<Operation *> needed;
  Block &body = function.getBody().front();
  Operation *end = body.getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands()))
    if (!function.getResultAttr(i, nn::kParamGradAttr))
      needed.insert(value.getDefiningOp());
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (!needed.contains(&op))
      continue;
    for (Value operand : op.getOperands())
      needed.insert(operand.getDefiningOp());
  }
  for (Operation &op : body.without_terminator()) {
    auto call = dyn_cast<func::CallOp>(op);
    auto callee =
        call ? module.lookupSymbol<func::FuncOp>(call.getCallee()) : nullptr;
    if (!needed.contains(&op))
      weight.read(&op);
    else if (callee && !callee.isExternal())
      readHalves(callee, weight);
    else
      read(&op);
  }
}

void FunctionReader::read(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return read(module.lookupSymbol<func::FuncOp>(call.getCallee()));
  if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op)) {
    Exchange &exchange = exchanges.emplace_back();
    exchange.kind = collective.getCollectiveKind();
    exchange.bytes = sizes.bytesOfItem(collective.getWhole().getType());
    exchange.rows = getRows(collective);
    if (collective.getOver() != module.getTp() || collective.getStride() > 1) {
      exchange.over = int(collective.getOver());
      exchange.stride = int(collective.getStride());
    }
    exchange.coveredInHalves = exchange.covered = isCovered(op);
    // Gradients of weights wait behind those of inputs, whose products they
    // follow.
    exchange.covered |= half == Half::Weight ||
                        (half == Half::Input &&
                         llvm::any_of(getBefore(op), [](Operation &before) {
                           return isLong(&before);
                         }));
    if (dist::getNumStrips(collective) > 1)
      for (nn::LinearOp product : dist::getProductsBeside(collective))
        if (std::optional<Op> beside = describe(product))
          exchange.beside.push_back(std::move(*beside));
    return;
  }
  if (std::optional<Op> result = describe(op))
    ops.push_back(std::move(*result));
}

std::optional<Op> FunctionReader::describe(Operation *op) {
  auto model = dyn_cast<nn::CostOpInterface>(op);
  if (!model)
    return std::nullopt;
  nn::Work work = model.getWork();
  if (work.kind == nn::Work::None)
    return std::nullopt;
  Op result;
  result.name = op->getName().stripDialect().str();
  result.flops = sizes.ofItem(model.getFlops());
  result.bytes = sizes.ofItem(model.getBytes());
  result.fixedBytes = sizes.ofNothing(model.getBytes());
  result.kind = kindOf(work.kind);
  if (result.kind == Op::Gemm)
    setProduct(work, result);
  if (int64_t experts = stages::countExperts(op)) {
    result.expert = true;
    result.count = int(experts);
    result.rows = result.rows * (1.0 / double(experts));
  }
  if (sizes.atMost(result.flops + result.bytes) + result.fixedBytes <= 0)
    return std::nullopt;
  return result;
}

/// Rows x k by k x n; one of them may be the weight's gradient.
void FunctionReader::setProduct(const nn::Work &work, Op &result) {
  auto n = work.n.asConstant(), k = work.k.asConstant();
  result.n = double(n.value_or(0));
  result.k = double(k.value_or(0));
  if (result.n > 0 && result.k > 0)
    result.rows = result.flops * (1 / (2 * result.n * result.k));
  else
    result.kind = Op::Convolution; // of no known shape: by its FLOPs
}

/// Those of both cuts are packed by kernels.
planner::Linear
FunctionReader::getRows(dist::CollectiveOpInterface collective) {
  auto taken = collective.getTakenCut(), given = collective.getGivenCut();
  if (taken.has_value() == given.has_value())
    return {};
  Value part = taken ? collective.getInput() : collective.getResult();
  nn::DimExpr rows =
      dist::getBlockRows(nn::getShape(part), taken ? *taken : *given);
  return perItem(sizes.ofNothing(rows)) + sizes.ofItem(rows);
}

RankLayer readStage(dist::ModuleOp stage, const stages::Sizes &sizes) {
  RankLayer layer;
  dist::Functions functions = dist::getFunctions(stage);
  FunctionReader(stage, sizes, layer.forward, layer.forwardExchanges)
      .read(functions.forward);
  FunctionReader input(stage, sizes, layer.input, layer.backwardExchanges,
                       FunctionReader::Half::Input),
      weight(stage, sizes, layer.weight, layer.backwardExchanges,
             FunctionReader::Half::Weight);
  input.read(functions.input);
  weight.read(functions.weight);
  if (functions.backward)
    input.readHalves(functions.backward, weight);
  layer.kept =
      getResidualBytes(sizes, functions.forward) + getInputBytes(stage, sizes);
  layer.keptToWeights = getKeptToWeights(stage, sizes);
  layer.keptForWeights =
      getResidualBytes(sizes, functions.input) + getGradientBytes(stage, sizes);
  layer.handedOut = getPassingBytes(stage, sizes);
  layer.scratch = getScratchBytes(stage, sizes, /*whole=*/true);
  layer.scratchOfHalves = getScratchBytes(stage, sizes, /*whole=*/false);
  layer.parameters = countParameters(stage);
  return layer;
}

double countParameters(dist::ModuleOp stage) {
  double count = 0;
  for (auto parameter : stage.getOps<nn::ParameterOp>())
    count +=
        double(cast<RankedTensorType>(parameter.getType()).getNumElements());
  return count;
}

std::optional<planner::StageTimes> getTimes(dist::ModuleOp module) {
  dist::TimesAttr given = module.getTimesAttr();
  size_t stage = module.getStage();
  if (!given || stage >= given.getStages().size())
    return std::nullopt;
  ArrayRef<int64_t> values = given.getStages()[stage].asArrayRef();
  if (values.size() != std::size(planner::kStageTimes))
    return std::nullopt;
  planner::StageTimes times;
  for (auto [i, entry] : llvm::enumerate(planner::kStageTimes))
    times.*entry.second = values[i];
  return times;
}

void setTimes(dist::ModuleOp module, ArrayRef<planner::StageTimes> stages,
              StringRef from) {
  Builder b(module.getContext());
  SmallVector<DenseI64ArrayAttr> list;
  for (const planner::StageTimes &stage : stages) {
    SmallVector<int64_t> values;
    for (auto [key, value] : planner::kStageTimes)
      values.push_back(stage.*value);
    list.push_back(b.getDenseI64ArrayAttr(values));
  }
  module.setTimesAttr(dist::TimesAttr::get(module.getContext(), from, list));
}

planner::Times priceStage(dist::ModuleOp stage, const planner::Cluster &cluster,
                          PriceOptions what) {
  StringRef own = stage.getItem().value_or(dist::kSample);
  nn::DimOp main = stages::getMainDim(stage, own);
  // Items that are all alike are one, the part.
  bool measured = main && main.getMeasure();
  double items = measured ? stages::countItems(main) : 1,
         tokens = measured ? double(*main.getBound()) / items : 1;
  auto share = [&](nn::DimOp dim) -> stages::Sizes::Share {
    bool counts = what.without.empty() || (dim.getItem() != what.without &&
                                           dim.getQuantity() != what.without);
    double each = counts ? double(dim.getMax().value_or(0)) / items : 0;
    bool grows = measured && dim.getMeasure() && dim.getItem() == own;
    return grows ? stages::Sizes::Share{0, each / tokens}
                 : stages::Sizes::Share{each};
  };
  stages::Sizes sizes(stage, share, {tokens, 0});
  planner::CostOptions options;
  options.tp = int(dist::Placement(stage).group);
  options.sequenceParallel = false;
  options.overlap = int(stage.getOverlap());
  options.splitBackward = stage.getSplitBackward();
  planner::Module module;
  module.precision = stages::getPrecisionName(stage);
  module.kinds.emplace_back();
  module.layers = {0};
  module.inputGradient = true;
  module.partitioned[{options.tp, options.save, false}] = {
      readStage(stage, sizes)};
  planner::TokenSums part = planner::TokenSums::of(tokens) * items;
  if (!what.squares)
    part.squares = 0;
  return planner::ModuleCost(cluster, 0, module).layer(0, options, part);
}

} // namespace dt::schedule
