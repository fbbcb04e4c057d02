//===- Layers.cpp - Layer functions and the calls of them -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Layers.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;

namespace {

class LayerFinder {
public:
  explicit LayerFinder(const ShardProblem &whole) : whole(whole) {
    for (const Step &step : whole.steps)
      if (step.kind == Step::call)
        calls[calleeOf(step)].push_back(&step);
  }
  std::vector<Layer> run();

private:
  static func::FuncOp calleeOf(const Step &step) {
    auto call = cast<func::CallOp>(step.op);
    return step.op->getParentOfType<dist::ModuleOp>()
        .lookupSymbol<func::FuncOp>(call.getCallee());
  }
  Layer build(Pair pair);
  const Step *findForward(const Layer &layer, const Step &backward) const;
  void linkBackward(Layer &layer, const Step &backward, const Step &forward);
  void linkByName(Layer &layer);
  int parameterOfGradient(unsigned gradient) const;

  const ShardProblem &whole;
  llvm::MapVector<func::FuncOp, SmallVector<const Step *>> calls;
};

} // namespace

/// The forward call whose results (else operands) the backward call takes.
const Step *LayerFinder::findForward(const Layer &layer,
                                     const Step &backward) const {
  const Step *best = nullptr;
  unsigned most = 0;
  auto it = calls.find(layer.pair.forward);
  if (it == calls.end())
    return nullptr;
  for (const Step *forward : it->second) {
    unsigned shared = 0;
    for (unsigned v : backward.operands)
      shared += 100 * llvm::is_contained(forward->results, v) +
                llvm::is_contained(forward->operands, v);
    if (shared > most) {
      most = shared;
      best = forward;
    }
  }
  return best;
}

int LayerFinder::parameterOfGradient(unsigned gradient) const {
  for (const Step &step : whole.steps)
    if (step.kind == Step::accumulate && step.operands[0] == gradient)
      return static_cast<int>(step.operands[1]);
  return -1;
}

void LayerFinder::linkBackward(Layer &layer, const Step &backward,
                               const Step &forward) {
  auto position = [](ArrayRef<unsigned> list,
                     unsigned v) -> std::optional<unsigned> {
    const auto *it = llvm::find(list, v);
    if (it == list.end())
      return std::nullopt;
    return it - list.begin();
  };
  for (auto [i, v] : llvm::enumerate(backward.operands)) {
    auto &link = layer.links.backwardArguments[i];
    if (link)
      continue;
    if (auto at = position(forward.results, v))
      link = Links::Source{true, *at};
    else if (auto at = position(forward.operands, v))
      link = Links::Source{false, *at};
  }
  for (auto [i, v] : llvm::enumerate(backward.results)) {
    int parameter = parameterOfGradient(v);
    if (parameter >= 0 && !layer.links.gradientOf[i])
      layer.links.gradientOf[i] = position(forward.operands, parameter);
  }
}

/// Parameters that no call ties: by their names in the layer.
void LayerFinder::linkByName(Layer &layer) {
  func::FuncOp b = layer.pair.backward, f = layer.pair.forward;
  for (unsigned i = 0; i < b.getNumArguments(); ++i) {
    auto name = b.getArgAttrOfType<StringAttr>(i, nn::kNameAttr);
    auto &link = layer.links.backwardArguments[i];
    if (!name || link)
      continue;
    if (auto at = dist::ModuleOp::findArgument(f, name.getValue()))
      link = Links::Source{false, *at};
  }
}

Layer LayerFinder::build(Pair pair) {
  Layer layer;
  layer.pair = pair;
  ArrayRef<const Step *> forward = calls[pair.forward];
  layer.links.parameters.assign(pair.forward.getNumArguments(), true);
  layer.outputs.assign(pair.forward.getNumResults(), false);
  for (const Step *call : forward) {
    for (auto [i, v] : llvm::enumerate(call->operands))
      if (!whole.variables[v].parameter)
        layer.links.parameters[i] = false;
    for (auto [i, result] : llvm::enumerate(call->op->getResults()))
      for (Operation *user : result.getUsers()) {
        // What the layer's backward function takes is a residual.
        auto taken = dyn_cast<func::CallOp>(user);
        bool back = taken && pair.backward &&
                    taken.getCallee() == pair.backward.getName();
        if (!isa<func::ReturnOp>(user) && !back)
          layer.outputs[i] = true;
      }
  }
  if (!pair.backward)
    return layer;
  layer.links.backwardArguments.resize(pair.backward.getNumArguments());
  layer.links.gradientOf.resize(pair.backward.getNumResults());
  for (const Step *call : calls[pair.backward])
    if (const Step *before = findForward(layer, *call))
      linkBackward(layer, *call, *before);
  linkByName(layer);
  return layer;
}

std::vector<Layer> LayerFinder::run() {
  std::vector<Layer> layers;
  llvm::DenseSet<Operation *> seen;
  SmallVector<func::FuncOp> callees;
  for (auto &[callee, list] : calls)
    callees.push_back(callee);
  for (func::FuncOp callee : callees) {
    Pair pair = findPair(callee);
    if (seen.insert(pair.forward).second)
      layers.push_back(build(pair));
  }
  return layers;
}

std::vector<Layer> dt::shard::findLayers(const ShardProblem &whole) {
  return LayerFinder(whole).run();
}

RankedTensorType dt::shard::getStream(const Layer &layer) {
  func::FuncOp f = layer.pair.forward;
  for (Type type : f.getResultTypes())
    for (auto [i, argument] : llvm::enumerate(f.getArgumentTypes()))
      if (argument == type && !layer.links.parameters[i] &&
          isa<FloatType>(getElementTypeOrSelf(type)))
        return cast<RankedTensorType>(type);
  return {};
}

std::optional<Cut> dt::shard::getTokenCut(RankedTensorType stream,
                                          const Axis &axis) {
  nn::Shape shape = nn::getShape(stream);
  if (shape.size() < 2 || shape.size() > 3)
    return std::nullopt;
  unsigned dim = axis.samples ? 0 : shape.size() - 2;
  std::optional<int64_t> tokens = getTokens(shape[dim]);
  if (!tokens || *tokens == 0)
    return std::nullopt;
  return cutTokens(dim, *tokens, axis);
}

std::optional<int64_t> dt::shard::getTokens(const nn::DimExpr &rows) {
  if (rows.isConstant() || rows.terms().size() != 1)
    return rows.asConstant();
  return rows.terms()[0].coefficient;
}
