//===- Attention.cpp - Attention and rotary position embedding --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNCost.h"
#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNRuleBuilder.h"

#include <limits>

using namespace mlir;
using namespace dt::nn;

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Products of attention: `n` of [t, s] by d, a head; a causal mask leaves half
/// of them when rows and columns are equally many.
template <typename Op>
static DimExpr attentionFlops(Op op, int64_t withKey, int64_t withValue) {
  Shape q = getShape(op.getQuery()), k = getShape(op.getKey());
  DimExpr scores = q[0] * q[1] * q[2] * k[1];
  DimExpr full = scores * (q[3] * DimExpr(2 * withKey) +
                           getShape(op.getValue())[3] * DimExpr(2 * withValue));
  if (op.getCausal() && q[1] == k[1])
    if (auto half = full.exactDiv(2))
      return *half;
  return full;
}

namespace {
/// Heads are KV heads times queries a KV head: cutting the second replicates
/// keys and values, whose gradients are then partial.
struct AttentionFactors {
  template <typename Op> AttentionFactors(RuleBuilder &b, Op op) {
    Shape q = getShape(op.getQuery()), k = getShape(op.getKey());
    batch = b.factor(q[0]);
    // Which keys a causal row sees follows from its place in the whole.
    rows =
        b.factor(q[1], op.getCausal() ? FactorKind::blocked : FactorKind::pass);
    kv = b.factor(k[2], FactorKind::group);
    group = b.factor(q[2].exactDiv(k[2]).value_or(DimExpr(1)));
    columns = b.factor(k[1], FactorKind::replicate);
    d = b.factor(q[3], FactorKind::replicate);
    e = b.factor(getShape(op.getValue())[3], FactorKind::replicate);
    b.rule.operands[0] = ofQuery(d);
    b.rule.operands[1] = ofKey(d);
    b.rule.operands[2] = ofKey(e);
    if (op.getMask())
      b.rule.operands[3] = ofMask(op.getMask());
  }
  ShardingRule::Dims ofQuery(unsigned inner) const {
    return {{batch}, {rows}, {kv, group}, {inner}};
  }
  ShardingRule::Dims ofKey(unsigned inner) const {
    return {{batch}, {columns}, {kv}, {inner}};
  }
  ShardingRule::Dims ofLse() const { return {{batch}, {kv, group}, {rows}}; }
  ShardingRule::Dims ofMask(Value mask) const {
    ShardingRule::Dims full = {{batch}, {kv, group}, {rows}, {columns}};
    Shape shape = getShape(mask);
    ShardingRule::Dims dims;
    for (size_t i = 0; i < shape.size(); ++i) {
      dims.push_back(full[i + 4 - shape.size()]);
      if (shape[i] == DimExpr(1))
        dims.back().clear();
    }
    return dims;
  }
  unsigned batch, rows, kv, group, columns, d, e;
};
} // namespace

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                            Adaptor op, Types &out) {
  Shape q = getShape(op.getQuery()), k = getShape(op.getKey()),
        v = getShape(op.getValue());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return fail(loc, "query, key and value are [batch, tokens, heads, size]");
  if (k[0] != q[0] || v[0] != q[0] || k[1] != v[1] || k[2] != v[2] ||
      q[3] != k[3] || !q[2].exactDiv(k[2]))
    return fail(loc, "query " + shapeToString(q) + ", key " + shapeToString(k) +
                         " and value " + shapeToString(v) + " do not fit");
  Type element = elementOf(op.getQuery());
  out.push_back(makeTensorType({q[0], q[1], q[2], v[3]}, element));
  out.push_back(makeTensorType({q[0], q[2], q[1]},
                               Float32Type::get(element.getContext())));
  return success();
}

LogicalResult AttentionOp::verify() {
  if (!getMask())
    return success();
  Shape q = getShape(getQuery()), k = getShape(getKey()),
        mask = getShape(getMask());
  Shape scores = {q[0], q[2], q[1], k[1]};
  std::optional<Shape> together = broadcastShapes({scores, mask});
  if (!together || *together != scores)
    return emitOpError() << "mask " << shapeToString(mask)
                         << " does not broadcast to the scores "
                         << shapeToString(scores);
  Type element = elementOf(getMask());
  if (!element.isInteger(1) && !isa<FloatType>(element))
    return emitOpError("mask must be bool (visible) or float (added)");
  return success();
}

