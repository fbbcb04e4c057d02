//===- Experts.cpp - Products of rows by their experts' weights -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNCost.h"
#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNRuleBuilder.h"

#include <cmath>

using namespace mlir;
using namespace dt::nn;

/// Shapes that [r, in] rows and the weights of experts must have.
namespace {
struct ExpertShapes {
  DimExpr rows, experts, in, out;

  /// Of an op with input, weight, bias and `in_out`.
  template <typename Adaptor>
  static FailureOr<ExpertShapes> get(MaybeLoc loc, Adaptor op) {
    Shape x = getShape(op.getInput()), w = getShape(op.getWeight());
    if (x.size() != 2 || w.size() != 3)
      return fail(loc, "takes rows of rank 2 and a weight of rank 3");
    ExpertShapes s{x[0], w[0], w[op.getInOut() ? 1 : 2],
                   w[op.getInOut() ? 2 : 1]};
    if (x[1] != s.in)
      return fail(loc, "input " + shapeToString(x) +
                           " does not end in the weight's " + s.in.str());
    if (op.getBias() && getShape(op.getBias()) != Shape{s.experts, s.out})
      return fail(loc, "bias must be " + shapeToString({s.experts, s.out}));
    return s;
  }
};
} // namespace

static LogicalResult checkVector(MaybeLoc loc, StringRef name, Value vector,
                                 const DimExpr &size) {
  if (getShape(vector) != Shape{size})
    return fail(loc, name + " must be [" + size.str() + "], not " +
                         shapeToString(getShape(vector)));
  return success();
}

/// FLOPs of the rows that a rank of `parts` has on average.
static DimExpr shareOf(const DimExpr &flops, std::optional<uint64_t> parts) {
  return flops.exactDiv(DimExpr(int64_t(parts.value_or(1)))).value_or(flops);
}

/// Offsets have one number more than there are experts.
static FailureOr<DimExpr> countExperts(MaybeLoc loc, Value offsets) {
  Shape shape = getShape(offsets);
  if (shape.size() != 1)
    return fail(loc, "offsets must be a vector");
  return shape[0] - DimExpr(1);
}

//===----------------------------------------------------------------------===//
// Rows in the order of the tokens
//===----------------------------------------------------------------------===//

LogicalResult ExpertLinearOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                               Adaptor op, Types &out) {
  FailureOr<ExpertShapes> s = ExpertShapes::get(loc, op);
  if (failed(s) ||
      failed(checkVector(loc, "experts", op.getExperts(), s->rows)))
    return failure();
  out.push_back(makeTensorType({s->rows, s->out}, elementOf(op.getInput())));
  return success();
}

DimExpr ExpertLinearOp::getFlops() {
  return elements(getResult()) * getShape(getInput())[1] * DimExpr(2);
}
PrecisionRule ExpertLinearOp::getPrecisionRule() { return sumsInFull(*this); }
ItemState ExpertLinearOp::inferItems(ItemStates operands, const ItemContext &) {
  return leadingItems(*this, operands, 2);
}
Work ExpertLinearOp::getWork() {
  return {Work::Product, getShape(getInput())[1], getShape(getResult())[1]};
}

//===----------------------------------------------------------------------===//
// Choices within a capacity
//===----------------------------------------------------------------------===//

LogicalResult LimitChoicesOp::inferReturnTypes(MLIRContext *context,
                                               MaybeLoc loc, Adaptor op,
                                               Types &out) {
  Shape choices = getShape(op.getExperts());
  if (choices.size() != 2)
    return fail(loc, "takes experts of shape [samples, choices], not " +
                         shapeToString(choices));
  if (!op.getSegments() && !choices[1].asConstant())
    return fail(loc, "samples have " + choices[1].str() +
                         " choices, expected a number");
  if (Value segments = op.getSegments()) {
    Shape shape = getShape(segments);
    std::optional<DimExpr> each = choices[1].exactDiv(shape[1]);
    if (shape[0] != choices[0] || !each || !each->asConstant())
      return fail(loc, "segments " + shapeToString(shape) +
                           " are not a number for each of some choices of " +
                           shapeToString(choices));
  }
  out.push_back(makeTensorType(choices, IntegerType::get(context, 1)));
  return success();
}

