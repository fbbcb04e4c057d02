//===- Cuts.cpp - Where values may be cut -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A dim's cut points are products of its minor factors. Those of one op's rule
// are cut points of every op that shares the dim; a cut in `over` blocks lies
// between two of them.
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Cuts.h"
#include "passes/shard/CutExperts.h"
#include "passes/shard/Localize.h"

#include "llvm/ADT/IntEqClasses.h"
#include <set>

using namespace mlir;
using namespace dt;
using namespace dt::shard;
using nn::DimExpr;
using nn::FactorKind;

namespace {

/// Where a factor is found: elements of one of its indices are `minor` apart.
struct Place {
  unsigned variable, dim;
  int64_t minor;
};

/// Whether a cut is one of the factor that is found there.
bool isAt(const Cut &cut, const Place &p) {
  return p.minor && cut.kind == Cut::blocks && cut.dim == p.dim &&
         cut.chunk % p.minor == 0;
}

/// A factor of a step and its places.
struct Relation {
  int step, factor;
  DimExpr size;
  FactorKind kind;
  SmallVector<Place, 4> places;
};

class CutFinder {
public:
  CutFinder(ShardProblem &program, const Axis &axis)
      : program(program), axis(axis) {
    points.resize(program.variables.size());
    for (auto [i, v] : llvm::enumerate(program.variables)) {
      points[i].resize(v.shape.size());
      for (auto [d, size] : llvm::enumerate(v.shape)) {
        points[i][d].insert(1);
        if (auto n = size.asConstant())
          points[i][d].insert(*n);
      }
    }
  }

  void collect();
  void spread();
  void findCandidates(CutConstraints &info);
  /// The dim may be cut so: a point of its own.
  void addPoint(unsigned variable, const Cut &cut) {
    points[variable][cut.dim].insert(cut.chunk * axis.over);
  }
  void addGiven(unsigned variable, const Layout &layout);
  void classify(CutConstraints &info);
  /// Of a context axis, once it is known what tokens are.
  void routeTokens(CutConstraints &info) {
    if (axis.context && !axis.experts)
      addTokenRows(program, ruleOf, axis, info);
  }
  void buildStrategies(const CutConstraints &info);

  std::vector<nn::ShardingRule> rules; // of relations' steps

private:
  void addRelations(int step, const nn::ShardingRule &rule);
  void tie(unsigned a, unsigned b);
  bool canCut(const Relation &r, int64_t chunk) const;
  std::optional<Strategy> cutFactor(const Relation &r, int64_t chunk) const;
  void addStrategies(int step);
  unsigned id(unsigned variable, unsigned cut) const {
    return variable * kMaxCuts + cut;
  }

  ShardProblem &program;
  Axis axis;
  std::vector<SmallVector<std::set<int64_t>, 4>> points;
  std::vector<Relation> relations;
  std::vector<SmallVector<unsigned>> ofStep;
  std::vector<const nn::ShardingRule *> ruleOf;
  llvm::IntEqClasses classes;
};

} // namespace

//===----------------------------------------------------------------------===//
// Relations
//===----------------------------------------------------------------------===//

void CutFinder::addRelations(int step, const nn::ShardingRule &rule) {
  const Step &s = program.steps[step];
  size_t first = relations.size();
  for (auto [i, f] : llvm::enumerate(rule.factors)) {
    relations.push_back({step, static_cast<int>(i), f.size, f.kind, {}});
    ofStep[step].push_back(first + i);
  }
  auto add = [&](unsigned variable, const nn::ShardingRule::Dims &dims) {
    for (auto [d, list] : llvm::enumerate(dims)) {
      std::optional<int64_t> minor = 1;
      for (unsigned f : llvm::reverse(list)) {
        // A place that is not a number of elements apart cannot be cut at.
        relations[first + f].places.push_back(
            {variable, static_cast<unsigned>(d), minor.value_or(0)});
        auto size = rule.factors[f].size.asConstant();
        minor = minor && size ? std::optional<int64_t>(*minor * *size)
                              : std::nullopt;
      }
    }
  };
  for (auto [v, dims] : llvm::zip(s.operands, rule.operands))
    add(v, dims);
  for (auto [v, dims] : llvm::zip(s.results, rule.results))
    add(v, dims);
}

