//===- PadVocabulary.cpp - Tables that the ranks do not divide --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A dim that is looked up, or that holds class scores, gets zeros at its end.
// The loss is told how many classes there are, so that scores of the padding
// count as none and their gradients are zero too.
//
//===----------------------------------------------------------------------===//

#include "passes/shard/PadVocabulary.h"
#include "dialects/nn/NNLimits.h"
#include "passes/shard/Localize.h"
#include "passes/shard/Passes.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;
using nn::DimExpr;

namespace {

/// Everything that has the dim: values, parameters, function results.
class Padding {
public:
  Padding(dist::ModuleOp module, int64_t size) : module(module), size(size) {}

  /// False if something needs the dim as it is.
  bool collect(nn::ParameterOp parameter, unsigned dim);
  /// The size that is good for so many ranks; the same if none is worth it.
  int64_t choose(int64_t ranks) const;
  void apply(int64_t to);

private:
  bool addParameter(nn::ParameterOp parameter, unsigned dim);
  bool addValue(Value value, unsigned dim);
  bool visit(Operation *op, const nn::ShardingRule::Dims &dims, unsigned dim);
  bool visitUse(OpOperand &use, unsigned dim);
  bool visitReturn(func::ReturnOp ret, unsigned index, unsigned dim);
  bool visitArgument(BlockArgument argument, unsigned dim);
  bool isHarmless(Operation *op, const nn::ShardingRule &rule, unsigned factor);
  Type grown(Type type, unsigned dim) const;
  void hide(Operation *loss);
  void wrap(Operation *lookup);
  void markWhole(nn::IndexedOpInterface op, bool wrap,
                 std::optional<int64_t> ignored = std::nullopt,
                 StringAttr what = {}) const;

  dist::ModuleOp module;
  int64_t size, padded = 0;
  llvm::MapVector<Value, unsigned> values;
  llvm::MapVector<Operation *, unsigned> parameters;
  llvm::MapVector<std::pair<Operation *, unsigned>, unsigned> results;
  SmallVector<std::pair<Value, unsigned>> open;
  llvm::SetVector<Operation *> lookups, losses;
};

} // namespace

bool Padding::addParameter(nn::ParameterOp parameter, unsigned dim) {
  // A copy elsewhere cannot be padded.
  if (auto hint = parameter->getAttrOfType<StringAttr>(dist::kCutHintAttr);
      hint && hint == "whole")
    return false;
  auto [it, added] = parameters.insert({parameter, dim});
  if (!added)
    return it->second == dim;
  bool fine = true;
  module.walk([&](nn::ReadOp read) {
    if (read.getParameter() == parameter.getSymName())
      fine &= addValue(read.getResult(), dim);
  });
  module.walk([&](nn::AccumulateOp add) {
    if (add.getParameter() == parameter.getSymName())
      fine &= addValue(add.getGrad(), dim);
  });
  return fine;
}

bool Padding::addValue(Value value, unsigned dim) {
  auto [it, added] = values.insert({value, dim});
  if (!added)
    return it->second == dim;
  open.push_back({value, dim});
  return true;
}

/// Zeros at the end change nothing: the dim goes through, is looked up, holds
/// classes, or is summed against gradients that are zero there.
bool Padding::isHarmless(Operation *op, const nn::ShardingRule &rule,
                         unsigned factor) {
  switch (rule.factors[factor].kind) {
  case nn::FactorKind::pass:
    return true;
  case nn::FactorKind::sum:
    return isa<nn::LinearOp>(op);
  case nn::FactorKind::blocked:
    if (isa<nn::GatherOp, nn::GatherGradOp>(op))
      lookups.insert(op);
    else if (isa<nn::CrossEntropyOp, nn::CrossEntropyGradOp>(op))
      losses.insert(op);
    else
      return false;
    return true;
  default:
    return false;
  }
}

bool Padding::visit(Operation *op, const nn::ShardingRule::Dims &dims,
                    unsigned dim) {
  auto rule = cast<nn::ShardingOpInterface>(op).getShardingRule();
  if (dims[dim].size() != 1)
    return false;
  unsigned factor = dims[dim][0];
  if (!isHarmless(op, rule, factor))
    return false;
  bool fine = true;
  auto spread = [&](ValueRange list, ArrayRef<nn::ShardingRule::Dims> all) {
    for (auto [value, own] : llvm::zip(list, all))
      for (unsigned d = 0; d < own.size(); ++d)
        if (llvm::is_contained(own[d], factor))
          fine &= own[d].size() == 1 && addValue(value, d);
  };
  spread(op->getOperands(), rule.operands);
  spread(op->getResults(), rule.results);
  return fine;
}