/// [b, t, h, d] -> [b, k, h/k, t, d]: heads before rows, in groups of those
/// that use one KV head.
static Value groupedHeads(GradientBuilder &g, Value v, const DimExpr &kvHeads) {
  Value byHead = g.transpose(v, {0, 2, 1, 3});
  Shape s = getShape(byHead);
  auto group = s[1].exactDiv(kvHeads);
  return g.reshape(byHead, {s[0], kvHeads, *group, s[2], s[3]});
}

/// true where query i sees key j: j <= i + s - t, as a [t, s] tensor.
static Value causalMask(GradientBuilder &g, const DimExpr &t,
                        const DimExpr &s) {
  OpBuilder::InsertionGuard guard(g.b);
  auto op = g.openGenerate(makeTensorType({t, s}, g.b.getI1Type()));
  Block &body = op.getBody().front();
  Value i = body.getArgument(0), j = body.getArgument(1);
  if (t != s)
    i = g.make<arith::AddIOp>(i, g.index(s - t));
  Value seen = g.make<arith::CmpIOp>(arith::CmpIPredicate::sle, j, i);
  g.make<YieldOp>(seen);
  return op;
}

/// Gradient of an additive mask (a learned bias on the scores): that of the
/// scores themselves, P * (dP - rowsum(dO * O)), written out. Only trained
/// masks need it, so it stays out of attention_grad.
static Value maskGrad(GradientBuilder &g, AttentionOp op, Value dy) {
  Shape q = getShape(op.getQuery()), k = getShape(op.getKey());
  Shape full{q[0], q[2], q[1], k[1]};
  Value gq = groupedHeads(g, op.getQuery(), k[2]);
  Value gk = groupedHeads(g, op.getKey(), k[2]);
  Value gv = groupedHeads(g, op.getValue(), k[2]);
  Value gdy = groupedHeads(g, dy, k[2]);
  Value scores = g.mul(g.widen(g.make<MatmulOp>(gq, gk, false, true)),
                       op.getScale().convertToDouble());
  scores = g.add(g.reshape(scores, full), op.getMask());
  if (op.getCausal()) {
    double none = -std::numeric_limits<double>::infinity();
    scores = g.select(causalMask(g, full[2], full[3]), scores,
                      g.number(scores, none));
  }
  Shape row{full[0], full[1], full[2], DimExpr(1)};
  Value lse = g.reshape(op.getLse(), row);
  Value p = g.make<ExpOp>(g.sub(scores, lse));
  // A row that sees nothing has lse = -inf, and no gradient.
  Value seen =
      g.compare(Compare::gt, lse, -std::numeric_limits<double>::infinity());
  p = g.select(seen, p, g.number(p, 0));
  Value dp = g.reshape(g.widen(g.make<MatmulOp>(gdy, gv, false, true)), full);
  Value dot = g.sum(g.mul(g.widen(dy), g.widen(op.getResult())), {3});
  Value delta = g.reshape(g.transpose(dot, {0, 2, 1}), row);
  return g.sumTo(g.mul(p, g.sub(dp, delta)), op.getMask().getType());
}

LogicalResult AttentionOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                    Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (grads[1])
    return emitOpError("has no gradient for its log-sum-exp result");
  Value dy = grads[0];
  if (!dy)
    return success();
  if (wanted[0] || wanted[1] || wanted[2]) {
    auto grad = g.make<AttentionGradOp>(
        getQuery(), getKey(), getValue(), getMask(), getResult(), getLse(), dy,
        getScaleAttr(), getCausalAttr(), getEmptyRowAttr());
    for (unsigned i = 0; i < 3; ++i)
      if (wanted[i])
        result[i] = grad->getResult(i);
  }
  if (getMask() && wanted[3])
    result[3] = maskGrad(g, *this, dy);
  return success();
}

DimExpr AttentionOp::getFlops() { return attentionFlops(*this, 1, 1); }
PrecisionRule AttentionOp::getPrecisionRule() {
  PrecisionRule rule = sumsInFull(*this);
  if (getMask())
    rule.operands[3] = false;
  rule.results[1] = false; // the gradient exponentiates it
  return rule;
}

ShardingRule AttentionOp::getShardingRule() {
  RuleBuilder b(*this);
  AttentionFactors f(b, *this);
  b.rule.results[0] = f.ofQuery(f.e);
  b.rule.results[1] = f.ofLse();
  return b.finish();
}