std::optional<int64_t> LimitChoicesOp::getMost() {
  if (getSegments())
    return std::nullopt;
  int64_t choices = getShape(getExperts())[1].constant();
  double most =
      getCapacity().convertToDouble() * double(choices) / double(getCount());
  return most < double(choices) ? int64_t(std::ceil(most)) : choices;
}

int64_t LimitChoicesOp::getEach() {
  if (!getSegments())
    return 1;
  DimExpr choices = getShape(getExperts())[1];
  return choices.exactDiv(getShape(getSegments())[1])->constant();
}

/// Which choices of a token stay follows from all tokens before it.
ShardingRule LimitChoicesOp::getShardingRule() {
  RuleBuilder b(*this);
  Letters all = b.letters(getShape(getExperts()));
  b.rule.factors[all[1]].kind = FactorKind::replicate;
  b.operand(0, all);
  if (Value segments = getSegments())
    b.operand(1,
              {all[0], b.factor(getShape(segments)[1], FactorKind::replicate)});
  b.result(0, all);
  return b.finish();
}

/// Packed items are apart if segments keep them so, which the program checks of
/// an input (as for attention).
ItemState LimitChoicesOp::inferItems(ItemStates operands, const ItemContext &) {
  if (!getSegments())
    return itemsBesideAxis(*this, operands[0], 1).asNumber();
  for (const ItemState &state : operands)
    if (!state.is(ItemState::PerItem) || state.axis != 1)
      return allAre(operands, ItemState::Invariant)
                 ? ItemState()
                 : ItemState::coupled(*this, "counts rows of several items");
  if (!operands[1].isGiven)
    return ItemState::coupled(
        *this, "keeps items apart by numbers that the graph computes");
  return operands[0].asNumber();
}

//===----------------------------------------------------------------------===//
// The order by expert
//===----------------------------------------------------------------------===//

LogicalResult RouteOp::inferReturnTypes(MLIRContext *context, MaybeLoc loc,
                                        Adaptor op, Types &out) {
  Shape shape = getShape(op.getExperts());
  if (shape.size() != 1)
    return fail(loc, "takes a vector of experts' numbers");
  if (bool(op.getFirst()) != bool(op.getTake()))
    return fail(loc, "'from' and 'take' come together");
  if (op.getFirst() && !getShape(op.getFirst()).empty())
    return fail(loc, "takes the first expert as one number, not " +
                         shapeToString(getShape(op.getFirst())));
  uint64_t placed = op.getTake().value_or(op.getCount());
  if (placed > op.getCount())
    return fail(loc, "cannot take " + Twine(placed) + " of " +
                         Twine(op.getCount()) + " experts");
  uint64_t parts = op.getRanks().value_or(placed);
  if (bool(op.getRanks()) != bool(op.getSlots()) || placed % parts)
    return fail(loc, "'ranks' and 'slots' come together, of ranks that divide "
                     "the experts");
  if (op.getRanks() && !op.getFirst())
    return fail(loc, "rows for 'ranks' are of experts 'from' some on");
  Type i32 = IntegerType::get(context, 32);
  Shape order = shape;
  if (op.getSlots())
    order[0] = *op.getSlots() * DimExpr(int64_t(parts));
  else if (op.getRoom() && isSmaller(*op.getRoom(), shape[0]))
    order[0] = *op.getRoom();
  out.push_back(makeTensorType(order, i32));
  out.push_back(makeTensorType(shape, i32));
  out.push_back(makeTensorType({DimExpr(int64_t(parts + 1))}, i32));
  return success();
}

