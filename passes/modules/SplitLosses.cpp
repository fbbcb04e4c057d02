//===- SplitLosses.cpp - A loss as quotients of sums ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A graph that computes its loss ends in a quotient: a sum over items, divided
// by a count. Parts of a batch need both apart, because their counts differ.
// Whatever else is between the sum and the loss (a condition, a bound, a sign)
// is kept: with the numerator if it knows no items, on the denominator's sum if
// the runtime can apply it there. Anything else is not split.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/SplitLosses.h"
#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNNumbers.h"
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

/// From raw inputs alone: no parameter is read to compute it, and nothing comes
/// from another module.
bool isData(Value value, const llvm::DenseSet<Value> &received) {
  SetVector<Operation *> slice = sliceOf(value);
  return !received.contains(value) && llvm::none_of(slice, [&](Operation *op) {
    return isa<nn::ReadOp>(op) || llvm::any_of(op->getOperands(), [&](Value v) {
             return received.contains(v);
           });
  });
}

/// Inputs of the function that are outputs of other modules.
llvm::DenseSet<Value> receivedBy(Value value) {
  llvm::DenseSet<Value> received;
  Block *body = value.getParentBlock();
  auto forward = dyn_cast<func::FuncOp>(body->getParentOp());
  auto module =
      forward ? forward->getParentOfType<dist::ModuleOp>() : dist::ModuleOp();
  auto program =
      module ? module->getParentOfType<mlir::ModuleOp>() : mlir::ModuleOp();
  if (!program)
    return received;
  for (auto edge : program.getOps<dist::EdgeOp>())
    if (edge.getTarget() == module.getSymName())
      if (auto i = dist::ModuleOp::findArgument(forward, edge.getInput()))
        received.insert(body->getArgument(*i));
  return received;
}

class Splitter {
public:
  explicit Splitter(const ItemAnalysis &analysis) : analysis(analysis) {}

  LossSplit run(Value loss) {
    received = receivedBy(loss);
    root = loss.getDefiningOp() ? loss.getDefiningOp()
                                : loss.getParentBlock()->getParentOp();
    walk(loss, LossTerm());
    return std::move(result);
  }

private:
  /// Adds the terms of `value`, multiplied by what `outer` has so far.
  void walk(Value value, LossTerm outer);
  void quotient(nn::DivOp op, LossTerm outer);
  void mean(nn::ReduceOp op, LossTerm outer);
  void product(nn::MulOp op, LossTerm outer);
  void choice(nn::WhereOp op, LossTerm outer);
  void leaf(Value value, LossTerm outer);
  void fail(Operation *op, const Twine &reason) {
    if (result.culprit)
      return;
    result.culprit = op ? op : root; // an input has no op
    result.reason = reason.str();
  }
  bool isSum(const nn::DimExpr &count) const {
    return nn::isSumOverItems(count,
                              [&](StringRef s) { return analysis.isItem(s); });
  }

  const ItemAnalysis &analysis;
  llvm::DenseSet<Value> received;
  Operation *root = nullptr;
  LossSplit result;
};

void Splitter::leaf(Value value, LossTerm outer) {
  const ItemState &state = analysis.get(value);
  Operation *op = value.getDefiningOp();
  if (state.is(ItemState::Coupled))
    return fail(state.culprit, state.reason);
  if (state.is(ItemState::Invariant))
    return fail(
        op,
        "adds to the loss what depends on no item: parts would count it again");
  if (state.is(ItemState::PerItem) && outer.denominator.value)
    return fail(op, "is not summed over items");
  outer.numerator = value;
  result.terms.push_back(outer);
}

void Splitter::quotient(nn::DivOp op, LossTerm outer) {
  if (auto number = nn::splatOf(op.getRhs()); number && *number != 0) {
    outer.weight /= *number;
    return walk(op.getLhs(), outer);
  }
  if (analysis.get(op.getRhs()).is(ItemState::Invariant)) {
    outer.steps.push_back({LossStep::Over, op.getRhs()});
    return walk(op.getLhs(), outer);
  }
  if (!isData(op.getRhs(), received))
    return fail(op,
                "divides by what depends on parameters or on another module");
  if (outer.isDivided())
    return fail(op, "divides a loss a second time");
  Denominator d = readDenominator(op.getRhs());
  bool sums = d.value ? analysis.get(d.value).is(ItemState::Sum)
                      : d.count != nn::DimExpr(0) && isSum(d.count);
  if (!sums)
    return fail(op, "divides by what is not a sum over items");
  outer.weight /= d.scale;
  d.scale = 1;
  outer.denominator = d;
  walk(op.getLhs(), outer);
}

/// The mean of all elements: their sum over their number.
void Splitter::mean(nn::ReduceOp op, LossTerm outer) {
  nn::DimExpr count = nn::getNumElements(nn::getShape(op.getInput()));
  bool overItems = analysis.get(op.getInput()).is(ItemState::PerItem);
  if (!overItems || outer.isDivided())
    return leaf(op.getResult(), outer);
  if (!isSum(count))
    return fail(op, "takes a mean over more than items");
  outer.denominator.count = count;
  leaf(op.getInput(), outer);
}

void Splitter::product(nn::MulOp op, LossTerm outer) {
  for (unsigned i : {0, 1}) {
    if (auto number = nn::splatOf(op.getOperand(i))) {
      outer.weight *= *number;
      return walk(op.getOperand(1 - i), outer);
    }
    if (analysis.get(op.getOperand(i)).is(ItemState::Invariant)) {
      outer.steps.push_back({LossStep::Times, op.getOperand(i)});
      return walk(op.getOperand(1 - i), outer);
    }
  }
  leaf(op.getResult(), outer);
}

