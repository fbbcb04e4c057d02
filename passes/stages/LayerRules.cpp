//===- LayerRules.cpp - Layers priced by rule -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/stages/LayerRules.h"

#include <numeric>

using namespace mlir;

namespace dt::stages {

using planner::LayerKind;
using planner::Linear;
using planner::Op;
using planner::Save;

/// Gradients read what came in and what the forward made, and write as much.
static constexpr double kStreamBackward = 1.5, kAttentionBackward = 2.5,
                        kProductBackward = 2;

int64_t countExperts(Operation *op) {
  Value weight;
  if (auto product = dyn_cast<nn::GroupedLinearOp>(op))
    weight = product.getWeight();
  else if (auto gradient = dyn_cast<nn::GroupedLinearDwOp>(op))
    weight = gradient.getResult();
  return weight ? nn::getShape(weight)[0].asConstant().value_or(0) : 0;
}

Linear LayerBuilder::figure(const nn::DimExpr &size) const {
  return planner::perItem(sizes.ofNothing(size)) + sizes.ofItem(size);
}

Linear LayerBuilder::bytesOf(Value value) const {
  Type type = value.getType();
  return isa<RankedTensorType>(type) ? figure(nn::getNumBytes(type)) : Linear();
}

void LayerBuilder::add(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
      for (Operation &inner : callee.getBody().front().without_terminator())
        add(&inner);
    flush();
    for (Value operand : call.getOperands())
      addParameter(operand);
    return;
  }
  for (Value operand : op->getOperands())
    addParameter(operand);
  if (isa<nn::DispatchOp>(op))
    kind.dispatched += bytesOf(op->getResult(0));
  kind.routes += isa<nn::RouteOp>(op);
  if (auto limit = dyn_cast<nn::LimitChoicesOp>(op))
    kind.capacity = limit.getCapacity().convertToDouble();
  auto model = dyn_cast<nn::CostOpInterface>(op);
  if (!model)
    return follow(op);
  Linear flops = figure(model.getFlops()), bytes = figure(model.getBytes());
  nn::Work work = model.getWork();
  switch (work.kind) {
  case nn::Work::None:
  case nn::Work::View:
    return follow(op);
  case nn::Work::Product:
  case nn::Work::Convolution:
    return addProduct(op, work, flops, bytes);
  case nn::Work::Batched:
  case nn::Work::Attention:
    return addAttention(op, work, flops, bytes);
  case nn::Work::Norm:
  case nn::Work::Stream:
    return addStream(op, work, bytes);
  }
}

LayerKind LayerBuilder::finish(const Linear &input, const Linear &output) {
  kind.output = output;
  kind.keptSequence[int(Save::None)] = input;
  kind.expertParameters = std::min(kind.expertParameters, kind.parameters);
  flush();
  return kind;
}

/// A function may be called again: its values are others then.
void LayerBuilder::flush() {
  for (auto [value, saves] : kept)
    for (Save save : {Save::Vjp, Save::All})
      if (saves >> int(save) & 1)
        (cut.contains(value) ? kind.keptSplit : kind.keptSequence)[int(save)] +=
            bytesOf(value);
  kept.clear();
  cut.clear();
}

void LayerBuilder::keep(Value value, bool vjp) {
  if (isa<RankedTensorType>(value.getType()))
    kept[value] |= 1u << int(Save::All) | (vjp ? 1u << int(Save::Vjp) : 0);
}

bool LayerBuilder::isCut(Operation *op) {
  return llvm::any_of(op->getOperands(),
                      [&](Value value) { return cut.contains(value); });
}

/// Views and elementwise ops go on as what they take.
void LayerBuilder::follow(Operation *op) {
  if (isCut(op))
    cut.insert(op->result_begin(), op->result_end());
}

void LayerBuilder::addParameter(Value value) {
  auto read = value.getDefiningOp<nn::ReadOp>();
  auto type =
      read ? cast<RankedTensorType>(read.getType()) : RankedTensorType();
  if (!type || !type.hasStaticShape())
    return;
  double count = double(type.getNumElements());
  if (parameters.insert({read.getParameterAttr(), count}).second)
    kind.parameters += count;
}