/// All dims of two variables go together.
void CutFinder::tie(unsigned a, unsigned b) {
  for (auto [d, size] : llvm::enumerate(program.variables[a].shape)) {
    unsigned dim = d;
    relations.push_back(
        {-1, -1, size, FactorKind::pass, {{a, dim, 1}, {b, dim, 1}}});
  }
}

void CutFinder::collect() {
  ofStep.resize(program.steps.size());
  ruleOf.resize(program.steps.size());
  rules.reserve(program.steps.size());
  for (auto [i, step] : llvm::enumerate(program.steps)) {
    if (step.kind == Step::accumulate)
      tie(step.operands[0], step.operands[1]);
    if (step.kind == Step::finish)
      for (unsigned v : step.operands)
        if (program.variables[v].gradientOf >= 0)
          tie(v, program.variables[v].gradientOf);
    if (step.kind != Step::compute)
      continue;
    auto op = dyn_cast<nn::ShardingOpInterface>(step.op);
    if (!op)
      continue;
    rules.push_back(op.getShardingRule());
    ruleOf[i] = &rules.back();
    addRelations(i, rules.back());
  }
}

void CutFinder::spread() {
  auto spreadOne = [&](const Relation &r) {
    std::set<int64_t> inner{1};
    if (auto n = r.size.asConstant())
      inner.insert(*n);
    for (const Place &p : r.places)
      for (int64_t point : points[p.variable][p.dim])
        if (p.minor && point % p.minor == 0 &&
            r.size.exactDiv(DimExpr(point / p.minor)))
          inner.insert(point / p.minor);
    bool changed = false;
    for (const Place &p : r.places)
      for (int64_t point : inner)
        if (p.minor)
          changed |= points[p.variable][p.dim].insert(point * p.minor).second;
    return changed;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Relation &r : relations)
      changed |= spreadOne(r);
    for (const Relation &r : llvm::reverse(relations))
      changed |= spreadOne(r);
  }
}

//===----------------------------------------------------------------------===//
// Candidates and classes
//===----------------------------------------------------------------------===//

void CutFinder::findCandidates(CutConstraints &info) {
  if (axis.experts)
    addRoutedCuts(program, ruleOf, axis);
  for (auto [i, v] : llvm::enumerate(program.variables)) {
    for (auto [d, set] : llvm::enumerate(points[i])) {
      bool whole = false, part = false;
      for (int64_t upper : set) {
        int64_t chunk = upper / axis.over;
        bool crosses = upper % axis.over || llvm::any_of(set, [&](int64_t p) {
                         return p && chunk % p && p % upper;
                       });
        if (upper == 0 || upper == 1)
          continue;
        if (!crosses && v.cuts.size() < kMaxCuts) {
          v.cuts.push_back({static_cast<unsigned>(d), chunk});
          whole = true;
        }
      }
      auto size = v.shape[d].asConstant();
      for (int64_t p = 2; p < axis.over && !whole && size; ++p)
        for (int64_t upper : set)
          part |= axis.over % p == 0 && *size % axis.over == 0 && upper > 1 &&
                  upper % p == 0;
      // Heads and groups only: other small atoms are not worth an axis.
      info.wantsSmallerAxes |= part && set.size() > 2;
    }
  }
}

void CutFinder::addGiven(unsigned variable, const Layout &layout) {
  Variable &v = program.variables[variable];
  if (layout.kind == Layout::cut && !v.find(layout.at) &&
      v.cuts.size() < kMaxCuts)
    v.cuts.push_back(layout.at);
}

