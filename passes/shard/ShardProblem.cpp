//===- ShardProblem.cpp - A function pair as a list of steps ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/ShardProblem.h"

#include "dialects/nn/NNInference.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;

std::optional<State> Variable::find(const Cut &cut) const {
  for (auto [i, c] : llvm::enumerate(cuts))
    if (c == cut)
      return static_cast<State>(kFirstCut + i);
  return std::nullopt;
}

Layout Variable::layout(State state) const {
  if (state == kWhole)
    return {Layout::whole, {0, 0}};
  if (state == kPartial)
    return {Layout::partial, {0, 0}};
  return {Layout::cut, cuts[state - kFirstCut]};
}

std::optional<State> Variable::state(const Layout &layout) const {
  switch (layout.kind) {
  case Layout::whole:
    return kWhole;
  case Layout::partial:
    return kPartial;
  case Layout::cut:
    return find(layout.at);
  }
  return std::nullopt;
}

std::optional<Cut> dt::shard::cutTokens(unsigned dim, int64_t tokens,
                                        const Axis &axis) {
  int64_t chunk = axis.block ? axis.block : tokens / axis.over;
  if (tokens == 0 || tokens % axis.over || tokens % (chunk * axis.over))
    return std::nullopt;
  return Cut{dim, chunk};
}

Pair dt::shard::findPair(func::FuncOp function) {
  dist::ForwardOp link = dist::getLink(function);
  if (!link || link.getPlain() == function.getName())
    return {function, nullptr};
  auto functions = dist::getFunctions<func::FuncOp>(link);
  return {functions.forward, functions.backward};
}

StringAttr dt::shard::getFamily(func::FuncOp function) {
  dist::ForwardOp link = dist::getLink(function);
  if (!link)
    return function.getSymNameAttr();
  return (link.getPlainAttr() ? link.getPlainAttr() : link.getForwardAttr())
      .getAttr();
}

double ShardProblem::evaluate(const nn::DimExpr &size) const {
  auto module = pair.forward->getParentOfType<dist::ModuleOp>();
  auto value = size.evaluate([&](StringRef symbol) -> std::optional<int64_t> {
    auto dim = module.lookupSymbol<nn::DimOp>(symbol);
    return dim ? dim.getMax().value_or(1) : 1;
  });
  return static_cast<double>(value.value_or(1));
}

unsigned ShardProblem::addVariable(Value value) {
  Variable v;
  v.type = cast<RankedTensorType>(value.getType());
  v.shape = nn::getShape(value);
  v.bytes = evaluate(nn::getNumBytes(v.type));
  variables.push_back(std::move(v));
  index[value] = variables.size() - 1;
  return variables.size() - 1;
}

ShardProblem::ShardProblem(Pair pair, const Links *links)
    : pair(pair), moduleFunction(!links) {
  addArguments(links);
  addOps(pair.forward);
  if (pair.backward) {
    steps.push_back({Step::turn});
    addBackwardArguments(links);
    addOps(pair.backward);
    auto ret = pair.backward.front().getTerminator();
    for (Value v : ret->getOperands())
      backwardReturns.push_back(variableOf(v));
    for (auto [i, v] : llvm::enumerate(backwardReturns))
      if (links && links->gradientOf[i])
        variables[v].gradientOf =
            variableOf(pair.forward.getArgument(*links->gradientOf[i]));
  }
  llvm::DenseMap<unsigned, Type> added; // to parameters
  for (const Variable &v : variables)
    if (v.gradientOf >= 0)
      added[v.gradientOf] = v.type.getElementType();
  for (const Step &step : steps)
    if (step.kind == Step::accumulate)
      added[step.operands[1]] =
          variables[step.operands[0]].type.getElementType();
  // Each parameter's gradient is of one kind, whatever contributes to it.
  for (unsigned i = 0, n = variables.size(); i < n; ++i)
    if (variables[i].parameter) {
      Variable gradient; // as is added up, whatever is read
      RankedTensorType read = variables[i].type;
      Type element = added.lookup(i);
      gradient.type = nn::withElementType(
          read, element ? element : nn::scalarOf(read.getElementType()));
      gradient.shape = variables[i].shape;
      gradient.bytes = evaluate(nn::getNumBytes(gradient.type));
      variables[i].gradient = variables.size();
      variables.push_back(std::move(gradient));
    }
  findUses();
}

void ShardProblem::addArguments(const Links *links) {
  for (BlockArgument a : pair.forward.getArguments()) {
    Variable &v = variables[addVariable(a)];
    if (links && links->parameters[a.getArgNumber()])
      v.parameter = v.constant = true;
    else
      v.given = Layout();
  }
}

