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

/// Queries of all ranks that have stripes of them.
template <typename Op> static DimExpr allQueries(Op op) {
  DimExpr own = getShape(op.getQuery())[1];
  return op.getStripes() ? own * DimExpr(op.getStripes()->getOver()) : own;
}

/// Keys of all ranks that have stripes of them.
template <typename Op> static DimExpr allKeys(Op op) {
  DimExpr own = getShape(op.getKey())[1];
  return op.getKeyStripes() ? own * DimExpr(op.getKeyStripes()->getOver())
                            : own;
}

/// Pairs of a query and a key inside a window, on average of the ranks that
/// have stripes; nothing where sizes are no numbers, or rows and columns not
/// equally many.
template <typename Op> static std::optional<int64_t> pairsInWindow(Op op) {
  std::optional<int64_t> t = allQueries(op).asConstant(),
                         s = allKeys(op).asConstant();
  std::optional<int64_t> window = op.getWindow();
  if (!window || !t || t != s)
    return std::nullopt;
  int64_t w = std::min(*window, *t);
  int64_t causal = w * *t - w * (w - 1) / 2;
  int64_t pairs = op.getCausal() ? causal : 2 * causal - *t;
  for (auto stripes : {op.getStripes(), op.getKeyStripes()})
    pairs /= stripes ? stripes->getOver() : 1;
  return pairs;
}