/// All ranks see the numbers of all rows; each orders those of its experts.
ShardingRule RouteOp::getShardingRule() {
  RuleBuilder b(*this);
  DimExpr size = getShape(getExperts())[0];
  unsigned numbers = b.factor(size, FactorKind::replicate),
           rows = b.factor(getShape(getOrder())[0], FactorKind::routed),
           places = b.factor(size, FactorKind::places),
           ends = b.factor(getShape(getOffsets())[0], FactorKind::ends);
  b.factor(DimExpr(int64_t(getPlaced())), FactorKind::experts);
  b.operand(0, {numbers});
  b.result(0, {rows});
  b.result(1, {places});
  b.result(2, {ends});
  return b.finish();
}

/// Of dispatch and combine: tokens are whole, rows those of a rank's experts,
/// columns may be cut.
template <typename Op>
static ShardingRule moveRule(Op op, FactorKind fromKind, FactorKind toKind) {
  RuleBuilder b(op);
  Shape x = getShape(op.getInput()), y = getShape(op.getResult());
  unsigned from = b.factor(x[0], fromKind), to = b.factor(y[0], toKind),
           rows = b.factor(getShape(op.getOrder())[0], FactorKind::routed),
           places = b.factor(getShape(op.getPlace())[0], FactorKind::places),
           columns = b.factor(x[1]);
  b.operand(0, {from, columns});
  b.operand(1, {rows});
  b.operand(2, {places});
  b.result(0, {to, columns});
  b.linear({0});
  return b.finish();
}

static LogicalResult checkMove(MaybeLoc loc, Value input, Value order,
                               Value place) {
  if (getShape(input).size() != 2)
    return fail(loc, "takes an input of rank 2");
  if (getShape(order).size() != 1)
    return fail(loc, "order must be a vector");
  if (getShape(place).size() != 1)
    return fail(loc, "place must be a vector");
  return success();
}

LogicalResult DispatchOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                           Adaptor op, Types &out) {
  if (failed(checkMove(loc, op.getInput(), op.getOrder(), op.getPlace())))
    return failure();
  Shape x = getShape(op.getInput());
  if (failed(checkVector(loc, "place", op.getPlace(),
                         x[0] * DimExpr(op.getEach()))))
    return failure();
  x[0] = getShape(op.getOrder())[0];
  out.push_back(makeTensorType(x, elementOf(op.getInput())));
  return success();
}

LogicalResult DispatchOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                   Wanted wanted, Gradients &result) {
  if (wanted[0])
    result[0] =
        GradientBuilder(builder, *this)
            .make<CombineOp>(grads[0], getOrder(), getPlace(), getEachAttr(),
                             getPartsAttr(), getRoomAttr());
  return success();
}

DimExpr DispatchOp::getFlops() { return 0; }
PrecisionRule DispatchOp::getPrecisionRule() {
  return PrecisionRule::anyNarrow(*this);
}
ShardingRule DispatchOp::getShardingRule() {
  return moveRule(*this, FactorKind::replicate, FactorKind::routed);
}
ItemState DispatchOp::inferItems(ItemStates, const ItemContext &) {
  return ItemState::coupled(*this, "orders rows by expert");
}

LogicalResult CombineOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                          Adaptor op, Types &out) {
  if (failed(checkMove(loc, op.getInput(), op.getOrder(), op.getPlace())) ||
      failed(
          checkVector(loc, "order", op.getOrder(), getShape(op.getInput())[0])))
    return failure();
  Shape x = getShape(op.getInput());
  DimExpr rows = getShape(op.getPlace())[0];
  std::optional<DimExpr> tokens = rows.exactDiv(DimExpr(op.getEach()));
  if (!tokens)
    return fail(loc, rows.str() + " rows are not " + Twine(op.getEach()) +
                         " for each token");
  out.push_back(makeTensorType({*tokens, x[1]}, elementOf(op.getInput())));
  return success();
}

LogicalResult CombineOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                  Wanted wanted, Gradients &result) {
  if (wanted[0])
    result[0] =
        GradientBuilder(builder, *this)
            .make<DispatchOp>(grads[0], getOrder(), getPlace(), getEachAttr(),
                              getPartsAttr(), getRoomAttr());
  return success();
}

