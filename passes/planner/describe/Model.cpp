//===- Model.cpp - What a planner knows of a model ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Model.h"

#include "dialects/dist/SharedExperts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <numeric>

using namespace llvm;

namespace dt::planner {

int Tie::count(int begin, int end) const {
  return int(std::lower_bound(layers.begin(), layers.end(), end) -
             std::lower_bound(layers.begin(), layers.end(), begin));
}

double Module::getPartTokens() const {
  for (const PartBound &bound : bounds)
    if (bound.kind == item && !bound.isOther)
      return bound.most;
  return 0;
}

double Module::countLargest(const TokenSums &part) const {
  if (mostTokens <= 0 && mostOther <= 0)
    return part.items;
  return std::max(mostTokens > 0 ? part.tokens / mostTokens : 0,
                  mostOther > 0 ? part.others / mostOther : 0);
}

double Module::getParameters() const {
  double sum = 0;
  for (int kind : layers)
    sum += kinds[kind].parameters;
  for (const Tie &tie : ties)
    sum -= double(tie.layers.size() - 1) * tie.parameters;
  return sum;
}

namespace {

double flopsOf(const Op &op, const TokenSums &part) {
  if (op.kind == Op::Gemm)
    return 2 * op.rows.at(part) * op.n * op.k * op.count;
  return op.kind == Op::Stream ? 0 : op.flops.at(part);
}

Error wrong(const Twine &what) { return createStringError(what); }

bool good(double value) { return std::isfinite(value) && value >= 0; }
bool good(const ParameterBytes &bytes) {
  return good(bytes.weight) && good(bytes.gradient) && good(bytes.optimizer);
}
bool good(const std::optional<ParameterBytes> &bytes) {
  return !bytes || good(*bytes);
}
bool good(const Linear &value) {
  return all_of(value.all(), [](double figure) { return good(figure); });
}

Error checkOp(const Module &module, const LayerKind &kind, const Op &op) {
  if (good(op.rows) && good(op.n) && good(op.k) && good(op.flops) &&
      good(op.bytes) && good(op.fixedBytes) && op.count >= 1)
    return Error::success();
  return wrong(formatv("module '{0}', layer '{1}', op '{2}': expected finite "
                       "figures of at least 0",
                       module.name, kind.name, op.name));
}

/// Of a kind, or of it as a rank has it.
template <typename Layer>
Error checkOps(const Module &module, const LayerKind &kind,
               const Layer &layer) {
  for (const Op &op :
       concat<const Op>(layer.forward, layer.input, layer.weight))
    if (Error error = checkOp(module, kind, op))
      return error;
  return Error::success();
}

Error checkRankLayer(const Module &module, const LayerKind &kind,
                     const RankLayer &layer) {
  if (Error error = checkOps(module, kind, layer))
    return error;
  bool fine = good(layer.parameters);
  for (auto [key, bytes] : kRankLayer)
    fine &= good(layer.*bytes);
  for (const Exchange &exchange : concat<const Exchange>(
           layer.forwardExchanges, layer.backwardExchanges)) {
    fine &= good(exchange.bytes) && good(exchange.rows) && exchange.over >= 0 &&
            exchange.stride >= 1;
    for (const Op &op : exchange.beside)
      if (Error error = checkOp(module, kind, op))
        return error;
  }
  if (fine)
    return Error::success();
  return wrong("module '" + module.name + "', layer '" + kind.name +
               "', partitioned: expected finite figures of at least 0");
}

Error checkModule(const Module &module) {
  auto fail = [&](const Twine &what) {
    return wrong("module '" + module.name + "'" + what);
  };
  if (module.layers.empty())
    return fail(" has no layers");
  if (!good(module.bytes) || module.maxTP < 1)
    return fail(": expected finite bytes a parameter and a TP of at least 1");
  for (int kind : module.layers)
    if (kind < 0 || kind >= int(module.kinds.size()))
      return fail(
          formatv(" names layer kind {0} of {1}", kind, module.kinds.size()));
  for (const LayerKind &kind : module.kinds) {
    if (Error error = checkOps(module, kind, kind))
      return error;
    bool fine = good(kind.parameters) && good(kind.bytes) &&
                good(kind.reduced) && good(kind.output) &&
                good(kind.exchanged) && good(kind.dispatched) &&
                good(kind.expertParameters) && good(kind.capacity) &&
                kind.expertParameters <= kind.parameters;
    for (int i = 0; i < 3; ++i)
      fine &= good(kind.keptSplit[i]) && good(kind.keptSequence[i]);
    if (!fine)
      return fail(", layer '" + kind.name +
                  "': expected finite figures of at least 0");
  }
  for (const Tie &tie : module.ties) {
    bool fine = tie.layers.size() > 1 && tie.layers.front() >= 0 &&
                tie.layers.back() < int(module.layers.size()) &&
                llvm::is_sorted(tie.layers, std::less_equal<int>());
    for (int layer : tie.layers)
      fine = fine && good(tie.parameters) && good(tie.bytes) &&
             tie.parameters <= module.kinds[module.layers[layer]].parameters;
    if (!fine)
      return fail(", ties: expected two or more of its layers, ascending, and "
                  "parameters that each of them has");
  }
  for (auto &[layout, layers] : module.partitioned) {
    if (layout.tp < 1 || layers.size() != module.kinds.size())
      return fail(", partitioned: expected an entry for each kind of layer");
    for (auto [kind, layer] : zip(module.kinds, layers))
      if (Error error = checkRankLayer(module, kind, layer))
        return error;
  }
  return Error::success();
}

} // namespace

int LayerKind::getExperts() const {
  auto op = find_if(forward, [](const Op &one) { return one.expert; });
  return op == forward.end() ? 0 : op->count;
}

int Module::getExperts() const {
  int common = 0;
  for (const LayerKind &kind : kinds)
    common = std::gcd(common, kind.getExperts());
  return common;
}

std::vector<int> Module::listExpertRanks(int tp, int64_t cp, int64_t dp) const {
  std::vector<int> ranks;
  for (auto &[layout, layers] : partitioned)
    if (layout.tp == tp && !is_contained(ranks, layout.ep) &&
        dist::canShareExperts(layout.ep, tp, cp, dp))
      ranks.push_back(layout.ep);
  return ranks;
}

const std::vector<RankLayer> *
Module::getPartitioned(LayerVariant layout) const {
  auto it = partitioned.find(layout);
  if (it == partitioned.end() && layout.sequenceParallel) {
    layout.sequenceParallel = false;
    it = partitioned.find(layout);
  }
  return it == partitioned.end() ? nullptr : &it->second;
}

Error Model::check() const {
  if (modules.empty())
    return wrong("the model has no modules");
  if (modules.size() > 16)
    return wrong(formatv("the model has {0} modules; expected at most 16",
                         modules.size()));
  int count = int(modules.size());
  if (pace < 0 || pace >= count)
    return wrong("the pacing module does not exist");
  for (const Module &module : modules) {
    if (int(module.item) < 0 || size_t(module.item) > items.size())
      return wrong("module '" + module.name +
                   "' works on a kind of items that does not exist");
    if (Error error = checkModule(module))
      return error;
  }
  for (int tower : contrast.towers)
    if (tower < 0 || tower >= count)
      return wrong("the contrastive loss names a module that does not exist");
  if (!(contrast.width >= 0 && contrast.width <= 1e9))
    return wrong("the contrastive loss has a width that is no number of 0 to "
                 "1e9");
  std::vector<int> waiting(count, 0);
  for (const ModelEdge &edge : edges) {
    if (edge.from < 0 || edge.from >= count || edge.to < 0 || edge.to >= count)
      return wrong("an edge names a module that does not exist");
    if (!good(edge.bytes))
      return wrong("an edge of module '" + modules[edge.from].name +
                   "' has bytes that are no finite number of at least 0");
    ++waiting[edge.to];
  }
  std::vector<int> ready;
  for (int i = 0; i < count; ++i)
    if (!waiting[i])
      ready.push_back(i);
  for (size_t i = 0; i < ready.size(); ++i)
    for (const ModelEdge &edge : edges)
      if (edge.from == ready[i] && --waiting[edge.to] == 0)
        ready.push_back(edge.to);
  if (int(ready.size()) != count)
    return wrong("the modules feed one another in a cycle");
  return Error::success();
}

void spreadGradients(Model &model) {
  for (Module &module : model.modules)
    module.inputGradient = false;
  // As many rounds as a path may have edges.
  for (size_t round = 0; round < model.modules.size(); ++round)
    for (const ModelEdge &edge : model.edges)
      if (model.modules[edge.from].hasBackward())
        model.modules[edge.to].inputGradient = true;
}

double Model::getFlops(int index, const TokenSums &part) const {
  const Module &module = modules[index];
  double sum = 0;
  for (int layer : module.layers) {
    const LayerKind &kind = module.kinds[layer];
    for (const Op &op : kind.forward)
      sum += flopsOf(op, part);
    if (module.hasBackward())
      for (const Op &op : kind.input)
        sum += flopsOf(op, part);
    if (module.trainable)
      for (const Op &op : kind.weight)
        sum += flopsOf(op, part);
  }
  return sum;
}

} // namespace dt::planner