void CutFinder::classify(CutConstraints &info) {
  classes.grow(program.variables.size() * kMaxCuts);
  auto forEach = [&](const Relation &r, auto &&callback) {
    for (const Place &p : r.places)
      for (auto [c, cut] : llvm::enumerate(program.variables[p.variable].cuts))
        if (isAt(cut, p) &&
            r.size.exactDiv(DimExpr(cut.chunk / p.minor * axis.over)))
          callback(id(p.variable, c), cut.chunk / p.minor);
  };
  for (const Relation &r : relations) {
    std::map<int64_t, unsigned> first;
    forEach(r, [&](unsigned cut, int64_t chunk) {
      auto [it, added] = first.try_emplace(chunk, cut);
      if (!added)
        classes.join(it->second, cut);
    });
  }
  classes.compress();
  info.blocked.assign(classes.getNumClasses(), false);
  info.tokens.assign(classes.getNumClasses(), false);
  info.experts.assign(classes.getNumClasses(), false);
  for (const Relation &r : relations)
    forEach(r, [&](unsigned cut, int64_t chunk) {
      // What is made from nothing is sliced where it is read.
      if (r.step >= 0 && program.steps[r.step].operands.empty())
        return;
      if (!canCut(r, chunk))
        info.blocked[classes[cut]] = true;
      else if (r.kind == FactorKind::experts)
        info.experts[classes[cut]] = true;
    });
  for (auto [i, v] : llvm::enumerate(program.variables))
    for (unsigned c = 0; c < v.cuts.size(); ++c)
      v.classes.push_back(classes[id(i, c)]);
}

//===----------------------------------------------------------------------===//
// Strategies
//===----------------------------------------------------------------------===//

bool CutFinder::canCut(const Relation &r, int64_t chunk) const {
  if (r.step < 0)
    return true;
  const Step &step = program.steps[r.step];
  const nn::ShardingRule &rule = *ruleOf[r.step];
  FactorCut cut{&rule, static_cast<unsigned>(r.factor), chunk, axis, {}};
  if (r.kind == FactorKind::replicate || r.kind == FactorKind::routed ||
      r.kind == FactorKind::ends)
    return false;
  if (r.kind == FactorKind::experts)
    return axis.experts;
  if (r.kind == FactorKind::blocked) {
    auto local = dyn_cast<LocalizeOpInterface>(step.op);
    return local && local.canCut(cut);
  }
  // What is added to a partial sum would be added by every rank.
  return r.kind != FactorKind::sum || rule.addends.empty();
}

std::optional<Strategy> CutFinder::cutFactor(const Relation &r,
                                             int64_t chunk) const {
  const Step &step = program.steps[r.step];
  const nn::ShardingRule &rule = *ruleOf[r.step];
  Strategy s;
  s.factor = r.factor;
  s.chunk = chunk;
  s.flops = step.flops / axis.over;
  unsigned factor = r.factor;
  auto stateOf = [&](unsigned variable, const nn::ShardingRule::Dims &dims,
                     State without) -> std::optional<State> {
    const Variable &v = program.variables[variable];
    for (auto [d, list] : llvm::enumerate(dims)) {
      const auto *at = llvm::find(list, factor);
      if (at == list.end())
        continue;
      int64_t minor = 1;
      for (const auto *f = list.end(); --f != at;) {
        auto size = rule.factors[*f].size.asConstant();
        if (!size)
          return std::nullopt;
        minor *= *size;
      }
      return v.find({static_cast<unsigned>(d), chunk * minor});
    }
    return without;
  };
  State absent = kPartial;
  if (r.kind == FactorKind::max || r.kind == FactorKind::min) {
    s.reduce =
        r.kind == FactorKind::max ? rt::Reduction::Max : rt::Reduction::Min;
    absent = kWhole;
  }
  for (auto [v, dims] : llvm::zip(step.operands, rule.operands)) {
    auto state = stateOf(v, dims, kWhole);
    if (!state)
      return std::nullopt;
    s.operands.push_back(*state);
  }
  for (auto [v, dims] : llvm::zip(step.results, rule.results)) {
    auto state = stateOf(v, dims, absent);
    // Sums of integers stay integers; partial ones are of floats only.
    bool isFloat = isa<FloatType>(program.variables[v].type.getElementType());
    if (!state || (*state == kPartial && !isFloat))
      return std::nullopt;
    s.results.push_back(*state);
  }
  for (auto [v, state] : llvm::zip(step.operands, s.operands))
    if (state >= kFirstCut)
      s.factorClass = program.variables[v].classes[state - kFirstCut];
  return s;
}