/// A product after a cut one sums over ranks; others are cut in their columns.
void LayerBuilder::addProduct(Operation *op, const nn::Work &work,
                              const Linear &flops, const Linear &bytes) {
  Op product;
  product.name = op->getName().stripDialect().str();
  double weight = sizes.atMost(bytesOf(op->getOperand(1)));
  product.bytes = bytes;
  product.bytes.item = std::max(0.0, bytes.item - weight);
  product.fixedBytes = weight;
  Value result = op->getResult(0);
  keep(op->getOperand(0), true);
  keep(result, false);
  bool sums = isCut(op);
  product.split = sums ? Op::Depth : Op::Columns;
  if (work.kind == nn::Work::Convolution) { // in channels
    product.kind = Op::Convolution;
    product.flops = flops;
    for (std::vector<Op> *ops : {&kind.forward, &kind.input, &kind.weight})
      ops->push_back(product);
    return handOn(result, sums);
  }
  product.kind = Op::Gemm;
  product.n = sizes.atMost(figure(work.n));
  product.k = sizes.atMost(figure(work.k));
  product.rows = flops * (1 / std::max(1.0, 2 * product.n * product.k));
  if (int64_t experts = countExperts(op)) {
    product.expert = true;
    product.count = int(experts);
    product.rows = product.rows * (1.0 / double(experts));
    kind.expertParameters += product.n * product.k * double(experts);
  }
  widths = std::gcd(widths, int64_t(sums ? product.k : product.n));
  kind.forward.push_back(product);
  Op input = product;
  std::swap(input.n, input.k);
  input.split = sums ? Op::Columns : Op::Depth;
  kind.input.push_back(input);
  kind.weight.push_back(product);
  handOn(result, sums);
}

/// What was cut is divided; where a cut input was summed over, ranks meet.
void LayerBuilder::handOn(Value result, bool sums) {
  if (!sums) {
    cut.insert(result);
    return;
  }
  ++kind.forwardReduces;
  ++kind.backwardReduces;
  Linear bytes = bytesOf(result);
  if (sizes.atMost(bytes) > sizes.atMost(kind.reduced))
    kind.reduced = bytes;
}

/// Products of activations; of attention the scores stay in the kernel.
void LayerBuilder::addAttention(Operation *op, const nn::Work &work,
                                const Linear &flops, const Linear &bytes) {
  Op attention;
  attention.name = op->getName().stripDialect().str();
  attention.kind = Op::Attention;
  bool fused = work.kind == nn::Work::Attention;
  attention.split = fused || isCut(op) ? Op::Heads : Op::Whole;
  attention.flops = flops;
  attention.bytes = bytes;
  kind.forward.push_back(attention);
  double factor = fused ? kAttentionBackward : kProductBackward;
  attention.flops = flops * factor;
  attention.bytes = bytes * kProductBackward;
  kind.input.push_back(attention);
  // Keys and values of all tokens: where these are divided over ranks.
  for (unsigned i = 1; i < (fused ? 3u : 2u); ++i)
    kind.exchanged += bytesOf(op->getOperand(i));
  for (Value value : op->getOperands())
    keep(value, true);
  for (Value value : op->getResults())
    keep(value, fused);
  follow(op);
  if (!fused)
    return;
  cut.insert(op->result_begin(), op->result_end());
  // [items, tokens, heads, width]. Query heads that share a head of keys may be
  // cut apart, too.
  auto query = cast<RankedTensorType>(op->getOperand(0).getType());
  if (query.getRank() == 4 && !query.isDynamicDim(2))
    heads = std::gcd(heads, query.getDimSize(2));
}

/// Groups of channels are divided as the channels are.
static bool worksOnGroups(Operation *op) {
  auto sharding = dyn_cast<nn::ShardingOpInterface>(op);
  return sharding &&
         llvm::any_of(sharding.getShardingRule().factors, [](auto &factor) {
           return factor.kind == nn::FactorKind::group;
         });
}

void LayerBuilder::addStream(Operation *op, const nn::Work &work,
                             const Linear &bytes) {
  if (sizes.atMost(bytes) <= 0)
    return;
  bool norm = work.kind == nn::Work::Norm;
  Op stream;
  stream.name = op->getName().stripDialect().str();
  bool divided = (!norm || worksOnGroups(op)) && isCut(op);
  stream.split = divided ? Op::Heads : Op::Sequence;
  stream.bytes = bytes;
  stream.cheap = !norm;
  kind.forward.push_back(stream);
  stream.cheap = false;
  stream.bytes = bytes * kStreamBackward;
  kind.input.push_back(stream);
  if (norm)
    keep(op->getOperand(0), true);
  for (Value value : op->getResults())
    keep(value, false);
  if (divided)
    cut.insert(op->result_begin(), op->result_end());
}

} // namespace dt::stages