/// where(c, x, 0): a condition that knows no items is kept; one that says
/// whether the denominator is 0 is what the runtime does anyway. No other can
/// be known to a part.
void Splitter::choice(nn::WhereOp op, LossTerm outer) {
  for (unsigned i : {1, 2}) {
    if (nn::splatOf(op->getOperand(i)) != 0.0)
      continue;
    Value kept = op->getOperand(3 - i), condition = op.getCondition();
    if (analysis.get(condition).is(ItemState::Invariant)) {
      outer.steps.push_back(
          {i == 2 ? LossStep::When : LossStep::Unless, condition});
      return walk(kept, outer);
    }
    size_t before = result.terms.size();
    walk(kept, outer);
    if (result.culprit)
      return;
    for (LossTerm &term : llvm::drop_begin(result.terms, before)) {
      Denominator &d = term.denominator;
      bool same = term.isDivided() && d.plus == 0 && d.atLeast <= 1 &&
                  readZeroTest(condition, d) == (i == 2);
      if (!same)
        return fail(
            op, "keeps or drops the loss by a condition on the whole batch");
      d.atLeast = Denominator().atLeast; // a count of 0 gives 0
    }
    return;
  }
  leaf(op.getResult(), outer);
}

void Splitter::walk(Value value, LossTerm outer) {
  Operation *op = value.getDefiningOp();
  bool single = nn::getNumElements(nn::getShape(value)) == nn::DimExpr(1);
  if (!op || !single)
    return leaf(value, outer);
  if (isa<nn::ReshapeOp, nn::BroadcastOp>(op) ||
      (isa<nn::CastOp>(op) && isa<FloatType>(getElementTypeOrSelf(value)) &&
       isa<FloatType>(getElementTypeOrSelf(op->getOperand(0)))))
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
    bool trivial =
        nn::getNumElements(nn::getShape(reduce.getInput())) == nn::DimExpr(1);
    if (trivial)
      return walk(reduce.getInput(), outer);
    if (reduce.getKind() == nn::ReduceKind::mean)
      return mean(reduce, outer);
  }
  if (auto where = dyn_cast<nn::WhereOp>(op))
    return choice(where, outer);
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
  Value apply(const LossStep &step, Value numerator);
  Value number(double value);
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
    value = nn::CastOp::create(
        builder, loc, nn::withElementType(type, builder.getF32Type()), value);
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
  if (term.denominator.value) {
    slice = sliceOf(term.denominator.value);
    auto addInput = [&](Value value) {
      if (auto argument = dyn_cast<BlockArgument>(value);
          argument && argument.getOwner() == &forward.getBody().front())
        inputs.insert(argument);
    };
    addInput(term.denominator.value);
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
  if (term.denominator.value)
    result = sum(inner, mapping.lookup(term.denominator.value));
  else
    result = dist::buildElementCount(inner, loc, term.denominator.count);
  func::ReturnOp::create(inner, loc, result);
}

Value TermBuilder::number(double value) {
  auto type = RankedTensorType::get({}, b.getF32Type());
  return nn::ConstantOp::create(
      b, loss.getLoc(), type,
      DenseElementsAttr::get(type, b.getF32FloatAttr(float(value))));
}

Value TermBuilder::apply(const LossStep &step, Value numerator) {
  Location loc = loss.getLoc();
  if (step.kind == LossStep::Times)
    return nn::MulOp::create(b, loc, numerator, sum(b, step.value));
  if (step.kind == LossStep::Over)
    return nn::DivOp::create(b, loc, numerator, sum(b, step.value));
  auto type = RankedTensorType::get({}, b.getI1Type());
  Value condition = step.value;
  if (condition.getType() != type)
    condition = nn::ReshapeOp::create(b, loc, type, condition);
  return step.kind == LossStep::When
             ? nn::WhereOp::create(b, loc, condition, numerator, number(0))
             : nn::WhereOp::create(b, loc, condition, number(0), numerator);
}

void TermBuilder::build(const LossTerm &term, unsigned index, unsigned total) {
  Location loc = loss.getLoc();
  std::string name = loss.getName().str();
  if (total > 1)
    name += "." + std::to_string(index);
  Value numerator = sum(b, term.numerator);
  for (const LossStep &step : llvm::reverse(term.steps))
    numerator = apply(step, numerator);
  // In the graph, not in the weight: the term is reported as the graph has it.
  if (term.weight != 1)
    numerator = nn::MulOp::create(b, loc, numerator, number(term.weight));
  std::string output = "loss." + name;
  unsigned position = forward.getNumResults();
  (void)forward.insertResult(position, numerator.getType(),
                             b.getDictionaryAttr(b.getNamedAttr(
                                 nn::kNameAttr, b.getStringAttr(output))));
  Operation *terminator = forward.getBody().front().getTerminator();
  terminator->insertOperands(position, numerator);
  FlatSymbolRefAttr symbol;
  if (term.isDivided()) {
    denominator(term, name + ".denominator");
    symbol = FlatSymbolRefAttr::get(b.getContext(), name + ".denominator");
  }
  OpBuilder top(loss);
  auto made = dist::LossOp::create(
      top, loc, top.getStringAttr(name), loss.getModuleAttr(),
      top.getStringAttr(output), symbol, loss.getWeightAttr());
  if (std::isfinite(term.denominator.atLeast))
    made.setAtLeast(APFloat(term.denominator.atLeast));
  if (term.denominator.plus != 0)
    made.setPlus(APFloat(term.denominator.plus));
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
    unsigned position =
        *dist::ModuleOp::findResult(forward, loss.getNumerator());
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