void CutFinder::addStrategies(int index) {
  Step &step = program.steps[index];
  const nn::ShardingRule *rule = ruleOf[index];
  if (rule && isRouted(*rule)) {
    std::optional<Strategy> s = axis.experts
                                    ? runRouted(program, step, *rule, axis)
                                    : runOnTokens(program, step, *rule, axis);
    if (s) {
      step.strategies.push_back(std::move(*s));
      return;
    }
  }
  Strategy whole;
  whole.operands.assign(step.operands.size(), kWhole);
  whole.results.assign(step.results.size(), kWhole);
  whole.flops = step.flops;
  step.strategies.push_back(whole);
  if (!rule)
    return;
  if (auto s = runAlongRows(program, step, *rule, axis))
    step.strategies.push_back(std::move(*s));
  for (const auto &group : rule->linear) {
    Strategy s = whole;
    s.linear = true;
    for (unsigned i : group)
      s.operands[i] = kPartial;
    s.results.assign(step.results.size(), kPartial);
    step.strategies.push_back(s);
  }
  for (unsigned r : ofStep[index]) {
    const Relation &relation = relations[r];
    std::set<int64_t> chunks;
    for (const Place &p : relation.places)
      for (const Cut &cut : program.variables[p.variable].cuts)
        if (isAt(cut, p) &&
            relation.size.exactDiv(DimExpr(cut.chunk / p.minor * axis.over)))
          chunks.insert(cut.chunk / p.minor);
    for (int64_t chunk : chunks)
      if (canCut(relation, chunk))
        if (auto s = cutFactor(relation, chunk))
          step.strategies.push_back(std::move(*s));
  }
}

void CutFinder::buildStrategies(const CutConstraints &) {
  for (auto [i, step] : llvm::enumerate(program.steps))
    if (step.kind == Step::compute)
      addStrategies(i);
}

/// Of context parallelism: tokens as attention has them, and as they come and
/// go.
static SmallVector<std::pair<unsigned, Layout>>
findTokens(const ShardProblem &program, const Axis &axis,
           function_ref<const LayerLayouts *(Operation *)> layers) {
  SmallVector<std::pair<unsigned, Layout>> tokens;
  auto add = [&](ArrayRef<unsigned> values, ArrayRef<Layout> layouts) {
    for (auto [v, layout] : llvm::zip_first(values, layouts))
      if (layout.kind == Layout::cut && !program.variables[v].parameter)
        tokens.push_back({v, layout});
  };
  for (const Step &step : program.steps) {
    if (step.kind == Step::call) {
      const LayerLayouts *layer = layers(step.op);
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
          step.op, cast<func::CallOp>(step.op).getCalleeAttr());
      // Residuals are the layer's own business.
      if (layer && findPair(callee).forward == callee) {
        add(step.operands, layer->forwardArguments);
        add(ArrayRef(step.results).take_front(1), layer->forwardResults);
      } else if (layer) {
        add(step.results, layer->backwardResults);
      }
    } else if (step.op && isa<nn::AttentionOp, nn::AttentionGradOp>(step.op)) {
      unsigned query = step.operands[0];
      auto rows = program.variables[query].shape[1].asConstant();
      if (auto cut = cutTokens(1, rows.value_or(0), axis))
        tokens.push_back({query, {Layout::cut, *cut}});
    }
  }
  for (auto [i, v] : llvm::enumerate(program.variables))
    for (auto &layout : {v.given, v.settled})
      if (layout && layout->kind == Layout::cut)
        tokens.push_back({static_cast<unsigned>(i), *layout});
  return tokens;
}

