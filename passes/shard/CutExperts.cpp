//===- CutExperts.cpp - Rows that stand with their experts ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/CutExperts.h"
#include "dialects/dist/SharedExperts.h"
#include "passes/shard/Passes.h"
#include "passes/shard/SendRows.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;
using nn::FactorKind;
using nn::ShardingRule;

namespace {

std::optional<unsigned> findFactor(const ShardingRule &rule, FactorKind kind) {
  for (auto [i, factor] : llvm::enumerate(rule.factors))
    if (factor.kind == kind)
      return i;
  return std::nullopt;
}

/// Experts of one rank, of an op that knows how many there are.
int64_t countOwn(const ShardingRule &rule, const Axis &axis) {
  auto experts = findFactor(rule, FactorKind::experts);
  return experts ? rule.factors[*experts].size.constant() / axis.over : 0;
}

/// What becomes of the rows of a routed op.
Cut cutRows(Operation *op, const ShardingRule &rule, const Axis &axis) {
  int64_t chunk = takesLess(op, rule, axis)
                      ? getLocalRoom(op, axis)->terms()[0].coefficient
                      : 0;
  return {0, chunk, Cut::ofExperts};
}

/// What becomes of a value of a routed op.
std::optional<Cut> cutOf(Operation *op, const ShardingRule &rule,
                         const ShardingRule::Dims &dims, const Axis &axis) {
  for (auto [d, list] : llvm::enumerate(dims))
    for (unsigned f : list)
      switch (rule.factors[f].kind) {
      case FactorKind::routed:
        return cutRows(op, rule, axis);
      case FactorKind::places:
        return Cut{0, 0, Cut::ofExperts};
      case FactorKind::ends:
        return Cut{0, countOwn(rule, axis), Cut::ends};
      case FactorKind::experts:
        return Cut{static_cast<unsigned>(d), countOwn(rule, axis)};
      default:
        break;
      }
  return std::nullopt;
}

/// Calls back with each variable of a step and its dims.
template <typename Callback>
void forEachValue(const Step &step, const ShardingRule &rule,
                  Callback callback) {
  for (auto [v, dims] : llvm::zip(step.operands, rule.operands))
    callback(v, dims);
  for (auto [v, dims] : llvm::zip(step.results, rule.results))
    callback(v, dims);
}

/// The rows of a rank's tokens, if it has such a cut.
std::optional<Cut> findTokenRows(const Variable &v) {
  for (const Cut &cut : v.cuts)
    if (cut.kind == Cut::ofTokens && cut.chunk)
      return cut;
  return std::nullopt;
}

/// The rows of a rank's experts, if it has such a cut.
std::optional<Cut> findExpertRows(const Variable &v) {
  for (const Cut &cut : v.cuts)
    if (cut.kind == Cut::ofExperts)
      return cut;
  return std::nullopt;
}

/// The chunk of a routed step's rows, where they are cut by tokens.
std::optional<int64_t> findRowChunk(const ShardProblem &program,
                                    const Step &step,
                                    const ShardingRule &rule) {
  std::optional<int64_t> chunk;
  forEachValue(step, rule, [&](unsigned v, auto &) {
    if (auto cut = findTokenRows(program.variables[v]))
      chunk = cut->chunk;
  });
  return chunk;
}

/// What becomes of a value of a routed op by tokens. What such an op needs
/// whole else are tokens, each of which has a number of rows.
std::optional<Cut> tokenCutOf(const ShardingRule &rule,
                              const ShardingRule::Dims &dims, int64_t chunk) {
  const nn::DimExpr &rows =
      rule.factors[*findFactor(rule, FactorKind::routed)].size;
  for (auto [d, list] : llvm::enumerate(dims))
    for (unsigned f : list) {
      FactorKind kind = rule.factors[f].kind;
      if (kind == FactorKind::routed || kind == FactorKind::places ||
          kind == FactorKind::ends)
        return Cut{0, kind == FactorKind::ends ? 0 : chunk, Cut::ofTokens};
      if (kind != FactorKind::replicate)
        continue;
      auto each = rows.exactDiv(rule.factors[f].size);
      auto number = each ? each->asConstant() : std::nullopt;
      // Of no size a value has: nothing is cut so.
      bool fits = number && *number > 0 && chunk % *number == 0;
      return Cut{static_cast<unsigned>(d), fits ? chunk / *number : 0};
    }
  return std::nullopt;
}

/// With operands and results as `cutOf` says of their dims; other operands are
/// whole, other results partial sums. Nothing where a value has no such cut.
std::optional<Strategy>
runCut(const ShardProblem &program, const Step &step, const ShardingRule &rule,
       const Axis &axis,
       function_ref<std::optional<Cut>(const ShardingRule::Dims &)> cutOf) {
  Strategy s;
  s.flops = step.flops / static_cast<double>(axis.over);
  bool possible = true;
  auto states = [&](auto &variables, auto &lists, State without, auto &into) {
    for (auto [v, dims] : llvm::zip(variables, lists)) {
      auto cut = cutOf(dims);
      auto state = cut ? program.variables[v].find(*cut) : without;
      possible &= state.has_value();
      into.push_back(state.value_or(kWhole));
    }
  };
  states(step.operands, rule.operands, kWhole, s.operands);
  states(step.results, rule.results, kPartial, s.results);
  return possible ? std::optional(s) : std::nullopt;
}

} // namespace

