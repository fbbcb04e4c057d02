//===- SplitLosses.cpp - A loss as quotients of sums ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A graph that computes its loss ends in a quotient: a sum over items, divided
// by a count. Parts of a batch need both apart, because their counts differ.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/SplitLosses.h"
#include "passes/modules/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/IRMapping.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace dt::modules {
#define GEN_PASS_DEF_SPLITLOSSES
#include "passes/modules/Passes.h.inc"

namespace {

/// The number that all elements of a constant are.
std::optional<double> splatOf(Value value) {
  while (isa_and_nonnull<nn::ReshapeOp, nn::CastOp, nn::BroadcastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return double(elements.getSplatValue<APInt>().getSExtValue());
}

/// The ops that compute a value, in order.
SetVector<Operation *> sliceOf(Value value) {
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.omitBlockArguments = true;
  if (Operation *op = value.getDefiningOp())
    (void)getBackwardSlice(op, &slice, options);
  return slice;
}

/// No parameter is read to compute it.
bool isData(Value value) {
  SetVector<Operation *> slice = sliceOf(value);
  return llvm::none_of(slice, [](Operation *op) { return isa<nn::ReadOp>(op); });
}

/// A count of elements: a sum of numbers that are whole.
bool isCount(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (getElementTypeOrSelf(value).isInteger())
      return true;
    if (!isa<nn::CastOp, nn::ReshapeOp, nn::ReduceOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return getElementTypeOrSelf(value).isInteger();
}

/// A denominator without what protects it from being 0: `max(count, 1)`,
/// `count + 1e-8`. A count of 0 gives a loss of 0 anyway.
Value withoutGuard(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<nn::CastOp, nn::ReshapeOp>(op)) {
    Value inner = withoutGuard(op->getOperand(0));
    return inner == op->getOperand(0) ? value : inner;
  }
  if (!isa_and_nonnull<nn::MaxOp, nn::AddOp, nn::WhereOp>(op))
    return value;
  auto negligible = [&](double guard) {
    return isa<nn::MaxOp>(op) ? guard <= 1 : std::abs(guard) < 1e-6;
  };
  if (isa<nn::WhereOp>(op)) {
    // where(count == 0, 1, count)
    for (unsigned i : {1, 2})
      if (splatOf(op->getOperand(i)) && isCount(op->getOperand(3 - i)) &&
          isData(op->getOperand(0)))
        return op->getOperand(3 - i);
    return value;
  }
  for (unsigned i : {0, 1})
    if (auto guard = splatOf(op->getOperand(i));
        guard && negligible(*guard) && isCount(op->getOperand(1 - i)))
      return withoutGuard(op->getOperand(1 - i));
  return value;
}

class Splitter {
public:
  explicit Splitter(const ItemAnalysis &analysis) : analysis(analysis) {}

  LossSplit run(Value loss) {
    walk(loss, LossTerm());
    return std::move(result);
  }

private:
  /// Adds the terms of `value`, multiplied by what `outer` has so far.
  void walk(Value value, LossTerm outer);
  void quotient(nn::DivOp op, LossTerm outer);
  void mean(nn::ReduceOp op, LossTerm outer);
  void product(nn::MulOp op, LossTerm outer);
  void leaf(Value value, LossTerm outer);
  void fail(Operation *op, const Twine &reason) {
    if (result.culprit)
      return;
    result.culprit = op;
    result.reason = reason.str();
  }
  bool divided(const LossTerm &term) const {
    return term.denominator || term.count != nn::DimExpr(0);
  }

  const ItemAnalysis &analysis;
  LossSplit result;
};

void Splitter::leaf(Value value, LossTerm outer) {
  const ItemState &state = analysis.get(value);
  Operation *op = value.getDefiningOp();
  if (state.is(ItemState::Coupled))
    return fail(state.culprit, state.reason);
  if (state.is(ItemState::Invariant))
    return fail(op, "adds to the loss what depends on no item: parts would count it again");
  if (state.is(ItemState::PerItem) && divided(outer) && outer.count == nn::DimExpr(0))
    return fail(op, "is not summed over items");
  outer.numerator = value;
  result.terms.push_back(outer);
}

void Splitter::quotient(nn::DivOp op, LossTerm outer) {
  if (auto number = splatOf(op.getRhs()); number && *number != 0) {
    outer.weight /= *number;
    return walk(op.getLhs(), outer);
  }
  const ItemState &state = analysis.get(op.getRhs());
  if (!isData(op.getRhs())) {
    if (!state.is(ItemState::Invariant))
      return fail(op, "divides by what depends on parameters");
    return leaf(op.getResult(), outer);
  }
  if (divided(outer))
    return fail(op, "divides a loss a second time");
  Value denominator = withoutGuard(op.getRhs());
  if (!analysis.get(denominator).is(ItemState::Sum))
    return fail(op, "divides by what is not a sum over items");
  outer.denominator = denominator;
  walk(op.getLhs(), outer);
}

/// The mean of all elements: their sum over their number.
void Splitter::mean(nn::ReduceOp op, LossTerm outer) {
  nn::DimExpr count = nn::getNumElements(nn::getShape(op.getInput()));
  bool overItems = analysis.get(op.getInput()).is(ItemState::PerItem);
  if (!overItems || divided(outer))
    return leaf(op.getResult(), outer);
  outer.count = count;
  leaf(op.getInput(), outer);
}

void Splitter::product(nn::MulOp op, LossTerm outer) {
  for (unsigned i : {0, 1}) {
    if (auto number = splatOf(op.getOperand(i))) {
      outer.weight *= *number;
      return walk(op.getOperand(1 - i), outer);
    }
    if (analysis.get(op.getOperand(i)).is(ItemState::Invariant)) {
      outer.factors.push_back(op.getOperand(i));
      return walk(op.getOperand(1 - i), outer);
    }
  }
  leaf(op.getResult(), outer);
}

void Splitter::walk(Value value, LossTerm outer) {
  Operation *op = value.getDefiningOp();
  bool single = nn::getNumElements(nn::getShape(value)) == nn::DimExpr(1);
  if (!op || !single)
    return leaf(value, outer);
  if (isa<nn::ReshapeOp, nn::BroadcastOp>(op) ||
      (isa<nn::CastOp>(op) && isa<FloatType>(getElementTypeOrSelf(op->getOperand(0)))))
    return walk(op->getOperand(0), outer);
  if (isa<nn::NegOp>(op)) {
    outer.weight = -outer.weight;
    return walk(op->getOperand(0), outer);
  }
  if (isa<nn::AddOp>(op) || isa<nn::SubOp>(op)) {
    // A sum of sums is one: the fewer terms, the fewer denominators.
    if (analysis.get(value).is(ItemState::Sum))
      return leaf(value, outer);
    walk(op->getOperand(0), outer);
    outer.weight = isa<nn::SubOp>(op) ? -outer.weight : outer.weight;
    return walk(op->getOperand(1), outer);
  }
  if (auto mul = dyn_cast<nn::MulOp>(op))
    return product(mul, outer);
  if (auto div = dyn_cast<nn::DivOp>(op))
    return quotient(div, outer);
  if (auto reduce = dyn_cast<nn::ReduceOp>(op)) {
    bool trivial = nn::getNumElements(nn::getShape(reduce.getInput())) == nn::DimExpr(1);
    if (trivial)
      return walk(reduce.getInput(), outer);
    if (reduce.getKind() == nn::ReduceKind::mean)
      return mean(reduce, outer);
  }
  if (auto where = dyn_cast<nn::WhereOp>(op); where && isData(where.getCondition())) {
    // where(count > 0, sum / count, 0): a count of 0 gives 0 anyway.
    for (unsigned i : {1, 2})
      if (splatOf(where.getOperand(i)) == 0.0)
        return walk(where.getOperand(3 - i), outer);
  }
  leaf(value, outer);
}

/// Builds numerators, denominator functions and dist.loss ops of terms.
class TermBuilder {
public:
  TermBuilder(dist::LossOp loss, dist::ModuleOp module)
      : loss(loss), module(module), forward(module.getForward()),
        b(forward.getBody().front().getTerminator()) {}

  void build(const LossTerm &term, unsigned index, unsigned total);

private:
  Value sum(OpBuilder &builder, Value value);
  void denominator(const LossTerm &term, StringRef name);

  dist::LossOp loss;
  dist::ModuleOp module;
  func::FuncOp forward;
  OpBuilder b;
};

Value TermBuilder::sum(OpBuilder &builder, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  Location loc = loss.getLoc();
  if (!type.getElementType().isF32())
    value = nn::CastOp::create(builder, loc,
                               nn::withElementType(type, builder.getF32Type()), value);
  SmallVector<int64_t> axes(type.getRank());
  std::iota(axes.begin(), axes.end(), 0);
  return axes.empty() ? value
                      : nn::ReduceOp::create(builder, loc, nn::ReduceKind::sum,
                                             value, axes, false);
}

void TermBuilder::denominator(const LossTerm &term, StringRef name) {
  Location loc = loss.getLoc();
  OpBuilder builder(module.getContext());
  builder.setInsertionPointToEnd(&module.getBody().front());
  SetVector<Operation *> slice;
  SetVector<BlockArgument> inputs;
  if (term.denominator) {
    slice = sliceOf(term.denominator);
    auto addInput = [&](Value value) {
      if (auto argument = dyn_cast<BlockArgument>(value);
          argument && argument.getOwner() == &forward.getBody().front())
        inputs.insert(argument);
    };
    addInput(term.denominator);
    for (Operation *op : slice)
      llvm::for_each(op->getOperands(), addInput);
  }
  SmallVector<Type> types;
  for (BlockArgument input : inputs)
    types.push_back(input.getType());
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  auto function = func::FuncOp::create(builder, loc, name,
                                       builder.getFunctionType(types, scalar));
  OpBuilder inner = OpBuilder::atBlockBegin(function.addEntryBlock());
  IRMapping mapping;
  for (auto [i, input] : llvm::enumerate(inputs)) {
    mapping.map(input, function.getArgument(i));
    function.setArgAttrs(i, forward.getArgAttrDict(input.getArgNumber()));
  }
  for (Operation *op : slice)
    inner.clone(*op, mapping);
  Value result;
  if (term.denominator)
    result = sum(inner, mapping.lookup(term.denominator));
  else
    result = dist::buildElementCount(inner, loc, term.count);
  func::ReturnOp::create(inner, loc, result);
}

void TermBuilder::build(const LossTerm &term, unsigned index, unsigned total) {
  Location loc = loss.getLoc();
  std::string name = loss.getName().str();
  if (total > 1)
    name += "." + std::to_string(index);
  Value numerator = sum(b, term.numerator);
  for (Value factor : term.factors)
    numerator = nn::MulOp::create(b, loc, numerator, sum(b, factor));
  std::string output = "loss." + name;
  unsigned position = forward.getNumResults();
  (void)forward.insertResult(
      position, numerator.getType(),
      b.getDictionaryAttr(b.getNamedAttr(nn::kNameAttr, b.getStringAttr(output))));
  Operation *terminator = forward.getBody().front().getTerminator();
  terminator->insertOperands(position, numerator);
  bool divided = term.denominator || term.count != nn::DimExpr(0);
  FlatSymbolRefAttr symbol;
  if (divided) {
    denominator(term, name + ".denominator");
    symbol = FlatSymbolRefAttr::get(b.getContext(), name + ".denominator");
  }
  double weight = loss.getWeight().convertToDouble() * term.weight;
  OpBuilder top(loss);
  dist::LossOp::create(top, loc, top.getStringAttr(name), loss.getModuleAttr(),
                       top.getStringAttr(output), symbol,
                       top.getF64FloatAttr(weight));
}

struct SplitLossesPass : impl::SplitLossesBase<SplitLossesPass> {
  void runOnOperation() override {
    mlir::ModuleOp program = getOperation();
    SmallVector<dist::LossOp> losses(program.getOps<dist::LossOp>());
    for (dist::LossOp loss : losses)
      if (!loss.getDenominator())
        split(loss, program.lookupSymbol<dist::ModuleOp>(loss.getModule()));
  }

  void split(dist::LossOp loss, dist::ModuleOp module) {
    func::FuncOp forward = module.getForward();
    if (!forward || module.getWholeBatch())
      return;
    unsigned position = *dist::ModuleOp::findResult(forward, loss.getNumerator());
    Operation *terminator = forward.getBody().front().getTerminator();
    ItemAnalysis analysis(module, takesLocalStatistics(getOperation()));
    LossSplit split = splitLoss(terminator->getOperand(position), analysis);
    if (split.culprit || split.terms.empty())
      return;
    // The numerator's place is free for the first term's.
    terminator->eraseOperand(position);
    (void)forward.eraseResult(position);
    TermBuilder builder(loss, module);
    for (auto [i, term] : llvm::enumerate(split.terms))
      builder.build(term, i, split.terms.size());
    loss.erase();
  }
};

} // namespace

LossSplit splitLoss(Value loss, const ItemAnalysis &analysis) {
  return Splitter(analysis).run(loss);
}

} // namespace dt::modules