CutConstraints
dt::shard::findCuts(ShardProblem &program, const Axis &axis,
                    function_ref<const LayerLayouts *(Operation *)> layers) {
  CutConstraints info;
  CutFinder finder(program, axis);
  finder.collect();
  SmallVector<std::pair<unsigned, Layout>> tokens, experts;
  if (axis.context)
    tokens = findTokens(program, axis, layers);
  for (auto &[v, layout] : tokens)
    finder.addPoint(v, layout.at);
  finder.spread();
  finder.findCandidates(info);
  for (auto &[v, layout] : tokens)
    finder.addGiven(v, layout);
  for (Step &step : program.steps) {
    if (step.kind != Step::call)
      continue;
    const LayerLayouts *layer = layers(step.op);
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        step.op, cast<func::CallOp>(step.op).getCalleeAttr());
    bool backward = layer && findPair(callee).backward == callee &&
                    !layer->backwardArguments.empty();
    Strategy s;
    s.flops = step.flops;
    if (!layer) {
      s.operands.assign(step.operands.size(), kWhole);
      s.results.assign(step.results.size(), kWhole);
      step.strategies = {s};
      continue;
    }
    auto &arguments =
        backward ? layer->backwardArguments : layer->forwardArguments;
    auto &results = backward ? layer->backwardResults : layer->forwardResults;
    auto state = [&](unsigned v, const Layout &layout) {
      finder.addGiven(v, layout);
      return program.variables[v].state(layout).value_or(kWhole);
    };
    for (auto [v, layout] : llvm::zip(step.operands, arguments)) {
      s.operands.push_back(state(v, layout));
      if (backward || layout.kind != Layout::cut)
        continue;
      bool parameter = program.variables[v].parameter;
      (parameter ? experts : tokens).push_back({v, layout});
    }
    for (auto [v, layout] : llvm::zip(step.results, results))
      s.results.push_back(state(v, layout));
    step.strategies = {s};
  }
  // The stream on its way back, and behind the last layer.
  for (size_t i = 0, given = tokens.size(); i < given; ++i)
    for (auto [j, v] : llvm::enumerate(program.variables))
      if (!v.parameter && v.type == program.variables[tokens[i].first].type &&
          v.find(tokens[i].second.at))
        tokens.push_back({static_cast<unsigned>(j), tokens[i].second});
  // The gradient of a parameter may be cut as a call gives it.
  for (const Step &step : program.steps)
    if (step.kind == Step::accumulate)
      for (unsigned i : {0u, 1u})
        for (const Cut &cut : llvm::SmallVector<Cut, 4>(
                 program.variables[step.operands[i]].cuts))
          finder.addGiven(step.operands[1 - i], {Layout::cut, cut});
  for (auto [i, v] : llvm::enumerate(program.variables))
    for (auto &layout : {v.given, v.settled})
      if (layout && layout->kind == Layout::cut) {
        finder.addGiven(i, *layout);
        if (!v.symbol) // a hint for a parameter is no stream
          tokens.push_back({static_cast<unsigned>(i), *layout});
      }
  finder.classify(info);
  for (auto &[v, layout] : tokens) {
    const Variable &variable = program.variables[v];
    if (auto s = variable.state(layout))
      info.tokens[variable.classes[*s - kFirstCut]] = true;
  }
  for (auto &[v, layout] : experts)
    if (auto s = program.variables[v].state(layout))
      info.experts[program.variables[v].classes[*s - kFirstCut]] = true;
  finder.routeTokens(info);
  finder.buildStrategies(info);
  return info;
}