DimExpr CombineOp::getFlops() {
  return shareOf(elements(getInput()), getParts());
}
PrecisionRule CombineOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule CombineOp::getShardingRule() {
  return moveRule(*this, FactorKind::routed, FactorKind::replicate);
}
ItemState CombineOp::inferItems(ItemStates, const ItemContext &) {
  return ItemState::coupled(*this, "takes rows in the order of experts");
}

//===----------------------------------------------------------------------===//
// Products of grouped rows
//===----------------------------------------------------------------------===//

LogicalResult GroupedLinearOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                                Adaptor op, Types &out) {
  FailureOr<ExpertShapes> s = ExpertShapes::get(loc, op);
  if (failed(s) || failed(checkVector(loc, "offsets", op.getOffsets(),
                                      s->experts + DimExpr(1))))
    return failure();
  out.push_back(makeTensorType({s->rows, s->out}, elementOf(op.getInput())));
  return success();
}

LogicalResult GroupedLinearOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                        Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  Value dy = grads[0];
  if (wanted[0])
    result[0] =
        g.make<GroupedLinearOp>(dy, getWeight(), getOffsets(), Value(),
                                !getInOut(), getPartsAttr(), getRoomAttr());
  if (wanted[1])
    result[1] =
        g.make<GroupedLinearDwOp>(getInput(), dy, getOffsets(), getInOut(),
                                  getPartsAttr(), getRoomAttr());
  if (getBias() && wanted[3])
    result[3] =
        g.make<GroupedSumOp>(dy, getOffsets(), getPartsAttr(), getRoomAttr());
  return success();
}

DimExpr GroupedLinearOp::getFlops() {
  return shareOf(elements(getResult()) * getShape(getInput())[1] * DimExpr(2),
                 getParts());
}
PrecisionRule GroupedLinearOp::getPrecisionRule() { return sumsInFull(*this); }
ItemState GroupedLinearOp::inferItems(ItemStates, const ItemContext &) {
  return ItemState::coupled(*this, "takes rows in the order of experts");
}
Work GroupedLinearOp::getWork() {
  return {Work::Product, getShape(getInput())[1], getShape(getResult())[1]};
}

ShardingRule GroupedLinearOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape x = getShape(getInput()), w = getShape(getWeight());
  unsigned rows = b.factor(x[0], FactorKind::routed),
           experts = b.factor(w[0], FactorKind::experts),
           ends = b.factor(getShape(getOffsets())[0], FactorKind::ends),
           in = b.factor(x[1]), out = b.factor(getShape(getResult())[1]);
  b.operand(0, {rows, in});
  b.operand(1,
            getInOut() ? Letters{experts, in, out} : Letters{experts, out, in});
  b.operand(2, {ends});
  b.result(0, {rows, out});
  if (!getBias()) {
    b.linear({0});
    b.linear({1});
    return b.finish();
  }
  b.operand(3, {experts, out});
  b.rule.addends.push_back(3);
  b.linear({0, 3});
  b.linear({1, 3});
  return b.finish();
}

LogicalResult GroupedLinearDwOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                                  Adaptor op, Types &out) {
  Shape x = getShape(op.getInput()), dy = getShape(op.getGrad());
  FailureOr<DimExpr> experts = countExperts(loc, op.getOffsets());
  if (failed(experts))
    return failure();
  if (x.size() != 2 || dy.size() != 2 || x[0] != dy[0])
    return fail(loc, "input and gradient must be rows, equally many");
  Shape w = {*experts, dy[1], x[1]};
  if (op.getInOut())
    std::swap(w[1], w[2]);
  out.push_back(makeTensorType(w, elementOf(op.getInput())));
  return success();
}

DimExpr GroupedLinearDwOp::getFlops() {
  return shareOf(elements(getInput()) * getShape(getGrad())[1] * DimExpr(2),
                 getParts());
}
PrecisionRule GroupedLinearDwOp::getPrecisionRule() { return sumsUp(*this); }
Work GroupedLinearDwOp::getWork() {
  return {Work::Product, getShape(getInput())[1], getShape(getGrad())[1]};
}

