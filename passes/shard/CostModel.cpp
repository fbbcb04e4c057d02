//===- CostModel.cpp - What steps and conversions cost ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Bytes that a rank sends in a ring of n: (n-1)/n of the value for a gather or
// a reduce-scatter, twice that for an all-reduce, a further 1/n for an
// all-to-all.
//
//===----------------------------------------------------------------------===//

#include "passes/shard/LayoutSearch.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;

/// What should not happen costs so much more than its bytes.
static constexpr double kPenalty = 1000;
/// What cannot be done: rows of other ranks' experts are nowhere here.
static constexpr double kImpossible = 1e15;
/// A message, however short.
static constexpr double kLatency = 64;

static Mask bit(State state) { return static_cast<Mask>(1u << state); }
static constexpr Mask kCutBits =
    static_cast<Mask>(((1u << kMaxCuts) - 1) << kFirstCut);

static State lowest(Mask mask) {
  return static_cast<State>(llvm::countr_zero(mask));
}

static bool isAttention(Operation *op) {
  return isa_and_nonnull<nn::AttentionOp, nn::AttentionGradOp>(op);
}

/// Each rank has experts of its own, which may be those of any token.
bool CostModel::routesAll(const Step &step) const {
  return axis.experts && isa_and_nonnull<nn::RouteOp, nn::DispatchOp>(step.op);
}

unsigned CostModel::findTurn(const ShardProblem &program) {
  for (unsigned i = 0; i < program.steps.size(); ++i)
    if (program.steps[i].kind == Step::turn)
      return i;
  return 0; // nothing comes back
}

Masks CostModel::begin() const {
  Masks masks(program.variables.size(), 0);
  for (auto [i, v] : llvm::enumerate(program.variables)) {
    if (v.given)
      masks[i] = bit(v.state(*v.given).value_or(kWhole));
    else if (v.parameter)
      masks[i] = kUndecided;
  }
  return masks;
}

double CostModel::price(unsigned variable, State from, State to) const {
  const Variable &v = program.variables[variable];
  if (v.isRouted(from) || v.isRouted(to))
    return kImpossible;
  double bytes = v.bytes, n = static_cast<double>(axis.over),
         ring = (n - 1) / n * bytes;
  if (from == kWhole) // slices, zeros on other ranks
    return (to == kPartial ? 4e-3 : 1e-4) * bytes;
  if (from == kPartial)
    return kLatency + (to == kWhole ? 2 * ring : ring);
  return kLatency + (to == kWhole ? ring : ring / n);
}

double CostModel::store(unsigned variable, State state) const {
  double whole = program.variables[variable].price;
  return state >= kFirstCut ? whole / static_cast<double>(axis.over) : whole;
}

/// Tokens become heads, or come back (Jacobs et al. 2023, DeepSpeed Ulysses).
bool CostModel::changesTokens(const Variable &v, State from, State to) const {
  unsigned a = from - kFirstCut, b = to - kFirstCut;
  return axis.context && v.cuts[a].dim != v.cuts[b].dim &&
         (cuts.tokens[v.classes[a]] || cuts.tokens[v.classes[b]]);
}

/// Makes `to` available. Partial sums and slices are used up, gathered copies
/// stay beside what was gathered; not those of parameters, whose state is the
/// layout in both functions.
double CostModel::convert(Masks &masks, unsigned variable, State to,
                          bool mayGather, Log *log, bool forward) const {
  Mask &mask = masks[variable];
  const Variable &v = program.variables[variable];
  if (mask & bit(to))
    return 0;
  double cost = 0;
  if (mask & kUndecided) {
    State decided = to == kPartial ? kWhole : to;
    mask = bit(decided);
    cost = store(variable, decided);
    if (decided == to)
      return cost;
  }
  State from;
  if (mask & bit(kWhole)) {
    from = kWhole;
  } else if (mask & bit(kPartial)) {
    from = kPartial;
  } else {
    assert(mask & kCutBits && "variable without a state");
    from = lowest(mask);
    bool tokens = cuts.tokens[v.classes[from - kFirstCut]];
    double factor = mayGather && tokens && !v.parameter ? 1 : kPenalty;
    if (to == kPartial) { // whole first
      cost += factor * price(variable, from, kWhole);
      if (log)
        log->push_back({variable, from, kWhole});
      if (!v.parameter)
        mask |= bit(kWhole);
      from = kWhole;
    } else {
      if (to >= kFirstCut)
        factor = changesTokens(v, from, to) ? 1 : kPenalty;
      cost += (factor - 1) * price(variable, from, to);
    }
  }
  // The gradient of features that are cut here comes back cut: it would be
  // gathered, which is no cheaper than to reduce at once.
  if (forward && to >= kFirstCut && !v.constant && !axis.context &&
      isa<FloatType>(v.type.getElementType()) &&
      !cuts.tokens[v.classes[to - kFirstCut]])
    cost += kPenalty * price(variable, to, kWhole);
  cost += price(variable, from, to);
  if (log)
    log->push_back({variable, from, to});
  if (from == kPartial)
    mask = bit(to);
  else if (from >= kFirstCut && !v.parameter)
    mask |= bit(to);
  return cost;
}