/// Of a module function: inputs by name, residuals in order. Others are new.
void ShardProblem::addBackwardArguments(const Links *links) {
  SmallVector<unsigned> residuals;
  func::FuncOp f = pair.forward, b = pair.backward;
  for (unsigned i = 0; i < f.getNumResults(); ++i)
    if (f.getResultAttr(i, nn::kResidualAttr))
      residuals.push_back(forwardReturns[i]);
  unsigned next = 0;
  for (BlockArgument a : b.getArguments()) {
    unsigned i = a.getArgNumber();
    if (links) {
      if (auto source = links->backwardArguments[i]) {
        index[a] = source->isResult ? forwardReturns[source->index]
                                    : variableOf(f.getArgument(source->index));
        continue;
      }
    } else if (b.getArgAttr(i, nn::kResidualAttr)) {
      index[a] = residuals[next++];
      continue;
    } else if (auto name = b.getArgAttrOfType<StringAttr>(i, nn::kNameAttr)) {
      if (auto at = dist::ModuleOp::findArgument(f, name.getValue())) {
        index[a] = variableOf(f.getArgument(*at));
        continue;
      }
    }
    variables[addVariable(a)].given = Layout();
  }
}

/// Products and lookups: a factor of two operands of rank 2 or more that no
/// result has.
static bool isContraction(const nn::ShardingRule &rule) {
  auto has = [](const nn::ShardingRule::Dims &dims, unsigned f) {
    return llvm::any_of(
        dims, [&](auto &list) { return llvm::is_contained(list, f); });
  };
  for (const auto &dims : rule.results)
    if (dims.size() < 2)
      return false;
  for (unsigned f = 0; f < rule.factors.size(); ++f) {
    unsigned in = 0;
    for (const auto &dims : rule.operands)
      in += dims.size() >= 2 && has(dims, f);
    bool out =
        llvm::any_of(rule.results, [&](auto &dims) { return has(dims, f); });
    if ((in >= 2 && !out) || rule.factors[f].kind == nn::FactorKind::blocked)
      return true;
  }
  return false;
}

void ShardProblem::addOps(func::FuncOp function) {
  auto module = function->getParentOfType<dist::ModuleOp>();
  for (Operation &op : function.front()) {
    Step step{Step::compute, &op};
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      auto symbol = module.lookupSymbol<nn::ParameterOp>(read.getParameter());
      auto [it, added] = parameters.try_emplace(symbol, 0);
      if (added) {
        it->second = addVariable(read.getResult());
        Variable &v = variables[it->second];
        v.parameter = v.constant = true;
        v.symbol = symbol;
      }
      index[read.getResult()] = it->second;
      continue;
    }
    for (Value v : op.getOperands())
      step.operands.push_back(variableOf(v));
    if (auto add = dyn_cast<nn::AccumulateOp>(op)) {
      auto symbol = module.lookupSymbol<nn::ParameterOp>(add.getParameter());
      auto [it, added] = parameters.try_emplace(symbol, 0);
      if (added) {
        it->second = variables.size();
        Variable v;
        v.type = cast<RankedTensorType>(symbol.getType());
        v.shape = nn::getShape(v.type);
        v.bytes = evaluate(nn::getNumBytes(v.type));
        v.parameter = v.constant = true;
        v.symbol = symbol;
        variables.push_back(std::move(v));
      }
      step.kind = Step::accumulate;
      step.operands.push_back(it->second);
    } else if (isa<func::ReturnOp>(op)) {
      step.kind = Step::finish;
      if (function == pair.forward)
        forwardReturns = {step.operands.begin(), step.operands.end()};
    } else if (isa<func::CallOp>(op)) {
      step.kind = Step::call;
    }
    for (Value v : op.getResults()) {
      unsigned i = addVariable(v);
      variables[i].constant = op.hasTrait<OpTrait::ConstantLike>();
      step.results.push_back(i);
    }
    if (auto cost = dyn_cast<nn::CostOpInterface>(op))
      step.flops = evaluate(cost.getFlops());
    if (auto sharded = dyn_cast<nn::ShardingOpInterface>(op)) {
      step.rule = sharded.getShardingRule();
      step.contraction = isContraction(*step.rule);
    }
    steps.push_back(std::move(step));
  }
}

void ShardProblem::findUses() {
  for (unsigned s = 0; s < steps.size(); ++s) {
    const Step &step = steps[s];
    auto use = [&](unsigned v) {
      variables[v].lastUse = s;
      if (step.kind != Step::finish)
        variables[v].lastRealUse = s;
    };
    for (unsigned v : step.operands)
      use(v);
    for (unsigned v : step.results)
      use(v);
  }
}
