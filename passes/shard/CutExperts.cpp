//===- CutExperts.cpp - Rows that stand with their experts ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/CutExperts.h"
#include "passes/shard/Passes.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;
using nn::FactorKind;
using nn::ShardingRule;

namespace {

constexpr Cut kRows{0, 0, true};

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

/// What becomes of a value of a routed op.
std::optional<Cut> cutOf(const ShardingRule &rule,
                         const ShardingRule::Dims &dims, const Axis &axis) {
  for (auto [d, list] : llvm::enumerate(dims))
    for (unsigned f : list)
      switch (rule.factors[f].kind) {
      case FactorKind::routed:
        return kRows;
      case FactorKind::ends:
        return Cut{0, countOwn(rule, axis), true};
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

bool has(const ShardingRule::Dims &dims, unsigned factor) {
  return llvm::any_of(
      dims, [&](auto &list) { return llvm::is_contained(list, factor); });
}

/// The factor of the rows, if the op treats each alone: the first dim, all of
/// it, of every value that has it, all results among them.
std::optional<unsigned> findRows(const ShardingRule &rule) {
  if (rule.results.empty() || rule.results[0].empty() ||
      rule.results[0][0].size() != 1)
    return std::nullopt;
  unsigned rows = rule.results[0][0][0];
  auto leads = [&](const ShardingRule::Dims &dims) {
    for (auto [d, list] : llvm::enumerate(dims))
      if (llvm::is_contained(list, rows) && (d != 0 || list.size() != 1))
        return false;
    return true;
  };
  if (rule.factors[rows].kind != FactorKind::pass ||
      !llvm::all_of(rule.operands, leads) ||
      !llvm::all_of(rule.results, leads) ||
      !llvm::all_of(rule.results, [&](auto &dims) { return has(dims, rows); }))
    return std::nullopt;
  return rows;
}

} // namespace

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
        auto cut = cutOf(*rule, dims, axis);
        if (cut && cut->routed)
          add(v, *cut);
      });
  auto spread = [&](const Step &step, const ShardingRule &rule) {
    auto rows = findRows(rule);
    bool any = false;
    if (rows)
      forEachValue(step, rule, [&](unsigned v, auto &dims) {
        any |= has(dims, *rows) && program.variables[v].find(kRows);
      });
    if (any)
      forEachValue(step, rule, [&](unsigned v, auto &dims) {
        if (has(dims, *rows))
          add(v, kRows);
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
  Strategy s;
  s.factor = static_cast<int>(*findFactor(rule, FactorKind::routed));
  s.chunk = countOwn(rule, axis);
  s.flops = step.flops / static_cast<double>(axis.over);
  bool possible = true;
  auto states = [&](auto &variables, auto &lists, State without, auto &into) {
    for (auto [v, dims] : llvm::zip(variables, lists)) {
      auto cut = cutOf(rule, dims, axis);
      auto state = cut ? program.variables[v].find(*cut) : without;
      possible &= state.has_value();
      into.push_back(state.value_or(kWhole));
    }
  };
  states(step.operands, rule.operands, kWhole, s.operands);
  states(step.results, rule.results, kPartial, s.results);
  return possible ? std::optional(s) : std::nullopt;
}

std::optional<Strategy> dt::shard::runAlongRows(const ShardProblem &program,
                                                const Step &step,
                                                const ShardingRule &rule) {
  auto rows = findRows(rule);
  if (!rows)
    return std::nullopt;
  Strategy s;
  s.factor = static_cast<int>(*rows);
  s.flops = step.flops;
  bool possible = true;
  auto states = [&](auto &variables, auto &lists, auto &into) {
    for (auto [v, dims] : llvm::zip(variables, lists)) {
      auto state = has(dims, *rows) ? program.variables[v].find(kRows) : kWhole;
      possible &= state.has_value();
      into.push_back(state.value_or(kWhole));
    }
  };
  states(step.operands, rule.operands, s.operands);
  states(step.results, rule.results, s.results);
  return possible ? std::optional(s) : std::nullopt;
}

LogicalResult dt::shard::checkExperts(dist::ModuleOp module) {
  int64_t ranks = module.getEp(), group = getTensorParallel(module);
  if (ranks == 1)
    return success();
  if (group % ranks)
    return module.emitError("ep = ")
           << ranks << " does not divide the tensor-parallel group of " << group
           << " ranks (tp)";
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
        << module.getSymName() << "' is cut by tp";
  return failure(result.wasInterrupted());
}