std::optional<nn::DimExpr> dt::shard::getLocalRoom(Operation *op,
                                                   const Axis &axis) {
  auto room =
      llvm::TypeSwitch<Operation *, nn::DimAttr>(op)
          .Case<nn::RouteOp, nn::DispatchOp, nn::CombineOp, nn::GroupedLinearOp,
                nn::GroupedLinearDwOp, nn::GroupedSumOp>(
              [](auto routed) { return routed.getRoomAttr(); })
          .Default(nn::DimAttr());
  if (!room || !axis.bounded)
    return std::nullopt;
  return room.getSize().exactDiv(nn::DimExpr(axis.over));
}

bool dt::shard::takesLess(Operation *op, const ShardingRule &rule,
                          const Axis &axis) {
  auto room = getLocalRoom(op, axis);
  auto rows = findFactor(rule, FactorKind::routed);
  return room && rows && nn::isSmaller(*room, rule.factors[*rows].size);
}

bool dt::shard::isRouted(const ShardingRule &rule) {
  return findFactor(rule, FactorKind::routed).has_value();
}

void dt::shard::addRoutedCuts(ShardProblem &program, StepRules rules,
                              const Axis &axis) {
  bool changed;
  auto add = [&](unsigned variable, const Cut &cut) {
    Variable &v = program.variables[variable];
    if (v.find(cut) || v.cuts.size() == kMaxCuts)
      return;
    v.cuts.push_back(cut);
    changed = true;
  };
  for (auto [step, rule] : llvm::zip(program.steps, rules))
    if (rule && isRouted(*rule))
      forEachValue(step, *rule, [&](unsigned v, auto &dims) {
        auto cut = cutOf(step.op, *rule, dims, axis);
        if (cut && cut->kind != Cut::blocks)
          add(v, *cut);
      });
  for (auto [step, rule] : llvm::zip(program.steps, rules))
    if (rule && isRouted(*rule))
      for (auto [v, cut] : findSentCuts(program, step, *rule, axis))
        add(v, cut);
  auto spread = [&](const Step &step, const ShardingRule &rule) {
    auto rows = nn::findRows(rule);
    std::optional<Cut> cut;
    if (rows)
      forEachValue(step, rule, [&](unsigned v, auto &dims) {
        if (auto known = findExpertRows(program.variables[v]);
            known && nn::hasFactor(dims, *rows))
          cut = known;
      });
    if (cut)
      forEachValue(step, rule, [&](unsigned v, auto &dims) {
        if (nn::hasFactor(dims, *rows))
          add(v, *cut);
      });
  };
  do {
    changed = false;
    for (auto [step, rule] : llvm::zip(program.steps, rules))
      if (rule && !isRouted(*rule))
        spread(step, *rule);
  } while (changed);
}

