//===- NNSharding.cpp - How operators may be cut: common part ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNRuleBuilder.h"

using namespace mlir;
using namespace dt::nn;

RuleBuilder::RuleBuilder(Operation *op) : op(op) {
  for (Value v : op->getOperands())
    rule.operands.emplace_back(rankOf(v));
  for (Value v : op->getResults())
    rule.results.emplace_back(rankOf(v));
}

size_t RuleBuilder::rankOf(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type ? type.getRank() : 0;
}

Letters RuleBuilder::join(Letters a, ArrayRef<unsigned> b) {
  a.append(b.begin(), b.end());
  return a;
}

Letters RuleBuilder::letters(ArrayRef<DimExpr> dims, FactorKind kind) {
  Letters list;
  for (const DimExpr &d : dims)
    list.push_back(factor(d, kind));
  return list;
}

void RuleBuilder::setDims(ShardingRule::Dims &dims, ArrayRef<DimExpr> shape,
                          ArrayRef<unsigned> list) {
  size_t offset = list.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != DimExpr(1) ||
        rule.factors[list[i + offset]].size == shape[i])
      dims[i] = {list[i + offset]};
}

void RuleBuilder::operand(unsigned index, ArrayRef<unsigned> list) {
  setDims(rule.operands[index], getShape(op->getOperand(index)), list);
}

void RuleBuilder::result(unsigned index, ArrayRef<unsigned> list) {
  setDims(rule.results[index], getShape(op->getResult(index)), list);
}

/// A factor of kind pass that some result lacks makes partial sums.
ShardingRule RuleBuilder::finish() {
  for (unsigned f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::pass)
      continue;
    bool everywhere = llvm::all_of(rule.results, [&](auto &dims) {
      return llvm::any_of(
          dims, [&](auto &list) { return llvm::is_contained(list, f); });
    });
    if (!everywhere && !rule.results.empty())
      rule.factors[f].kind = FactorKind::sum;
  }
  return std::move(rule);
}

ShardingRule RuleBuilder::finishProduct(Value bias) {
  if (bias)
    rule.addends.push_back(2);
  for (unsigned i : {0, 1})
    linear(bias ? Letters{i, 2} : Letters{i});
  return finish();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string letterOf(unsigned factor) {
  std::string name(1, static_cast<char>('a' + factor % 26));
  return factor < 26 ? name : name + std::to_string(factor / 26);
}

static void printDims(llvm::raw_ostream &os,
                      ArrayRef<ShardingRule::Dims> values) {
  os << '(';
  llvm::interleaveComma(values, os, [&](const ShardingRule::Dims &dims) {
    os << '[';
    llvm::interleave(
        dims, os,
        [&](const auto &list) {
          for (unsigned f : list)
            os << letterOf(f);
          if (list.empty())
            os << '-';
        },
        " ");
    os << ']';
  });
  os << ')';
}

static StringRef nameOf(FactorKind kind) {
  static constexpr StringLiteral names[] = {
      "pass",      "sum",     "max",    "min",    "blocked", "group",
      "replicate", "experts", "routed", "places", "ends"};
  return names[static_cast<unsigned>(kind)];
}

std::string ShardingRule::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  printDims(os, operands);
  os << " -> ";
  printDims(os, results);
  for (auto [i, f] : llvm::enumerate(factors))
    if (f.kind != FactorKind::pass)
      os << ' ' << letterOf(i) << ':' << nameOf(f.kind);
  for (const auto &group : linear) {
    os << " linear{";
    llvm::interleaveComma(group, os);
    os << '}';
  }
  if (!addends.empty()) {
    os << " addends{";
    llvm::interleaveComma(addends, os);
    os << '}';
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Rules that several families share
//===----------------------------------------------------------------------===//

SmallVector<SmallVector<unsigned>> dt::nn::getLinearGroups(Operation *op,
                                                           bool exact) {
  auto counts = [&](Value v) {
    Type element = getElementTypeOrSelf(v.getType());
    return exact ? isa<IntegerType>(element) && !element.isInteger(1)
                 : isa<FloatType>(element);
  };
  SmallVector<unsigned> numbers;
  for (auto [i, v] : llvm::enumerate(op->getOperands()))
    if (counts(v))
      numbers.push_back(i);
  SmallVector<SmallVector<unsigned>> groups;
  // Partial sums of integers or of what was rounded are no sums.
  if (numbers.empty() || !counts(op->getResult(0)))
    return groups;
  if (op->hasTrait<LinearJointly>())
    groups.push_back(numbers);
  if (op->hasTrait<LinearEach>())
    for (unsigned i : numbers)
      groups.push_back({i});
  if (op->hasTrait<LinearFirst>() && !exact)
    groups.push_back({numbers.front()});
  if (op->hasTrait<LinearLast>() && !exact)
    groups.push_back({numbers.back()});
  return groups;
}

ShardingRule dt::nn::elementwiseShardingRule(Operation *op) {
  RuleBuilder b(op);
  auto list = b.letters(getShape(op->getResult(0)));
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    b.operand(i, list);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    b.result(i, list);
  b.rule.linear = getLinearGroups(op);
  return b.finish();
}

ShardingRule dt::nn::wholeAxisRule(Operation *op, int64_t axis,
                                   std::optional<unsigned> linear) {
  RuleBuilder b(op);
  Shape x = getShape(op->getOperand(0));
  auto list = b.letters(x);
  int64_t i = axis < 0 ? axis + static_cast<int64_t>(x.size()) : axis;
  b.rule.factors[list[i]].kind = FactorKind::replicate;
  for (unsigned k = 0; k < op->getNumOperands(); ++k)
    b.operand(k, list);
  b.result(0, list);
  if (linear)
    b.linear({*linear});
  return b.finish();
}

bool dt::nn::hasFactor(const ShardingRule::Dims &dims, unsigned factor) {
  return llvm::any_of(
      dims, [&](auto &list) { return llvm::is_contained(list, factor); });
}

std::optional<unsigned> dt::nn::findRows(const ShardingRule &rule) {
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
  auto has = [&](auto &dims) { return hasFactor(dims, rows); };
  if (rule.factors[rows].kind != FactorKind::pass ||
      !llvm::all_of(rule.operands, leads) ||
      !llvm::all_of(rule.results, leads) || !llvm::all_of(rule.results, has))
    return std::nullopt;
  return rows;
}

bool dt::nn::treatsRowsAlone(Operation *op, SmallVectorImpl<bool> &operands) {
  auto sharded = dyn_cast<ShardingOpInterface>(op);
  if (!sharded || op->getNumResults() != 1 || op->getNumRegions() != 0)
    return false;
  ShardingRule rule = sharded.getShardingRule();
  auto rows = findRows(rule);
  if (!rows)
    return false;
  operands.clear();
  for (const ShardingRule::Dims &dims : rule.operands)
    operands.push_back(hasFactor(dims, *rows));
  return true;
}
