//===- NNShardingLinear.cpp - How products and norms may be cut -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNRuleBuilder.h"

using namespace mlir;
using namespace dt::nn;
using Letters = RuleBuilder::Letters;

static Letters join(Letters a, ArrayRef<unsigned> b) {
  a.append(b.begin(), b.end());
  return a;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

ShardingRule LinearOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape x = getShape(getInput());
  Letters rows = b.letters(ArrayRef(x).drop_back());
  unsigned in = b.factor(x.back());
  unsigned out = b.factor(getShape(getResult()).back());
  b.operand(0, join(rows, {in}));
  b.operand(1, getInOut() ? Letters{in, out} : Letters{out, in});
  b.result(0, join(rows, {out}));
  if (getBias()) {
    b.operand(2, {out});
    b.rule.addends.push_back(2);
    b.linear({0, 2});
    b.linear({1, 2});
  } else {
    b.linear({0});
    b.linear({1});
  }
  return b.finish();
}

ShardingRule LinearDwOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape x = getShape(getInput());
  Letters rows = b.letters(ArrayRef(x).drop_back());
  unsigned in = b.factor(x.back()), out = b.factor(getShape(getGrad()).back());
  b.operand(0, join(rows, {in}));
  b.operand(1, join(rows, {out}));
  b.result(0, getInOut() ? Letters{in, out} : Letters{out, in});
  b.linear({0});
  b.linear({1});
  return b.finish();
}

ShardingRule MatmulOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape result = getShape(getResult()), lhs = getShape(getLhs());
  size_t rank = result.size();
  Letters batch = b.letters(ArrayRef(result).drop_back(2));
  unsigned m = b.factor(result[rank - 2]), n = b.factor(result[rank - 1]);
  unsigned k = b.factor(lhs[lhs.size() - (getTransA() ? 2 : 1)]);
  b.operand(0, join(batch, getTransA() ? Letters{k, m} : Letters{m, k}));
  b.operand(1, join(batch, getTransB() ? Letters{n, k} : Letters{k, n}));
  b.result(0, join(batch, {m, n}));
  b.linear({0});
  b.linear({1});
  return b.finish();
}

//===----------------------------------------------------------------------===//
// Convolution, pooling
//===----------------------------------------------------------------------===//

namespace {
/// Factors of a convolution and both its gradients: channels are groups times
/// channels a group; space is never cut (that needs halos).
struct ConvFactors {
  ConvFactors(RuleBuilder &b, Value image, Value weight, uint64_t groups)
      : b(b), groups(groups) {
    Shape w = getShape(weight);
    n = b.factor(getShape(image)[0]);
    if (groups > 1)
      g = b.factor(DimExpr(groups), FactorKind::group);
    c = b.factor(w[1]);
    o = b.factor(*w[0].exactDiv(DimExpr(groups)));
  }
  Letters channels(unsigned inner) const {
    return groups > 1 ? Letters{g, inner} : Letters{inner};
  }
  void space(ShardingRule::Dims &dims, ArrayRef<DimExpr> shape) {
    for (size_t i = 2; i < shape.size(); ++i)
      dims[i] = {b.factor(shape[i], FactorKind::replicate)};
  }
  void setImage(ShardingRule::Dims &dims, Value v, unsigned inner) {
    dims[0] = {n};
    Letters list = channels(inner);
    dims[1].assign(list.begin(), list.end());
    space(dims, getShape(v));
  }
  void setWeight(ShardingRule::Dims &dims, Value v) {
    Letters list = channels(o);
    dims[0].assign(list.begin(), list.end());
    dims[1] = {c};
    space(dims, getShape(v));
  }
  RuleBuilder &b;
  uint64_t groups;
  unsigned n, g = 0, c, o;
};
} // namespace

ShardingRule ConvOp::getShardingRule() {
  RuleBuilder b(*this);
  ConvFactors f(b, getInput(), getWeight(), getGroups());
  f.setImage(b.rule.operands[0], getInput(), f.c);
  f.setWeight(b.rule.operands[1], getWeight());
  f.setImage(b.rule.results[0], getResult(), f.o);
  if (getBias()) {
    b.operandDim(2, 0, f.channels(f.o));
    b.rule.addends.push_back(2);
    b.linear({0, 2});
    b.linear({1, 2});
  } else {
    b.linear({0});
    b.linear({1});
  }
  return b.finish();
}

ShardingRule ConvDxOp::getShardingRule() {
  RuleBuilder b(*this);
  ConvFactors f(b, getGrad(), getWeight(), getGroups());
  f.setImage(b.rule.operands[0], getGrad(), f.o);
  f.setWeight(b.rule.operands[1], getWeight());
  f.setImage(b.rule.results[0], getResult(), f.c);
  b.linear({0});
  b.linear({1});
  return b.finish();
}

