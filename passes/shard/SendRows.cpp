//===- SendRows.cpp - Rows that travel to their experts ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/SendRows.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;
using nn::DimExpr;
using nn::FactorKind;
using nn::ShardingRule;

namespace {

/// The kind of the one factor of a vector, or of rows in the first dim.
std::optional<FactorKind> rowsOf(const ShardingRule &rule,
                                 const ShardingRule::Dims &dims) {
  if (dims.empty() || dims[0].size() != 1)
    return std::nullopt;
  return rule.factors[dims[0][0]].kind;
}

std::optional<DimExpr> sizeOf(const ShardingRule &rule, FactorKind kind) {
  for (const auto &factor : rule.factors)
    if (factor.kind == kind)
      return factor.size;
  return std::nullopt;
}

/// Whether a variable says where rows stand.
bool isWhere(const Variable &v) {
  return isa<IntegerType>(v.type.getElementType());
}

std::optional<Cut> findTokenCut(const Variable &v,
                                const std::vector<bool> &tokens) {
  for (auto [cut, inClass] : llvm::zip(v.cuts, v.classes))
    if (cut.kind == Cut::blocks && cut.dim == 0 && tokens[inClass])
      return cut;
  return std::nullopt;
}

/// Of a value of a step whose rows travel.
std::optional<State> stateOf(const Variable &v, const ShardingRule &rule,
                             const ShardingRule::Dims &dims,
                             const std::vector<bool> &tokens) {
  auto only = [&](Cut::Kind kind) -> std::optional<State> {
    for (const Cut &cut : v.cuts)
      if (cut.kind == kind)
        return v.find(cut);
    return std::nullopt;
  };
  auto kind = rowsOf(rule, dims);
  if (!kind)
    return kWhole;
  switch (*kind) {
  case FactorKind::routed:
    return only(isWhere(v) ? Cut::sent : Cut::ofExperts);
  case FactorKind::places:
    return only(Cut::sent);
  case FactorKind::ends:
    return only(Cut::ends);
  default: {
    auto cut = findTokenCut(v, tokens);
    return cut ? v.find(*cut) : std::nullopt;
  }
  }
}

/// How many rows a token has.
uint64_t rowsOfToken(nn::RouteOp route) {
  uint64_t most = 1;
  for (Operation *user : route.getOrder().getUsers())
    if (auto dispatch = dyn_cast<nn::DispatchOp>(user))
      most = std::max(most, dispatch.getEach());
  return most;
}

/// Bytes that a rank sends: of a row as wide as the result, or of its expert's
/// number.
double trafficOf(const ShardProblem &program, const Step &step,
                 const Sending &sending) {
  const Variable &v =
      program.variables[isa<nn::RouteOp>(step.op) ? step.operands[0]
                                                  : step.results[0]];
  DimExpr elements = sending.slots;
  for (const DimExpr &dim : ArrayRef(v.shape).drop_front())
    elements = elements * dim;
  double n = static_cast<double>(sending.ranks),
         bytes = v.type.getElementTypeBitWidth() / 8.0;
  return (n - 1) / n * bytes * program.evaluate(elements);
}

} // namespace

std::optional<Sending> dt::shard::findSending(Operation *op,
                                              const ShardingRule &rule,
                                              const Axis &axis) {
  if (!axis.sends || !isa<nn::RouteOp, nn::DispatchOp, nn::CombineOp>(op) ||
      !takesLess(op, rule, axis))
    return std::nullopt;
  auto places = sizeOf(rule, FactorKind::places);
  auto room = getLocalRoom(op, axis);
  auto rows = places->exactDiv(DimExpr(axis.over));
  // Each expert has its rows of every sample. Of a sample, all that may be
  // there are of one rank where ranks have other tokens of it; of other ones,
  // each rank has its samples'.
  auto each = axis.samples ? room->exactDiv(DimExpr(axis.over)) : room;
  if (!rows || !each)
    return std::nullopt;
  // The others follow nn.route. As many slots as tokens would bring nothing.
  uint64_t k = 1;
  if (auto route = dyn_cast<nn::RouteOp>(op))
    k = rowsOfToken(route);
  auto tokens = rows->exactDiv(DimExpr(int64_t(k)));
  if (!tokens || !nn::isSmaller(*each, *tokens))
    return std::nullopt;
  return Sending{*each * DimExpr(axis.over), *rows, *room, axis.over};
}

SentCuts dt::shard::findSentCuts(const ShardProblem &program, const Step &step,
                                 const ShardingRule &rule, const Axis &axis) {
  SentCuts cuts;
  auto sending = findSending(step.op, rule, axis);
  if (!sending)
    return cuts;
  auto add = [&](unsigned v, const ShardingRule::Dims &dims) {
    auto kind = rowsOf(rule, dims);
    bool places = kind == FactorKind::places;
    if (!isWhere(program.variables[v]) ||
        (!places && kind != FactorKind::routed))
      return;
    DimExpr size = sending->slots + (places ? sending->rows : sending->room);
    cuts.push_back({v, {0, size.terms()[0].coefficient, Cut::sent}});
  };
  for (auto [v, dims] : llvm::zip(step.operands, rule.operands))
    add(v, dims);
  for (auto [v, dims] : llvm::zip(step.results, rule.results))
    add(v, dims);
  return cuts;
}

std::optional<Strategy> dt::shard::runSending(const ShardProblem &program,
                                              const Step &step,
                                              const ShardingRule &rule,
                                              const Axis &axis,
                                              const std::vector<bool> &tokens) {
  auto sending = findSending(step.op, rule, axis);
  auto s = sending ? runRouted(program, step, rule, axis) : std::nullopt;
  if (!s)
    return std::nullopt;
  s->sends = true;
  s->traffic = trafficOf(program, step, *sending);
  bool possible = true;
  auto set = [&](State &state, unsigned v, const ShardingRule::Dims &dims) {
    auto own = stateOf(program.variables[v], rule, dims, tokens);
    possible &= own.has_value();
    state = own.value_or(kWhole);
  };
  for (auto [i, v, dims] : llvm::enumerate(step.operands, rule.operands))
    set(s->operands[i], v, dims);
  for (auto [i, v, dims] : llvm::enumerate(step.results, rule.results))
    set(s->results[i], v, dims);
  return possible ? s : std::nullopt;
}