bool CostModel::widens(const Step &step) const {
  return step.operands.size() == 1 && step.results.size() == 1 &&
         program.variables[step.results[0]].bytes >
             program.variables[step.operands[0]].bytes;
}

/// Whole operands, sums that are partial already, a cut that some operand has
/// or a parameter may take, or one that only the result has; and along the
/// tokens a sum that this op makes wider (a cast to float32): it is reduced
/// before, or what is wider would travel. On a context axis all may become
/// tokens anywhere, attention may want heads, and parameters are cut into
/// experts or not at all.
bool CostModel::isAllowed(const Masks &masks, const Step &step,
                          const Strategy &s) const {
  if (step.kind != Step::compute || step.strategies.size() == 1)
    return true;
  auto mask = [&](unsigned i) { return masks[step.operands[i]]; };
  if (s.linear) {
    for (unsigned i = 0; i < s.operands.size(); ++i)
      if (s.operands[i] == kPartial && mask(i) == bit(kPartial))
        return true;
    return false;
  }
  if (s.factor < 0)
    return true;
  bool anyOperand = false, matches = false;
  for (unsigned i = 0; i < s.operands.size(); ++i) {
    if (s.operands[i] < kFirstCut)
      continue;
    const Variable &v = program.variables[step.operands[i]];
    anyOperand = true;
    bool tokens = cuts.tokens[v.classes[s.operands[i] - kFirstCut]];
    if (axis.context) {
      bool experts = cuts.experts[v.classes[s.operands[i] - kFirstCut]];
      if (v.parameter && !experts && !tokens)
        return false;
      matches |= tokens || (v.parameter && experts) ||
                 (isAttention(step.op) && (mask(i) & kCutBits)) ||
                 (!v.constant && (mask(i) & bit(s.operands[i])));
      continue;
    }
    if (mask(i) == bit(kPartial) && widens(step))
      matches |= tokens;
    else if (mask(i) & kUndecided)
      matches |= !cuts.blocked[v.classes[s.operands[i] - kFirstCut]];
    else
      matches |= !v.constant && (mask(i) & bit(s.operands[i]));
    // A parameter that has its layout keeps it.
    if (v.parameter &&
        !(mask(i) & (kUndecided | bit(kWhole) | bit(s.operands[i]))))
      return false;
    matches |= v.parameter && (mask(i) & bit(s.operands[i]));
  }
  return matches || !anyOperand;
}

/// Into the parameter's layout; of a whole one, partial sums may wait for the
/// end of the step.
double CostModel::addGradient(Masks &masks, unsigned gradient,
                              unsigned parameter, Log *log) const {
  const Variable &p = program.variables[parameter];
  const Variable &g = program.variables[gradient];
  double cost = 0;
  if (masks[parameter] & kUndecided) {
    masks[parameter] = bit(kWhole);
    cost += store(parameter, kWhole);
  }
  if (masks[parameter] & kCutBits) {
    Layout layout = p.layout(lowest(masks[parameter] & kCutBits));
    auto state = g.find(layout.at);
    return cost + convert(masks, gradient, state.value_or(kWhole), false, log);
  }
  Mask &kind = masks[p.gradient];
  bool partial = masks[gradient] == bit(kPartial);
  if (!kind) {
    kind = bit(partial ? kPartial : kWhole);
    if (partial && !axis.context) // there all of them are
      cost += price(gradient, kPartial, kWhole) / prices.microbatches;
  }
  return cost + convert(masks, gradient, lowest(kind), false, log);
}

State CostModel::gradientState(const Masks &masks, unsigned gradient,
                               unsigned parameter) const {
  const Variable &p = program.variables[parameter];
  if (Mask cut = masks[parameter] & kCutBits)
    return program.variables[gradient]
        .find(p.layout(lowest(cut)).at)
        .value_or(kWhole);
  return lowest(masks[p.gradient]);
}

/// A module function returns residuals beside outputs, a layer a value that is
/// both once.
State CostModel::returned(const Masks &masks, unsigned variable,
                          bool residual) const {
  const Variable &v = program.variables[variable];
  Mask mask = masks[variable];
  if (v.parameter) {
    Mask decided = mask & ~kUndecided;
    return decided ? lowest(decided) : kWhole;
  }
  if (v.settled && !residual)
    if (auto state = v.state(*v.settled))
      return *state;
  return mask & kCutBits ? lowest(mask & kCutBits) : kWhole;
}

