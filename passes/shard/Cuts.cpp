//===- Cuts.cpp - Where values may be cut -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Cuts.h"
#include "passes/shard/CutFinder.h"
#include "passes/shard/Layers.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;

namespace {

/// Values that are known to be cut.
using Known = SmallVector<std::pair<unsigned, Layout>>;
using LayersOf = function_ref<const LayerLayouts *(Operation *)>;

func::FuncOp calleeOf(const Step &step) {
  return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      step.op, cast<func::CallOp>(step.op).getCalleeAttr());
}

/// What inputs and outputs of the program have to be.
void addSettled(const ShardProblem &program, Known &known, bool hints) {
  for (auto [i, v] : llvm::enumerate(program.variables))
    for (auto &layout : {v.given, v.settled})
      if (layout && layout->kind == Layout::cut && (hints || !v.symbol))
        known.push_back({static_cast<unsigned>(i), *layout});
}

/// Samples as inputs of the module have them, also where no attention is.
void addSamples(const ShardProblem &program, const Axis &axis, Known &tokens) {
  func::FuncOp forward = program.pair.forward;
  auto module = forward->getParentOfType<dist::ModuleOp>();
  for (BlockArgument a : forward.getArguments()) {
    unsigned v = program.variableOf(a);
    const nn::Shape &shape = program.variables[v].shape;
    if (shape.empty() || !countsItems(module, shape[0]))
      continue;
    if (auto cut = cutTokens(0, getTokens(shape[0]).value_or(0), axis))
      tokens.push_back({v, {Layout::cut, *cut}});
  }
}

/// Of context parallelism: tokens as attention has them, and as they come and
/// go.
Known findTokens(const ShardProblem &program, const Axis &axis,
                 LayersOf layers) {
  Known tokens;
  if (axis.samples && program.isModuleFunction())
    addSamples(program, axis, tokens);
  auto add = [&](ArrayRef<unsigned> values, ArrayRef<Layout> layouts) {
    for (auto [v, layout] : llvm::zip_first(values, layouts))
      if (layout.kind == Layout::cut && !program.variables[v].parameter)
        tokens.push_back({v, layout});
  };
  for (const Step &step : program.steps) {
    if (step.kind == Step::call) {
      const LayerLayouts *layer = layers(step.op);
      func::FuncOp callee = calleeOf(step);
      // Residuals, which come last, are the layer's own business.
      if (layer && findPair(callee).forward == callee) {
        unsigned outputs = 0;
        while (outputs < callee.getNumResults() &&
               !callee.getResultAttr(outputs, nn::kResidualAttr))
          ++outputs;
        add(step.operands, layer->forwardArguments);
        add(ArrayRef(step.results).take_front(outputs), layer->forwardResults);
      } else if (layer) {
        add(step.results, layer->backwardResults);
      }
    } else if (step.op && isa<nn::AttentionOp, nn::AttentionGradOp>(step.op)) {
      unsigned query = step.operands[0], dim = axis.samples ? 0 : 1;
      auto rows = getTokens(program.variables[query].shape[dim]);
      if (auto cut = cutTokens(dim, rows.value_or(0), axis))
        tokens.push_back({query, {Layout::cut, *cut}});
    }
  }
  addSettled(program, tokens, /*hints=*/true);
  return tokens;
}

/// A call does what its layer was solved for.
void takeCall(ShardProblem &program, CutFinder &finder, Step &step,
              const LayerLayouts *layer, Known &tokens, Known &experts) {
  Strategy s;
  s.flops = step.flops;
  s.operands.assign(step.operands.size(), kWhole);
  s.results.assign(step.results.size(), kWhole);
  if (layer) {
    bool backward = findPair(calleeOf(step)).backward == calleeOf(step) &&
                    !layer->backwardArguments.empty();
    auto take = [&](auto &variables, ArrayRef<Layout> layouts, auto &states) {
      for (auto [v, layout, state] : llvm::zip(variables, layouts, states)) {
        finder.addGiven(v, layout);
        state = program.variables[v].state(layout).value_or(kWhole);
      }
    };
    ArrayRef<Layout> arguments =
        backward ? layer->backwardArguments : layer->forwardArguments;
    take(step.operands, arguments, s.operands);
    take(step.results,
         backward ? layer->backwardResults : layer->forwardResults, s.results);
    for (auto [v, layout] : llvm::zip(step.operands, arguments))
      if (!backward && layout.kind == Layout::cut)
        (program.variables[v].parameter ? experts : tokens)
            .push_back({v, layout});
  }
  step.strategies = {s};
}

/// The stream on its way back, and behind the last layer.
void addStream(const ShardProblem &program, Known &tokens) {
  for (size_t i = 0, given = tokens.size(); i < given; ++i)
    for (auto [j, v] : llvm::enumerate(program.variables))
      if (!v.parameter && v.type == program.variables[tokens[i].first].type &&
          v.find(tokens[i].second.at))
        tokens.push_back({static_cast<unsigned>(j), tokens[i].second});
}

/// The gradient of a parameter may be cut as a call gives it.
void addGradients(const ShardProblem &program, CutFinder &finder) {
  for (const Step &step : program.steps)
    if (step.kind == Step::accumulate)
      for (unsigned i : {0u, 1u})
        for (const Cut &cut : llvm::SmallVector<Cut, 4>(
                 program.variables[step.operands[i]].cuts))
          finder.addGiven(step.operands[1 - i], {Layout::cut, cut});
}

/// Classes of what is known.
void mark(const ShardProblem &program, const Known &known,
          std::vector<bool> &classes) {
  for (auto &[v, layout] : known)
    if (auto s = program.variables[v].state(layout))
      classes[program.variables[v].classes[*s - kFirstCut]] = true;
}

} // namespace

bool dt::shard::countsItems(dist::ModuleOp module, const nn::DimExpr &size) {
  SmallVector<std::string> symbols = size.symbols();
  if (symbols.size() != 1)
    return false;
  auto dim = module.lookupSymbol<nn::DimOp>(symbols[0]);
  return dim && dim.getItem() == module.getItem();
}

bool dt::shard::wantsSmallerAxes(ShardProblem &program, const Axis &axis) {
  CutConstraints info;
  CutFinder finder(program, axis);
  finder.collect();
  finder.spread();
  finder.findCandidates(info);
  return info.wantsSmallerAxes;
}

CutConstraints dt::shard::findCuts(ShardProblem &program, const Axis &axis,
                                   LayersOf layers) {
  CutConstraints info;
  CutFinder finder(program, axis);
  finder.collect();
  Known tokens, experts, settled;
  if (axis.context)
    tokens = findTokens(program, axis, layers);
  for (auto &[v, layout] : tokens)
    finder.addPoint(v, layout.at);
  finder.spread();
  finder.findCandidates(info);
  for (auto &[v, layout] : tokens)
    finder.addGiven(v, layout);
  for (Step &step : program.steps)
    if (step.kind == Step::call)
      takeCall(program, finder, step, layers(step.op), tokens, experts);
  addStream(program, tokens);
  addGradients(program, finder);
  addSettled(program, settled, /*hints=*/true);
  for (auto &[v, layout] : settled)
    finder.addGiven(v, layout);
  addSettled(program, tokens, /*hints=*/false); // a hint is no stream
  finder.classify(info);
  mark(program, tokens, info.tokens);
  mark(program, experts, info.experts);
  finder.routeTokens(info);
  finder.buildStrategies(info);
  return info;
}