/// An output that no other module takes, or a residual.
bool Padding::visitReturn(func::ReturnOp ret, unsigned index, unsigned dim) {
  auto f = ret->getParentOfType<func::FuncOp>();
  Pair pair = findPair(f);
  if (f.isPrivate() || f != pair.forward)
    return false;
  results.insert({{f, index}, dim});
  if (!f.getResultAttr(index, nn::kResidualAttr)) {
    StringRef name = dist::ModuleOp::getResultName(f, index);
    auto top = module->getParentOfType<mlir::ModuleOp>();
    return llvm::none_of(top.getOps<dist::EdgeOp>(), [&](dist::EdgeOp edge) {
      return edge.getSource() == module.getSymName() &&
             edge.getOutput() == name;
    });
  }
  unsigned place = 0;
  for (unsigned i = 0; i < index; ++i)
    place += bool(f.getResultAttr(i, nn::kResidualAttr));
  for (unsigned i = 0; pair.backward && i < pair.backward.getNumArguments();
       ++i)
    if (pair.backward.getArgAttr(i, nn::kResidualAttr) && place-- == 0)
      return addValue(pair.backward.getArgument(i), dim);
  return false;
}

/// A residual, whose other end is visited too; nothing else from outside.
bool Padding::visitArgument(BlockArgument argument, unsigned dim) {
  auto f = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (!f || !f.getArgAttr(argument.getArgNumber(), nn::kResidualAttr))
    return false;
  Pair pair = findPair(f);
  unsigned place = 0;
  for (unsigned i = 0; i < argument.getArgNumber(); ++i)
    place += bool(f.getArgAttr(i, nn::kResidualAttr));
  for (unsigned i = 0; i < pair.forward.getNumResults(); ++i)
    if (pair.forward.getResultAttr(i, nn::kResidualAttr) && place-- == 0)
      return addValue(pair.forward.front().getTerminator()->getOperand(i), dim);
  return false;
}

bool Padding::visitUse(OpOperand &use, unsigned dim) {
  Operation *op = use.getOwner();
  if (auto ret = dyn_cast<func::ReturnOp>(op))
    return visitReturn(ret, use.getOperandNumber(), dim);
  if (auto add = dyn_cast<nn::AccumulateOp>(op))
    return addParameter(
        module.lookupSymbol<nn::ParameterOp>(add.getParameter()), dim);
  auto rule = dyn_cast<nn::ShardingOpInterface>(op);
  return rule &&
         visit(op, rule.getShardingRule().operands[use.getOperandNumber()],
               dim);
}

bool Padding::collect(nn::ParameterOp parameter, unsigned dim) {
  if (!addParameter(parameter, dim))
    return false;
  while (!open.empty()) {
    auto [value, at] = open.pop_back_val();
    for (OpOperand &use : value.getUses())
      if (!visitUse(use, at))
        return false;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (!visitArgument(argument, at))
        return false;
      continue;
    }
    auto result = cast<OpResult>(value);
    if (auto read = dyn_cast<nn::ReadOp>(result.getOwner())) {
      if (!addParameter(
              module.lookupSymbol<nn::ParameterOp>(read.getParameter()), at))
        return false;
      continue;
    }
    auto rule = dyn_cast<nn::ShardingOpInterface>(result.getOwner());
    // What is made from nothing would have to be made longer.
    if (!rule || result.getOwner()->getNumOperands() == 0 ||
        !visit(result.getOwner(),
               rule.getShardingRule().results[result.getResultNumber()], at))
      return false;
  }
  return true;
}

Type Padding::grown(Type type, unsigned dim) const {
  nn::Shape shape = nn::getShape(type);
  shape[dim] = DimExpr(padded);
  return nn::makeTensorType(shape, getElementTypeOrSelf(type));
}

/// Scores of the padding count as none.
void Padding::hide(Operation *loss) {
  OpBuilder builder(loss);
  auto number = RankedTensorType::get({}, builder.getI64Type());
  Value classes = nn::ConstantOp::create(
      builder, loss->getLoc(), number,
      DenseElementsAttr::get(number,
                             Attribute(builder.getI64IntegerAttr(size))));
  cast<nn::IndexedOpInterface>(loss).setUnpadded(size);
  if (auto backward = dyn_cast<nn::CrossEntropyGradOp>(loss))
    return backward.getClassesMutable().assign(classes);
  auto forward = cast<nn::CrossEntropyOp>(loss);
  forward.getClassesMutable().assign(classes);
  markWhole(forward, /*wrap=*/false, int64_t(forward.getIgnoreIndex()),
            builder.getStringAttr("classes of cross_entropy"));
}

/// Says which indices are right while the op is not cut; what cuts it says it
/// anew.
void Padding::markWhole(nn::IndexedOpInterface op, bool wrap,
                        std::optional<int64_t> ignored, StringAttr what) const {
  op.setBlockAttr(nn::BlockAttr::get(op->getContext(), size, padded, /*over=*/1,
                                     /*stride=*/1, wrap, ignored, what, {}));
}