std::optional<Strategy> dt::shard::runRouted(const ShardProblem &program,
                                             const Step &step,
                                             const ShardingRule &rule,
                                             const Axis &axis) {
  auto s = runCut(program, step, rule, axis,
                  [&](auto &dims) { return cutOf(step.op, rule, dims, axis); });
  if (s) {
    s->factor = static_cast<int>(*findFactor(rule, FactorKind::routed));
    s->chunk = countOwn(rule, axis);
  }
  return s;
}

std::optional<Strategy> dt::shard::runAlongRows(const ShardProblem &program,
                                                const Step &step,
                                                const ShardingRule &rule,
                                                const Axis &axis) {
  auto rows = nn::findRows(rule);
  if (!rows)
    return std::nullopt;
  const Variable &result = program.variables[step.results[0]];
  auto cut = axis.experts ? findExpertRows(result) : findTokenRows(result);
  if (!cut)
    return std::nullopt;
  Strategy s;
  s.factor = static_cast<int>(*rows);
  s.flops =
      axis.experts ? step.flops : step.flops / static_cast<double>(axis.over);
  bool possible = true;
  auto states = [&](auto &variables, auto &lists, auto &into) {
    for (auto [v, dims] : llvm::zip(variables, lists)) {
      auto state =
          nn::hasFactor(dims, *rows) ? program.variables[v].find(*cut) : kWhole;
      possible &= state.has_value();
      into.push_back(state.value_or(kWhole));
    }
  };
  states(step.operands, rule.operands, s.operands);
  states(step.results, rule.results, s.results);
  return possible ? std::optional(s) : std::nullopt;
}

std::optional<Strategy> dt::shard::runOnTokens(const ShardProblem &program,
                                               const Step &step,
                                               const ShardingRule &rule,
                                               const Axis &axis) {
  auto chunk = findRowChunk(program, step, rule);
  if (!chunk)
    return std::nullopt;
  // Of no factor: the op is the same on the rank's rows.
  return runCut(program, step, rule, axis,
                [&](auto &dims) { return tokenCutOf(rule, dims, *chunk); });
}

namespace {

/// Finds what may be cut by tokens, or that nothing may.
class TokenRows {
public:
  TokenRows(ShardProblem &program, StepRules rules, const Axis &axis,
            CutConstraints &info)
      : program(program), rules(rules), axis(axis), info(info) {}
  void run();

private:
  void add(unsigned variable, const Cut &cut);
  void begin(const Step &step);
  void spread(const Step &step, const ShardingRule &rule);
  bool isPossible(const Step &step, const ShardingRule *rule) const;
  bool isReturned(const Step &step) const;

  ShardProblem &program;
  StepRules rules;
  Axis axis;
  CutConstraints &info;
  SmallVector<unsigned> added; ///< variables, one each cut
  bool changed = false, possible = true;
};

} // namespace

void TokenRows::add(unsigned variable, const Cut &cut) {
  Variable &v = program.variables[variable];
  if (v.find(cut))
    return;
  auto before = findTokenRows(v);
  possible &= v.cuts.size() < kMaxCuts && !before; // one order of rows each
  if (!possible)
    return;
  v.cuts.push_back(cut);
  v.classes.push_back(info.blocked.size());
  for (auto *list : {&info.blocked, &info.tokens, &info.experts})
    list->push_back(false);
  added.push_back(variable);
  changed = true;
}

/// Numbers of experts that come cut along tokens.
void TokenRows::begin(const Step &step) {
  const Variable &numbers = program.variables[step.operands[0]];
  for (auto [cut, inClass] : llvm::zip(numbers.cuts, numbers.classes))
    if (cut.kind == Cut::blocks && info.tokens[inClass])
      return add(step.results[0], {0, cut.chunk, Cut::ofTokens});
}

