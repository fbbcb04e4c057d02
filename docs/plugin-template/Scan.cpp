//===- Scan.cpp - An operator -----------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A recurrence that no operator of nn is: imported, cut over ranks,
// differentiated, priced and lowered to a kernel by what stands here.
//
//===----------------------------------------------------------------------===//

#include "Example.h"

#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNRuleBuilder.h"
#include "passes/lower/FunctionLowering.h"

#include "ScanDialect.h.inc"
#define GET_OP_CLASSES
#include "ScanOps.h.inc"

using namespace mlir;
using namespace dt;
using namespace example;

LogicalResult ScanOp::inferReturnTypes(MLIRContext *,
                                       std::optional<Location> loc, Adaptor op,
                                       SmallVectorImpl<Type> &types) {
  nn::Shape x = nn::getShape(op.getInput());
  if (x.size() != 3 || nn::getShape(op.getDecay()) != nn::Shape{x.back()})
    return emitOptionalError(
        loc, "takes [batch, tokens, channels] and [channels], not ",
        nn::shapeToString(x), " and ",
        nn::shapeToString(nn::getShape(op.getDecay())));
  types.push_back(op.getInput().getType());
  return success();
}

/// The gradient of a state comes from its own token and from the next one: a
/// recurrence backwards. The decay's is that times the state before.
LogicalResult ScanOp::buildVjp(OpBuilder &builder, ValueRange grads,
                               ArrayRef<bool> wanted,
                               SmallVectorImpl<Value> &result) {
  nn::GradientBuilder g(builder, *this);
  Value state = g.make<ScanOp>(grads[0], getDecay(), getReverse() ? 0 : 1);
  if (wanted[0])
    result[0] = state;
  if (!wanted[1])
    return success();
  nn::DimExpr count = nn::getShape(getResult())[1] - nn::DimExpr(1);
  int64_t from = getReverse() ? 1 : 0;
  Value before = placeBack(g, takeRange(g, getResult(), 1, from, count),
                           getType(), {0, 1 - from, 0}, {1, 1, 1});
  result[1] = g.sum(g.mul(state, before), {0, 1});
  return success();
}

nn::DimExpr ScanOp::getFlops() {
  return nn::getNumElements(nn::getShape(getInput())) * nn::DimExpr(2);
}

nn::ItemState ScanOp::inferItems(nn::ItemStates operands,
                                 const nn::ItemContext &) {
  return nn::leadingItems(*this, operands, /*data=*/1);
}

/// Tokens stay together; samples and channels may be cut.
nn::ShardingRule ScanOp::getShardingRule() {
  nn::RuleBuilder b(*this);
  auto letters = b.letters(nn::getShape(getInput()));
  b.rule.factors[letters[1]].kind = nn::FactorKind::replicate;
  b.operand(0, letters);
  b.operand(1, {letters[2]});
  b.result(0, letters);
  b.linear({0});
  return b.finish();
}

/// The operator's kernel, for every target: a point is a channel of a sample.
LogicalResult ScanOp::lowerToRT(lower::FunctionLowering &f) {
  nn::Shape shape = nn::getShape(getInput());
  lower::Destination to = f.destination(getResult());
  lower::KernelBuilder k(f.builder(), getLoc(), "scan", {shape[0], shape[2]});
  Value x = k.use(f.get(getInput()), shape), y = k.use(to.buffer, shape);
  Value sample = k.index(0), channel = k.index(1);
  Value decay = k.load(k.use(f.get(getDecay()), {shape[2]}), channel);
  k.fold(
      nn::Shape{shape[1]}, k.number(decay.getType(), 0),
      [&](ValueRange step, ValueRange state) {
        Value token = step[0];
        if (getReverse())
          token = k.sub(k.size(shape[1] - nn::DimExpr(1)), token);
        SmallVector<Value> at{sample, token, channel};
        Value next = k.add(k.mul(decay, state[0]), k.load(x, at));
        k.store(next, y, at);
        return SmallVector<Value>{next};
      },
      /*simd=*/false);
  return success();
}

void ExampleDialect::initialize() { addOperations<ScanOp>(); }

#include "ScanDialect.cpp.inc"
#define GET_OP_CLASSES
#include "ScanOps.cpp.inc"

void example::addScan(Plugin &plugin) { plugin.addDialect<ExampleDialect>(); }