ShardingRule ConvDwOp::getShardingRule() {
  RuleBuilder b(*this);
  ConvFactors f(b, getInput(), getResult(), getGroups());
  f.setImage(b.rule.operands[0], getInput(), f.c);
  f.setImage(b.rule.operands[1], getGrad(), f.o);
  f.setWeight(b.rule.results[0], getResult());
  b.linear({0});
  b.linear({1});
  return b.finish();
}

/// Sample and channel pass, each value's space is its own.
static void setPooled(RuleBuilder &b, ShardingRule::Dims &dims, Value v) {
  Shape shape = getShape(v);
  dims[0] = {0};
  dims[1] = {1};
  for (size_t i = 2; i < shape.size(); ++i)
    dims[i] = {b.factor(shape[i], FactorKind::replicate)};
}

ShardingRule PoolOp::getShardingRule() {
  RuleBuilder b(*this);
  b.letters(ArrayRef(getShape(getInput())).take_front(2));
  setPooled(b, b.rule.operands[0], getInput());
  setPooled(b, b.rule.results[0], getResult());
  if (getKind() != PoolKind::max)
    b.linear({0});
  return b.finish();
}

ShardingRule PoolDxOp::getShardingRule() {
  RuleBuilder b(*this);
  b.letters(ArrayRef(getShape(getInput())).take_front(2));
  setPooled(b, b.rule.operands[0], getInput());
  setPooled(b, b.rule.operands[1], getGrad());
  setPooled(b, b.rule.results[0], getResult());
  b.linear({1});
  return b.finish();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// Heads are KV heads times queries a KV head: cutting the second replicates
/// keys and values, whose gradients are then partial.
struct AttentionFactors {
  AttentionFactors(RuleBuilder &b, Value query, Value key, Value value,
                   bool causal) {
    Shape q = getShape(query), k = getShape(key);
    batch = b.factor(q[0]);
    // Which keys a causal row sees follows from its place in the whole.
    rows = b.factor(q[1], causal ? FactorKind::blocked : FactorKind::pass);
    kv = b.factor(k[2], FactorKind::group);
    group = b.factor(q[2].exactDiv(k[2]).value_or(DimExpr(1)));
    columns = b.factor(k[1], FactorKind::replicate);
    d = b.factor(q[3], FactorKind::replicate);
    e = b.factor(getShape(value)[3], FactorKind::replicate);
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

ShardingRule AttentionOp::getShardingRule() {
  RuleBuilder b(*this);
  AttentionFactors f(b, getQuery(), getKey(), getValue(), getCausal());
  b.rule.operands[0] = f.ofQuery(f.d);
  b.rule.operands[1] = f.ofKey(f.d);
  b.rule.operands[2] = f.ofKey(f.e);
  if (getMask())
    b.rule.operands[3] = f.ofMask(getMask());
  b.rule.results[0] = f.ofQuery(f.e);
  b.rule.results[1] = f.ofLse();
  return b.finish();
}

ShardingRule AttentionGradOp::getShardingRule() {
  RuleBuilder b(*this);
  AttentionFactors f(b, getQuery(), getKey(), getValue(), getCausal());
  b.rule.operands[0] = f.ofQuery(f.d);
  b.rule.operands[1] = f.ofKey(f.d);
  b.rule.operands[2] = f.ofKey(f.e);
  unsigned next = 3;
  if (getMask())
    b.rule.operands[next++] = f.ofMask(getMask());
  b.rule.operands[next] = f.ofQuery(f.e);
  b.rule.operands[next + 1] = f.ofLse();
  b.rule.operands[next + 2] = f.ofQuery(f.e);
  b.rule.results[0] = f.ofQuery(f.d);
  b.rule.results[1] = f.ofKey(f.d);
  b.rule.results[2] = f.ofKey(f.e);
  b.linear({next + 2});
  return b.finish();
}

ShardingRule RotaryOp::getShardingRule() {
  RuleBuilder b(*this);
  Shape x = getShape(getInput());
  Letters list = b.letters(ArrayRef(x).drop_back());
  unsigned d = b.factor(x.back(), FactorKind::replicate);
  unsigned r = b.factor(getShape(getCos()).back(), FactorKind::replicate);
  b.operand(0, join(list, {d}));
  b.operand(1, {list[0], list[1], r});
  b.operand(2, {list[0], list[1], r});
  b.result(0, join(list, {d}));
  b.linear({0});
  return b.finish();
}
