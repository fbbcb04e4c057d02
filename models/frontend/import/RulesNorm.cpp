//===- RulesNorm.cpp - Normalisation ----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
/// A scale of ones or a bias of zeros does nothing: left out.
Value affine(NodeImporter &n, size_t i, double neutral) {
  if (!n.has(i))
    return {};
  if (const SymbolicTensor *t = n.symbolic(i))
    if (symbolic::asFloat(t->value) == neutral)
      return {};
  return n.value(i);
}

/// Scale and bias of a norm over the last `axes` axes, brought to their shape.
Value lastAxes(NodeImporter &n, Value v, int64_t axes) {
  if (!v)
    return v;
  Shape x = n.shape(0);
  return n.broadcast(v, Shape(x.end() - axes, x.end()));
}

/// Adds what is there of scale and bias, with their segment sizes.
void addAffine(NodeImporter &n, Value scale, Value bias,
               SmallVectorImpl<Value> &operands,
               SmallVectorImpl<NamedAttribute> &attributes) {
  if (scale)
    operands.push_back(scale);
  if (bias)
    operands.push_back(bias);
  attributes.push_back(n.segments({1, scale ? 1 : 0, bias ? 1 : 0}));
}

LogicalResult layerNorm(NodeImporter &n) {
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  if (n.wants(1) || n.wants(2))
    return n.fail("its outputs Mean and InvStdDev are not handled");
  int64_t axes = n.rank(0) - *axis;
  SmallVector<Value> operands{n.value(0)};
  SmallVector<NamedAttribute> attributes{
      n.f64("eps", n.floatAttr("epsilon", 1e-5)), n.i64("axes", axes)};
  addAffine(n, lastAxes(n, affine(n, 1, 1), axes),
            lastAxes(n, affine(n, 2, 0), axes), operands, attributes);
  return n.set(0, n.make<nn::LayerNormOp>(operands, attributes));
}

LogicalResult rmsNorm(NodeImporter &n) {
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  int64_t axes = n.rank(0) - *axis;
  SmallVector<Value> operands{n.value(0)};
  if (Value scale = lastAxes(n, affine(n, 1, 1), axes))
    operands.push_back(scale);
  return n.set(0, n.make<nn::RmsNormOp>(
                      operands, {n.f64("eps", n.floatAttr("epsilon", 1e-5)),
                                 n.i64("axes", axes)}));
}

LogicalResult groupNormOf(NodeImporter &n, int64_t groups, Value scale,
                          Value bias) {
  SmallVector<Value> operands{n.value(0)};
  SmallVector<NamedAttribute> attributes{
      n.f64("eps", n.floatAttr("epsilon", 1e-5)), n.i64("groups", groups)};
  addAffine(n, scale, bias, operands, attributes);
  return n.set(0, n.make<nn::GroupNormOp>(operands, attributes));
}

LogicalResult instanceNorm(NodeImporter &n) {
  Shape x = n.shape(0);
  if (x.size() < 2 || !x[1].asConstant())
    return n.fail("the number of channels must be a number");
  return groupNormOf(n, x[1].constant(), affine(n, 1, 1), affine(n, 2, 0));
}

/// Before operator set 21 scale and bias have one number a group.
Value perChannel(NodeImporter &n, Value v, int64_t groups,
                 const DimExpr &channels) {
  if (!v || nn::getShape(v) == Shape{channels})
    return v;
  std::optional<DimExpr> each = channels.exactDiv(DimExpr(groups));
  if (!each)
    return v; // the verifier of group_norm says what is wrong
  v = n.broadcast(n.reshape(v, {DimExpr(groups), DimExpr(1)}),
                  {DimExpr(groups), *each});
  return n.reshape(v, {channels});
}

LogicalResult groupNorm(NodeImporter &n) {
  int64_t groups = n.intAttr("num_groups", 0);
  Shape x = n.shape(0);
  if (groups < 1 || x.size() < 2)
    return n.fail("needs num_groups and a channel axis");
  return groupNormOf(n, groups, perChannel(n, affine(n, 1, 1), groups, x[1]),
                     perChannel(n, affine(n, 2, 0), groups, x[1]));
}

//===----------------------------------------------------------------------===//
// Batch normalisation
//===----------------------------------------------------------------------===//

/// [c] as [c, 1, ...] of a tensor of x's rank.
Value channelWise(NodeImporter &n, Value v) {
  Shape s(n.rank(0) - 1, DimExpr(1));
  s[0] = n.shape(0)[1];
  return n.reshape(v, s);
}

/// (x - mean) * rstd * scale + bias
Value normalise(NodeImporter &n, Value mean, Value rstd) {
  Value x = n.make<nn::SubOp>({n.value(0), mean});
  x = n.make<nn::MulOp>({x, rstd});
  x = n.make<nn::MulOp>({x, channelWise(n, n.value(1))});
  return n.make<nn::AddOp>({x, channelWise(n, n.value(2))});
}