/// Negative indices count from the end of the real table, if from there.
void Padding::wrap(Operation *lookup) {
  OpBuilder builder(lookup);
  Location loc = lookup->getLoc();
  auto normal = [&](auto op) {
    if (op.getZeroOutOfRange())
      return;
    Value indices = op.getIndices();
    Type element = getElementTypeOrSelf(indices);
    auto scalar = RankedTensorType::get({}, element);
    auto number = [&](int64_t n) -> Value {
      return nn::ConstantOp::create(
          builder, loc, scalar,
          DenseElementsAttr::get(scalar,
                                 Attribute(IntegerAttr::get(element, n))));
    };
    bool fromEnd = !op.getFromStart();
    if (fromEnd) {
      Value below =
          nn::CmpOp::create(builder, loc, nn::Compare::lt, indices, number(0));
      Value wrapped = nn::AddOp::create(builder, loc, indices, number(size));
      op.getIndicesMutable().assign(
          nn::WhereOp::create(builder, loc, below, wrapped, indices)
              .getResult());
    }
    if (isa<nn::GatherOp>(op))
      markWhole(op, fromEnd);
    op.setUnpadded(size);
    op.setZeroOutOfRange(true);
  };
  if (auto gather = dyn_cast<nn::GatherOp>(lookup))
    normal(gather);
  else
    normal(cast<nn::GatherGradOp>(lookup));
}

int64_t Padding::choose(int64_t ranks) const {
  if (losses.empty() && lookups.empty())
    return size;
  // A table whose copy holds class scores is padded like that (AgreeTies.cpp).
  bool hasClasses =
      !losses.empty() || llvm::any_of(parameters, [](auto &entry) {
        return entry.first->hasAttr(dist::kCutHintAttr);
      });
  // Products of classes like whole tiles, or at least aligned rows.
  for (int64_t tile : {64, 8, 1}) {
    int64_t unit = tile * ranks, to = (size + unit - 1) / unit * unit;
    bool useful = tile == 1 ? ranks > 1 : hasClasses;
    // More than a quarter of nothing is not worth storing.
    if (useful && (to - size) * 4 <= size)
      return to;
    if (ranks == 1)
      return size;
  }
  return size;
}

void Padding::apply(int64_t to) {
  padded = to;
  for (auto &[value, dim] : values)
    value.setType(cast<RankedTensorType>(grown(value.getType(), dim)));
  for (auto &[op, dim] : parameters) {
    auto parameter = cast<nn::ParameterOp>(op);
    auto type = cast<RankedTensorType>(parameter.getType());
    auto whole = cast<RankedTensorType>(grown(type, dim));
    parameter.emitRemark("'") << parameter.getSymName() << "' is padded from "
                              << type << " to " << whole;
    parameter.setType(whole);
    parameter->setAttr(dist::kLayoutAttr,
                       dist::LayoutAttr::get(op->getContext(), whole.getShape(),
                                             type.getShape(), {}));
  }
  for (auto &[place, dim] : results) {
    auto f = cast<func::FuncOp>(place.first);
    auto type = cast<RankedTensorType>(f.getResultTypes()[place.second]);
    auto whole = cast<RankedTensorType>(grown(type, dim));
    if (f.getResultAttr(place.second, nn::kResidualAttr))
      continue;
    // What it had before another of its axes was padded.
    auto known = f.getResultAttrOfType<dist::LayoutAttr>(place.second,
                                                         dist::kLayoutAttr);
    SmallVector<int64_t> unpadded(known ? known.getUnpadded()
                                        : type.getShape());
    f.setResultAttr(
        place.second, dist::kLayoutAttr,
        dist::LayoutAttr::get(f.getContext(), whole.getShape(), unpadded, {}));
  }
  for (Operation *loss : losses)
    hide(loss);
  for (Operation *lookup : lookups)
    wrap(lookup);
  for (auto f : module.getOps<func::FuncOp>())
    if (!f.isExternal())
      f.setFunctionType(
          FunctionType::get(f.getContext(), f.front().getArgumentTypes(),
                            f.front().getTerminator()->getOperandTypes()));
}

void dt::shard::padVocabulary(dist::ModuleOp module, int64_t ranks) {
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    for (unsigned dim = 0; dim < type.getRank(); ++dim) {
      int64_t size = type.getDimSize(dim);
      if (type.getRank() < 2 || parameter->hasAttr(dist::kLayoutAttr))
        continue;
      Padding padding(module, size);
      if (!padding.collect(parameter, dim))
        continue;
      if (int64_t to = padding.choose(ranks); to != size)
        padding.apply(to);
    }
  }
}
