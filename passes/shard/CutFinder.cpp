//===- CutFinder.cpp - What factors say of cuts -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/CutFinder.h"
#include "passes/shard/Localize.h"
#include "passes/shard/Ring.h"
#include "passes/shard/SendRows.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;
using nn::DimExpr;
using nn::FactorKind;

/// Whether a cut is one of the factor that is found there.
static bool isAt(const Cut &cut, const Place &p) {
  return p.minor && cut.kind == Cut::blocks && cut.dim == p.dim &&
         cut.chunk % p.minor == 0;
}

static bool isMultiple(const DimExpr &size, int64_t of) {
  return of != 0 && llvm::all_of(size.terms(), [&](const auto &term) {
           return term.coefficient % of == 0;
         });
}

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
  for (auto [i, step] : llvm::enumerate(program.steps)) {
    if (step.kind == Step::accumulate)
      tie(step.operands[0], step.operands[1]);
    if (step.kind == Step::finish)
      for (unsigned v : step.operands)
        if (program.variables[v].gradientOf >= 0)
          tie(v, program.variables[v].gradientOf);
    if (step.kind != Step::compute || !step.rule)
      continue;
    ruleOf[i] = &*step.rule;
    addRelations(i, *step.rule);
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
            isMultiple(r.size, point / p.minor))
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
        if (isAt(cut, p) && isMultiple(r.size, cut.chunk / p.minor * axis.over))
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
      r.kind == FactorKind::places || r.kind == FactorKind::ends)
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

void CutFinder::addStrategies(int index, const CutConstraints &info) {
  Step &step = program.steps[index];
  const nn::ShardingRule *rule = ruleOf[index];
  if (rule && isRouted(*rule)) {
    std::optional<Strategy> s = axis.experts
                                    ? runRouted(program, step, *rule, axis)
                                    : runOnTokens(program, step, *rule, axis);
    if (s) {
      step.strategies.push_back(std::move(*s));
      if (auto sent = runSending(program, step, *rule, axis, info.tokens))
        step.strategies.push_back(std::move(*sent));
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
            isMultiple(relation.size, cut.chunk / p.minor * axis.over))
          chunks.insert(cut.chunk / p.minor);
    for (int64_t chunk : chunks)
      if (canCut(relation, chunk))
        if (auto s = cutFactor(relation, chunk))
          step.strategies.push_back(std::move(*s));
  }
}

void CutFinder::buildStrategies(const CutConstraints &info) {
  for (auto [i, step] : llvm::enumerate(program.steps))
    if (step.kind == Step::compute) {
      addStrategies(i, info);
      if (ruleOf[i])
        chooseKeys(program, step, *ruleOf[i], axis);
    }
}