ShardingRule GroupedLinearDwOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape x = getShape(getInput());
  unsigned rows = b.factor(x[0], FactorKind::routed),
           experts = b.factor(getShape(getResult())[0], FactorKind::experts),
           ends = b.factor(getShape(getOffsets())[0], FactorKind::ends),
           in = b.factor(x[1]), out = b.factor(getShape(getGrad())[1]);
  b.operand(0, {rows, in});
  b.operand(1, {rows, out});
  b.operand(2, {ends});
  b.result(0,
           getInOut() ? Letters{experts, in, out} : Letters{experts, out, in});
  b.linear({0});
  b.linear({1});
  return b.finish();
}

LogicalResult GroupedSumOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                             Adaptor op, Types &out) {
  Shape x = getShape(op.getInput());
  FailureOr<DimExpr> experts = countExperts(loc, op.getOffsets());
  if (failed(experts))
    return failure();
  if (x.size() != 2)
    return fail(loc, "takes rows of rank 2");
  out.push_back(makeTensorType({*experts, x[1]}, elementOf(op.getInput())));
  return success();
}

DimExpr GroupedSumOp::getFlops() {
  return shareOf(elements(getInput()), getParts());
}
PrecisionRule GroupedSumOp::getPrecisionRule() { return sumsUp(*this); }
ShardingRule GroupedSumOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape x = getShape(getInput());
  unsigned rows = b.factor(x[0], FactorKind::routed),
           experts = b.factor(getShape(getResult())[0], FactorKind::experts),
           ends = b.factor(getShape(getOffsets())[0], FactorKind::ends),
           columns = b.factor(x[1]);
  b.operand(0, {rows, columns});
  b.operand(1, {ends});
  b.result(0, {experts, columns});
  b.linear({0});
  return b.finish();
}

//===----------------------------------------------------------------------===//
// Even choices without a loss
//===----------------------------------------------------------------------===//

LogicalResult BalanceOp::verify() {
  Shape bias = getShape(getBias()), choices = getShape(getExperts());
  if (bias.size() != 1 || !bias[0].asConstant())
    return emitOpError() << "takes a bias of one number for each expert, not "
                         << shapeToString(bias);
  if (choices.empty() || !choices.back().asConstant())
    return emitOpError() << "takes experts of shape [.., chosen of a row], not "
                         << shapeToString(choices);
  return success();
}

LogicalResult BalanceOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                  Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  result[0] = grads[0];
  if (!wanted[1])
    return success();
  Shape choices = getShape(getExperts()), rows = choices;
  rows.back() = getShape(getBias())[0];
  Value ones = g.broadcast(g.number(getBias(), 1), choices);
  Value chosen = g.make<GatherElementsGradOp>(
      makeTensorType(rows, elementOf(getBias())), ones, getExperts(),
      uint64_t(rows.size() - 1));
  Value deviation = g.add(g.mul(chosen, double(rows.back().constant())),
                          -double(choices.back().constant()));
  result[1] = g.sumRows(deviation, getBias().getType());
  return success();
}

DimExpr BalanceOp::getFlops() { return 0; }
PrecisionRule BalanceOp::getPrecisionRule() {
  PrecisionRule rule = PrecisionRule::anyNarrow(*this);
  rule.operands[1] = false;
  return rule;
}
ItemState BalanceOp::inferItems(ItemStates operands, const ItemContext &) {
  return operands[0];
}
ShardingRule BalanceOp::getShardingRule() {
  RuleBuilder b(*this);
  Letters input = b.letters(getShape(getInput()));
  b.operand(0, input);
  b.operand(1, b.letters(getShape(getBias()), FactorKind::replicate));
  b.operand(2, b.letters(getShape(getExperts()), FactorKind::replicate));
  b.result(0, input);
  return b.finish();
}