/// Products of attention: `n` of [t, s] by d, a head; a causal mask leaves half
/// of them when rows and columns are equally many, a window those inside it.
/// What segments leave is known when their numbers are: this is the most.
template <typename Op>
static DimExpr attentionFlops(Op op, int64_t withKey, int64_t withValue) {
  Shape q = getShape(op.getQuery()), k = getShape(op.getKey());
  DimExpr each = q[0] * q[2] *
                 (q[3] * DimExpr(2 * withKey) +
                  getShape(op.getValue())[3] * DimExpr(2 * withValue));
  if (std::optional<int64_t> pairs = pairsInWindow(op))
    return each * DimExpr(*pairs);
  DimExpr full = each * q[1] * k[1];
  if (op.getCausal() && allQueries(op) == allKeys(op))
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
    // Which keys a row sees by causal or window follows from its place in the
    // whole, which stripes of stripes do not say.
    bool placed =
        op.getCausal() || op.getWindow() || op.getStripes() || op.getPartial();
    rows = b.factor(q[1], placed ? FactorKind::blocked : FactorKind::pass);
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
    if (Value ids = op.getQuerySegments()) {
      unsigned next = op.getMask() ? 4 : 3;
      b.rule.operands[next] = ofSegments(ids, rows);
      b.rule.operands[next + 1] = ofSegments(op.getKeySegments(), columns);
    }
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
  ShardingRule::Dims ofSegments(Value ids, unsigned places) const {
    ShardingRule::Dims dims = {{batch}, {places}};
    for (auto [dim, size] : llvm::zip(dims, getShape(ids)))
      if (size == DimExpr(1))
        dim.clear();
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

static bool broadcastsTo(const Shape &from, const Shape &to) {
  std::optional<Shape> together = broadcastShapes({to, from});
  return together && *together == to;
}

template <typename Op> static LogicalResult verifySegments(Op op) {
  Value queries = op.getQuerySegments(), keys = op.getKeySegments();
  if (!queries != !keys)
    return op.emitOpError("needs segments of queries and of keys, or none");
  if (!queries)
    return success();
  if (elementOf(queries) != elementOf(keys))
    return op.emitOpError()
           << "segments of queries, " << elementOf(queries) << ", and of keys, "
           << elementOf(keys) << ", are of one type";
  Shape q = getShape(op.getQuery()), k = getShape(op.getKey());
  Shape ofQueries = getShape(queries), ofKeys = getShape(keys);
  if (ofQueries.size() != 2 || !broadcastsTo(ofQueries, {q[0], q[1]}))
    return op.emitOpError()
           << "segments " << shapeToString(ofQueries) << " are not of queries "
           << shapeToString({q[0], q[1]});
  if (ofKeys.size() != 2 || ofKeys[1] != k[1] ||
      !broadcastsTo(ofKeys, {k[0], k[1]}))
    return op.emitOpError()
           << "segments " << shapeToString(ofKeys) << " are not of keys "
           << shapeToString({k[0], k[1]});
  return success();
}

/// Whole blocks of rows, where their number is known.
static LogicalResult verifyStripes(Operation *op, StripesAttr stripes,
                                   Value rows, StringRef what) {
  if (!stripes)
    return success();
  std::optional<int64_t> t = getShape(rows)[1].asConstant();
  if (stripes.getChunk() < 1 || stripes.getOver() < 1 ||
      stripes.getStride() < 1 || (t && *t % stripes.getChunk() != 0))
    return op->emitOpError() << "stripes of " << stripes.getChunk()
                             << " rows over " << stripes.getOver() << " ranks, "
                             << stripes.getStride() << " apart, are not of "
                             << what << " " << shapeToString(getShape(rows));
  if (stripes.getBehind() >= 0 && stripes.getBehind() < stripes.getOver())
    return success();
  return op->emitOpError() << "stripes of " << what << " are those of a rank "
                           << stripes.getBehind() << " behind, of "
                           << stripes.getOver();
}

/// Keys that are some of those that rows see.
template <typename Op> static LogicalResult verifyPartial(Op op) {
  if (op.getKeyStripes() && !op.getPartial())
    return op.emitOpError("has stripes of keys, which are a part: expected "
                          "`partial`");
  if (op.getPartial() && (op.getMask() || op.getEmptyRow() != EmptyRow::zero))
    return op.emitOpError("of a part of the keys has no mask, and gives zero "
                          "to a row that sees none of them");
  return success();
}

/// What hides keys, of attention and of its gradients.
template <typename Op> static LogicalResult verifyHidden(Op op) {
  if (std::optional<int64_t> window = op.getWindow(); window && *window < 1)
    return op.emitOpError() << "a window has 1 key or more, not " << *window;
  if (failed(
          verifyStripes(op, op.getStripesAttr(), op.getQuery(), "queries")) ||
      failed(verifyStripes(op, op.getKeyStripesAttr(), op.getKey(), "keys")) ||
      failed(verifyPartial(op)) || failed(verifySegments(op)))
    return failure();
  if (!op.getMask())
    return success();
  Shape q = getShape(op.getQuery()), k = getShape(op.getKey()),
        mask = getShape(op.getMask());
  Shape scores = {q[0], q[2], q[1], k[1]};
  if (!broadcastsTo(mask, scores))
    return op.emitOpError()
           << "mask " << shapeToString(mask)
           << " does not broadcast to the scores " << shapeToString(scores);
  Type element = elementOf(op.getMask());
  if (!element.isInteger(1) && !isa<FloatType>(element))
    return op.emitOpError("mask must be bool (visible) or float (added)");
  return success();
}

LogicalResult AttentionOp::verify() { return verifyHidden(*this); }
LogicalResult AttentionGradOp::verify() { return verifyHidden(*this); }

/// [b, t, h, d] -> [b, k, h/k, t, d]: heads before rows, in groups of those
/// that use one KV head.
static Value groupedHeads(GradientBuilder &g, Value v, const DimExpr &kvHeads) {
  Value byHead = g.transpose(v, {0, 2, 1, 3});
  Shape s = getShape(byHead);
  auto group = s[1].exactDiv(kvHeads);
  return g.reshape(byHead, {s[0], kvHeads, *group, s[2], s[3]});
}

/// true where the causal rule and the window let query i see key j, as a
/// [t, s] tensor.
static Value placesMask(GradientBuilder &g, AttentionOp op) {
  using P = arith::CmpIPredicate;
  DimExpr t = getShape(op.getQuery())[1], s = getShape(op.getKey())[1];
  OpBuilder::InsertionGuard guard(g.b);
  auto generate = g.openGenerate(makeTensorType({t, s}, g.b.getI1Type()));
  Block &body = generate.getBody().front();
  Value i = body.getArgument(0), j = body.getArgument(1);
  if (t != s)
    i = g.make<arith::AddIOp>(i, g.index(s - t));
  Value seen;
  auto add = [&](Value less, Value more, P how) {
    Value next = g.make<arith::CmpIOp>(how, less, more);
    seen = seen ? Value(g.make<arith::AndIOp>(seen, next)) : next;
  };
  if (op.getCausal())
    add(j, i, P::sle);
  if (std::optional<int64_t> window = op.getWindow()) {
    Value reach = g.index(DimExpr(*window));
    add(g.make<arith::SubIOp>(i, j), reach, P::slt);
    if (!op.getCausal())
      add(g.make<arith::SubIOp>(j, i), reach, P::slt);
  }
  g.make<YieldOp>(seen);
  return generate;
}

/// true where a query and a key are of one segment, as [b or 1, 1, t or 1, s].
static Value segmentsMask(GradientBuilder &g, AttentionOp op) {
  Shape q = getShape(op.getQuerySegments()), k = getShape(op.getKeySegments());
  DimExpr one(1);
  return g.compare(Compare::eq,
                   g.reshape(op.getQuerySegments(), {q[0], one, q[1], one}),
                   g.reshape(op.getKeySegments(), {k[0], one, one, k[1]}));
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
  if (std::optional<APFloat> cap = op.getSoftCap()) {
    double number = cap->convertToDouble();
    scores = g.mul(g.make<TanhOp>(g.mul(scores, 1 / number)), number);
  }
  scores = g.add(g.reshape(scores, full), op.getMask());
  double none = -std::numeric_limits<double>::infinity();
  if (op.getCausal() || op.getWindow())
    scores = g.select(placesMask(g, op), scores, g.number(scores, none));
  if (op.getQuerySegments())
    scores = g.select(segmentsMask(g, op), scores, g.number(scores, none));
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
  if (getPartial())
    return emitOpError("of a part of the keys has no gradient by itself");
  Value dy = grads[0];
  if (!dy)
    return success();
  if (wanted[0] || wanted[1] || wanted[2]) {
    auto grad = g.make<AttentionGradOp>(
        getQuery(), getKey(), getValue(), getMask(), getQuerySegments(),
        getKeySegments(), getResult(), getLse(), dy, getScaleAttr(),
        getCausalAttr(), getEmptyRowAttr(), getWindowAttr(), getSoftCapAttr(),
        getStripesAttr(), getKeyStripesAttr(), getPartialAttr());
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
  // What hides keys stays as it is.
  std::fill(rule.operands.begin() + 3, rule.operands.end(), false);
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

/// Where tokens of several items follow one another, segments keep these apart:
/// the program checks that whoever makes the numbers gives items different
/// ones.
static ItemState inferTokenItems(AttentionOp op, ItemStates operands) {
  auto alongTokens = [](const ItemState &state) {
    return state.is(ItemState::PerItem) && state.axis == 1;
  };
  unsigned segments = op.getMask() ? 4 : 3;
  if (!op.getQuerySegments() ||
      !llvm::all_of(operands.drop_front(segments), alongTokens) ||
      !llvm::all_of(operands.take_front(3), alongTokens))
    return ItemState::coupled(op, "lets items see one another");
  int64_t plus = operands[segments].givenPlus;
  if (!llvm::all_of(operands.drop_front(segments), [&](const ItemState &ids) {
        return ids.isGiven && ids.givenPlus == plus;
      }))
    return ItemState::coupled(
        op, "keeps items apart by numbers that the graph computes, of which "
            "two items may have the same, where it should compare integers of "
            "an input as they are");
  // A query sees itself, else it might get the mean of what others have.
  bool seesItself =
      !op.getMask() && op.getQuerySegments() == op.getKeySegments();
  if (!seesItself && op.getEmptyRow() == EmptyRow::mean)
    return ItemState::coupled(
        op, "gives a query that sees no key the mean of all items");
  if (op.getMask() && operands[3].is(ItemState::PerItem) &&
      operands[3].axis < 2)
    return ItemState::coupled(op, "lets items see one another");
  return operands[0].asNumber();
}

bool AttentionOp::hidesForeignPairs(unsigned operand) {
  return operand == 3 && getMask() && getQuerySegments();
}

ItemState AttentionOp::inferItems(ItemStates operands, const ItemContext &) {
  SmallVector<ItemState> moved(operands);
  if (Value mask = getMask(); mask && moved[3].is(ItemState::PerItem))
    moved[3].axis += 4 - getRank(mask); // masks broadcast to [b, h, t, s]
  if (llvm::any_of(ArrayRef(moved).take_front(3), [](const ItemState &state) {
        return state.is(ItemState::PerItem) && state.axis == 1;
      }))
    return inferTokenItems(*this, moved);
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
  unsigned next = getODSOperandIndexAndLength(6).first;
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