ItemState AttentionOp::inferItems(ItemStates operands, const ItemContext &) {
  SmallVector<ItemState> moved(operands);
  if (Value mask = getMask(); mask && moved[3].is(ItemState::PerItem))
    moved[3].axis += 4 - getRank(mask); // masks broadcast to [b, h, t, s]
  return leadingItems(*this, moved, moved.size());
}

LogicalResult AttentionGradOp::inferReturnTypes(MLIRContext *, MaybeLoc loc,
                                                Adaptor op, Types &out) {
  for (Value v : {op.getQuery(), op.getKey(), op.getValue()})
    out.push_back(v.getType());
  return success();
}

DimExpr AttentionGradOp::getFlops() {
  // Scores again, dq, dk; dP, dv.
  return attentionFlops(*this, 3, 2);
}
PrecisionRule AttentionGradOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule AttentionGradOp::getShardingRule() {
  RuleBuilder b(*this);
  AttentionFactors f(b, *this);
  unsigned next = getMask() ? 4 : 3;
  b.rule.operands[next] = f.ofQuery(f.e);
  b.rule.operands[next + 1] = f.ofLse();
  b.rule.operands[next + 2] = f.ofQuery(f.e);
  b.rule.results[0] = f.ofQuery(f.d);
  b.rule.results[1] = f.ofKey(f.d);
  b.rule.results[2] = f.ofKey(f.e);
  b.linear({next + 2});
  return b.finish();
}

//===----------------------------------------------------------------------===//
// Rotary position embedding
//===----------------------------------------------------------------------===//

LogicalResult RotaryOp::verify() {
  Shape x = getShape(getInput()), c = getShape(getCos());
  if (c != getShape(getSin()) || x.size() != 4 ||
      (c.size() != 2 && c.size() != 3))
    return emitOpError("takes [batch, tokens, heads, size] and cos, sin "
                       "[tokens, pairs] or [batch, tokens, pairs]");
  std::optional<int64_t> d = x[3].asConstant(), r = c.back().asConstant();
  if (!d || !r || 2 * *r > *d || c[c.size() - 2] != x[1] ||
      (c.size() == 3 && c[0] != x[0] && c[0] != DimExpr(1)))
    return emitOpError() << "angles " << shapeToString(c) << " do not turn "
                         << shapeToString(x);
  return success();
}

LogicalResult RotaryOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[1] || wanted[2])
    return emitOpError("has no gradient for its angles (trained rotary "
                       "frequencies are not supported)");
  if (wanted[0])
    result[0] = g.make<RotaryOp>(grads[0], getCos(), getSin(), getStyle(),
                                 !getInverse());
  return success();
}

DimExpr RotaryOp::getFlops() { return perElement(getInput(), 3); }
PrecisionRule RotaryOp::getPrecisionRule() {
  PrecisionRule rule = sumsInFull(*this);
  rule.operands[1] = rule.operands[2] = false;
  return rule;
}

ShardingRule RotaryOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape x = getShape(getInput());
  Letters list = b.letters(ArrayRef(x).drop_back());
  unsigned d = b.factor(x.back(), FactorKind::replicate);
  unsigned r = b.factor(getShape(getCos()).back(), FactorKind::replicate);
  b.operand(0, b.join(list, {d}));
  b.operand(1, {list[0], list[1], r});
  b.operand(2, {list[0], list[1], r});
  b.result(0, b.join(list, {d}));
  b.linear({0});
  return b.finish();
}

ItemState RotaryOp::inferItems(ItemStates operands, const ItemContext &) {
  SmallVector<ItemState> moved(operands);
  for (auto [operand, state] : llvm::zip(getOperands(), moved))
    if (state.is(ItemState::PerItem) && getRank(operand) == 2)
      ++state.axis; // angles of every [b]
  if (!moved[0].is(ItemState::PerItem) || moved[0].axis != 1)
    return llvm::any_of(moved,
                        [](const ItemState &state) {
                          return state.is(ItemState::PerItem) &&
                                 state.axis == 1;
                        })
               ? ItemState::coupled(*this, "turns by angles of another item")
               : leadingItems(*this, operands, 3);
  for (const ItemState &state : ArrayRef(moved).drop_front())
    if (state.is(ItemState::PerItem) && state.axis != 1)
      return ItemState::coupled(*this, "turns by angles of another item");
  return moved[0].asNumber();
}