LogicalResult batchNormFixed(NodeImporter &n) {
  double eps = n.floatAttr("epsilon", 1e-5);
  Value rstd;
  symbolic::Result folded;
  if (const SymbolicTensor *var = n.symbolic(4))
    folded = symbolic::mapFloat(
        *var, [&](double v) { return 1 / std::sqrt(v + eps); });
  if (folded) {
    rstd = n.emit(*folded);
  } else {
    Value var = n.make<nn::AddOp>({n.value(4), n.number(eps, n.element(4))});
    rstd = n.make<nn::RsqrtOp>(var);
  }
  n.remark(
      "batch normalisation in inference form: scale and bias are parameters, "
      "the statistics stay as they are");
  return n.set(0,
               normalise(n, channelWise(n, n.value(3)), channelWise(n, rstd)));
}

/// old * momentum + now * (1 - momentum)
Value running(NodeImporter &n, size_t old, Value now) {
  double momentum = n.floatAttr("momentum", 0.9);
  Type element = n.element(old);
  Value kept = n.make<nn::MulOp>({n.value(old), n.number(momentum, element)});
  Value added = n.make<nn::MulOp>({now, n.number(1 - momentum, element)});
  return n.make<nn::AddOp>({kept, added});
}

LogicalResult batchNormTraining(NodeImporter &n) {
  SmallVector<int64_t> axes{0};
  for (int64_t i = 2; i < n.rank(0); ++i)
    axes.push_back(i);
  Value x = n.value(0);
  Value mean = n.reduce(nn::ReduceKind::mean, x, axes, /*keepdims=*/false);
  Value centred = n.make<nn::SubOp>({x, channelWise(n, mean)});
  Value var = n.reduce(nn::ReduceKind::mean,
                       n.make<nn::MulOp>({centred, centred}), axes, false);
  Value rstd = n.make<nn::RsqrtOp>(n.make<nn::AddOp>(
      {var, n.number(n.floatAttr("epsilon", 1e-5), n.element(0))}));
  if (failed(
          n.set(0, normalise(n, channelWise(n, mean), channelWise(n, rstd)))))
    return failure();
  // ONNX's running variance is the biased one, as `var` is.
  if (n.wants(1) && failed(n.set(1, running(n, 3, mean))))
    return failure();
  if (n.wants(2) && failed(n.set(2, running(n, 4, var))))
    return failure();
  return success();
}

LogicalResult batchNorm(NodeImporter &n) {
  if (n.numInputs() != 5 || n.rank(0) < 2)
    return n.fail("needs five inputs and a channel axis");
  for (size_t i = 1; i < 5; ++i)
    if (n.shape(i) != Shape{n.shape(0)[1]})
      return n.fail("scale, bias and statistics must be [" +
                    n.shape(0)[1].str() + "]");
  return n.intAttr("training_mode", 0) ? batchNormTraining(n)
                                       : batchNormFixed(n);
}

//===----------------------------------------------------------------------===//
// Others
//===----------------------------------------------------------------------===//

LogicalResult lpNormalization(NodeImporter &n) {
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  int64_t p = n.intAttr("p", 2);
  Value x = n.value(0), size;
  if (p == 1)
    size = n.reduce(nn::ReduceKind::sum, n.make<nn::AbsOp>(x), {*axis}, true);
  else if (p == 2)
    size =
        n.reduce(nn::ReduceKind::sum, n.make<nn::MulOp>({x, x}), {*axis}, true);
  else
    return n.fail("p must be 1 or 2");
  // A row of zeros stays one, and so does its gradient: its size is left out
  // before the root, whose slope at 0 is infinite.
  Type element = n.element(0);
  Value none = n.compare(nn::Compare::eq, size, n.number(0, element));
  size = n.make<nn::WhereOp>({none, n.number(1, element), size});
  if (p == 2)
    size = n.make<nn::SqrtOp>(size);
  return n.set(0, n.make<nn::WhereOp>({none, n.number(0, element),
                                       n.make<nn::DivOp>({x, size})}));
}

LogicalResult meanVarianceNormalization(NodeImporter &n) {
  SmallVector<int64_t> axes = n.intsAttr("axes");
  if (axes.empty())
    axes = {0, 2, 3};
  for (int64_t &a : axes) {
    FailureOr<int64_t> fixed = n.axis(a, n.rank(0));
    if (failed(fixed))
      return failure();
    a = *fixed;
  }
  Value x = n.value(0);
  Value centred =
      n.make<nn::SubOp>({x, n.reduce(nn::ReduceKind::mean, x, axes, true)});
  Value var = n.reduce(nn::ReduceKind::mean,
                       n.make<nn::MulOp>({centred, centred}), axes, true);
  // The language adds 1e-9 to the deviation, not to the variance. The root has
  // no slope at 0.
  Type element = n.element(0);
  Value none = n.compare(nn::Compare::eq, var, n.number(0, element));
  Value deviation = n.make<nn::SqrtOp>(
      n.make<nn::WhereOp>({none, n.number(1, element), var}));
  Value size = n.make<nn::AddOp>({deviation, n.number(1e-9, element)});
  return n.set(0, n.make<nn::WhereOp>({none, n.number(0, element),
                                       n.make<nn::DivOp>({centred, size})}));
}
} // namespace

void models::addNormRules(RuleTable &rules) {
  rules["LayerNormalization"] = layerNorm;
  rules["RMSNormalization"] = rmsNorm;
  rules["InstanceNormalization"] = instanceNorm;
  rules["GroupNormalization"] = groupNorm;
  rules["BatchNormalization"] = batchNorm;
  rules["LpNormalization"] = lpNormalization;
  rules["MeanVarianceNormalization"] = meanVarianceNormalization;
}