void TokenRows::spread(const Step &step, const ShardingRule &rule) {
  if (isRouted(rule)) {
    if (auto chunk = findRowChunk(program, step, rule))
      forEachValue(step, rule, [&](unsigned v, auto &dims) {
        auto cut = tokenCutOf(rule, dims, *chunk);
        if (cut && cut->kind == Cut::ofTokens)
          add(v, *cut);
      });
    return;
  }
  auto rows = nn::findRows(rule);
  std::optional<Cut> cut;
  if (rows)
    forEachValue(step, rule, [&](unsigned v, auto &dims) {
      if (auto known = findTokenRows(program.variables[v]);
          known && nn::hasFactor(dims, *rows))
        cut = known;
    });
  if (cut)
    forEachValue(step, rule, [&](unsigned v, auto &dims) {
      if (nn::hasFactor(dims, *rows))
        add(v, *cut);
    });
}

/// Whether the step hands rows to somebody who has others. Residuals do not.
bool TokenRows::isReturned(const Step &step) const {
  auto function = step.op->getParentOfType<func::FuncOp>();
  for (auto [i, v] : llvm::enumerate(step.operands)) {
    bool residual =
        function == program.pair.forward &&
        (function.getResultAttr(i, nn::kResidualAttr) ||
         (!program.isModuleFunction() && !program.variables[v].settled));
    if (!residual && llvm::is_contained(added, v))
      return true;
  }
  return false;
}

bool TokenRows::isPossible(const Step &step, const ShardingRule *rule) const {
  auto isAdded = [&](unsigned v) { return llvm::is_contained(added, v); };
  if (llvm::none_of(step.operands, isAdded) &&
      llvm::none_of(step.results, isAdded))
    return true;
  if (step.kind == Step::finish)
    return !isReturned(step);
  if (step.kind == Step::call) // as the layer has them
    return llvm::all_of(llvm::zip(step.operands, step.strategies[0].operands),
                        [&](auto operand) {
                          auto [v, state] = operand;
                          return !isAdded(v) ||
                                 program.variables[v].isRouted(state);
                        });
  if (step.kind != Step::compute || !rule)
    return false;
  return (isRouted(*rule) ? runOnTokens(program, step, *rule, axis)
                          : runAlongRows(program, step, *rule, axis))
      .has_value();
}

void TokenRows::run() {
  for (const Step &step : program.steps)
    if (isa_and_nonnull<nn::RouteOp>(step.op))
      begin(step);
  do {
    changed = false;
    for (auto [step, rule] : llvm::zip(program.steps, rules))
      if (rule)
        spread(step, *rule);
  } while (changed);
  for (auto [step, rule] : llvm::zip(program.steps, rules))
    possible &= isPossible(step, rule);
  if (possible)
    return;
  for (unsigned v : llvm::reverse(added)) {
    program.variables[v].cuts.pop_back();
    program.variables[v].classes.pop_back();
  }
}

void dt::shard::addTokenRows(ShardProblem &program, StepRules rules,
                             const Axis &axis, CutConstraints &info) {
  TokenRows(program, rules, axis, info).run();
}

bool dt::shard::sharesOverTokens(dist::ModuleOp module) {
  return static_cast<int64_t>(module.getEp()) > getTensorParallel(module);
}

LogicalResult dt::shard::checkExperts(dist::ModuleOp module) {
  int64_t ranks = module.getEp(), group = getTensorParallel(module);
  if (ranks == 1)
    return success();
  int64_t joined = module.getJoined(), cp = module.getCp();
  if (!dist::canShareExperts(ranks, group, cp, joined) ||
      dist::countJoined(ranks, group, cp) != joined)
    return module.emitError("ep = ")
           << ranks << " neither divides the tensor-parallel group of " << group
           << " ranks (tp) nor is " << group
           << " times a divisor of cp = " << cp
           << " (or all of both, times joined = " << joined << ')';
  bool any = false;
  auto result = module.walk([&](nn::RouteOp op) {
    any = true;
    auto experts = static_cast<int64_t>(op.getPlaced());
    if (experts % ranks == 0)
      return WalkResult::advance();
    op.emitError("'") << module.getSymName() << "' has layers of " << experts
                      << " experts, which ep = " << ranks << " does not divide";
    return WalkResult::interrupt();
  });
  if (!any)
    module.emitRemark("ep does nothing where no layer has experts: '")
        << module.getSymName() << "' is cut by tp and cp";
  return failure(result.wasInterrupted());
}