double CostModel::finish(Masks &masks, const Step &step,
                         Applied *applied) const {
  double cost = 0;
  auto function = step.op->getParentOfType<func::FuncOp>();
  Log *log = applied ? &applied->before : nullptr;
  for (auto [i, operand] : llvm::enumerate(step.operands)) {
    const Variable &v = program.variables[operand];
    bool residual = function.getResultAttr(i, nn::kResidualAttr) != nullptr;
    State state;
    if (v.gradientOf >= 0 && function == program.pair.backward) {
      cost += addGradient(masks, operand, v.gradientOf, log);
      state = gradientState(masks, operand, v.gradientOf);
    } else {
      state = returned(masks, operand, residual);
      if (!v.parameter)
        cost += convert(masks, operand, state, true, log);
    }
    if (applied)
      applied->operands.push_back(state);
  }
  return cost;
}

/// A residual keeps one state, a cut one if it has one: a gathered copy is
/// gathered again.
double CostModel::turn(Masks &masks, unsigned step, Log *log) const {
  double cost = 0;
  for (auto [i, v] : llvm::enumerate(program.variables)) {
    if (v.parameter || !masks[i] || v.lastUse <= static_cast<int>(step))
      continue;
    if (masks[i] == bit(kPartial))
      cost += convert(masks, i, kWhole, false, log);
    State state = returned(masks, i, program.isModuleFunction());
    cost += convert(masks, i, state, false, log);
    masks[i] = bit(state);
  }
  return cost;
}

/// What only the return still needs gets its final state now; what nobody needs
/// is forgotten.
double CostModel::settle(Masks &masks, unsigned index, Log *log) const {
  const Step &step = program.steps[index];
  double cost = 0;
  int at = static_cast<int>(index);
  auto visit = [&](unsigned i) {
    const Variable &v = program.variables[i];
    if (v.parameter || v.lastRealUse > at)
      return;
    if (v.lastUse <= at) {
      masks[i] = 0;
    } else if (step.kind != Step::finish && masks[i]) {
      if (v.gradientOf >= 0)
        cost += addGradient(masks, i, v.gradientOf, log);
      else if (v.settled)
        cost += convert(masks, i, returned(masks, i, false), true, log);
    }
  };
  for (unsigned i : step.operands)
    visit(i);
  for (unsigned i : step.results)
    visit(i);
  return cost;
}

double CostModel::apply(Masks &masks, unsigned index, const Strategy *s,
                        Applied *applied) const {
  const Step &step = program.steps[index];
  Log *before = applied ? &applied->before : nullptr;
  double cost = 0;
  if (step.kind == Step::accumulate) {
    cost = addGradient(masks, step.operands[0], step.operands[1], before);
    if (applied)
      applied->operands = {
          gradientState(masks, step.operands[0], step.operands[1])};
  } else if (step.kind == Step::finish) {
    cost = finish(masks, step, applied);
  } else if (step.kind == Step::turn) {
    cost = turn(masks, index, before);
  } else {
    // Activations of all tokens are what a context axis is to spare.
    bool mayGather = step.kind == Step::call ||
                     (axis.context ? isAttention(step.op) || routesAll(step)
                                   : step.contraction);
    for (auto [v, state] : llvm::zip(step.operands, s->operands))
      cost += convert(masks, v, state, mayGather, before, index < turnIndex);
    for (auto [v, state] : llvm::zip(step.results, s->results)) {
      masks[v] = bit(state);
      if (s->reduce)
        cost += price(v, kPartial, kWhole);
    }
    cost += s->flops * prices.flop + (s->linear ? 1 : 0) +
            (s->sends ? kLatency + s->traffic : 0);
  }
  return cost + settle(masks, index, applied ? &applied->after : nullptr);
}

double CostModel::partialBytes(const Masks &masks) const {
  constexpr size_t kBlock = 64;
  double bytes = 0;
  // Few are partial sums, and this runs for every frontier and step: blocks are
  // looked through as vectors.
  for (size_t begin = 0; begin < masks.size(); begin += kBlock) {
    size_t end = std::min(begin + kBlock, masks.size());
    Mask any = 0;
#pragma clang loop vectorize(enable)
    for (size_t i = begin; i < end; ++i)
      any |= Mask(masks[i] == bit(kPartial));
    for (size_t i = begin; any && i < end; ++i)
      if (masks[i] == bit(kPartial) && !waits(masks, i))
        bytes += program.variables[i].bytes;
  }
  return bytes;
}

/// A gradient that may wait for the end of the step has been paid for.
bool CostModel::waits(const Masks &masks, unsigned variable) const {
  int of = program.variables[variable].gradientOf;
  return of >= 0 && masks[program.variables[of].gradient] == bit(kPartial);
}
