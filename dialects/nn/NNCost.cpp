//===- NNCost.cpp - What operators cost -------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Floating-point operations as polynomials of the module's symbols; a
// multiply-add counts 2. Products are exact. Norms, softmax and losses count
// operations an element, with exp as one: they are bound by memory anyway.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNOps.h"

using namespace mlir;
using namespace dt::nn;

static DimExpr elements(Value v) { return getNumElements(getShape(v)); }

/// Result elements times the length of the contracted axis, two each.
static DimExpr productFlops(Value result, const DimExpr &contracted) {
  return elements(result) * contracted * DimExpr(2);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

DimExpr LinearOp::getFlops() {
  return productFlops(getResult(), getShape(getInput()).back());
}
DimExpr LinearDwOp::getFlops() {
  return elements(getInput()) * getShape(getGrad()).back() * DimExpr(2);
}
DimExpr MatmulOp::getFlops() {
  Shape lhs = getShape(getLhs());
  return productFlops(getResult(), lhs[lhs.size() - (getTransA() ? 2 : 1)]);
}

/// Of a convolution and both its gradients: each element on the output's side
/// meets each weight of its channel.
static DimExpr convFlops(Value output, Value weight) {
  Shape w = getShape(weight);
  return elements(output) * getNumElements(ArrayRef(w).drop_front()) *
         DimExpr(2);
}
DimExpr ConvOp::getFlops() { return convFlops(getResult(), getWeight()); }
DimExpr ConvDxOp::getFlops() { return convFlops(getGrad(), getWeight()); }
DimExpr ConvDwOp::getFlops() { return convFlops(getGrad(), getResult()); }

static DimExpr windowSize(ArrayRef<int64_t> kernel) {
  int64_t n = 1;
  for (int64_t k : kernel)
    n *= k;
  return n;
}
DimExpr PoolOp::getFlops() {
  return elements(getResult()) * windowSize(getKernel());
}
DimExpr PoolDxOp::getFlops() {
  return elements(getGrad()) * windowSize(getKernel());
}

/// Products of attention: `n` of [t, s] by d, a head; a causal mask leaves half
/// of them when rows and columns are equally many.
static DimExpr attentionFlops(Value query, Value key, Value value, bool causal,
                              int64_t withKey, int64_t withValue) {
  Shape q = getShape(query);
  DimExpr scores = q[0] * q[1] * q[2] * getShape(key)[1];
  DimExpr full = scores * (q[3] * DimExpr(2 * withKey) +
                           getShape(value)[3] * DimExpr(2 * withValue));
  if (causal && q[1] == getShape(key)[1])
    if (auto half = full.exactDiv(2))
      return *half;
  return full;
}
DimExpr AttentionOp::getFlops() {
  return attentionFlops(getQuery(), getKey(), getValue(), getCausal(), 1, 1);
}
DimExpr AttentionGradOp::getFlops() {
  // Scores again, dq, dk; dP, dv.
  return attentionFlops(getQuery(), getKey(), getValue(), getCausal(), 3, 2);
}
DimExpr RotaryOp::getFlops() { return elements(getInput()) * DimExpr(3); }

//===----------------------------------------------------------------------===//
// Operators with a number of operations an element
//===----------------------------------------------------------------------===//

#define PER_ELEMENT(Op, operand, operations)                                   \
  DimExpr Op::getFlops() { return elements(operand()) * DimExpr(operations); }

PER_ELEMENT(LayerNormOp, getInput, 7)
PER_ELEMENT(LayerNormDxOp, getInput, 14)
PER_ELEMENT(LayerNormDscaleOp, getInput, 8)
PER_ELEMENT(RmsNormOp, getInput, 4)
PER_ELEMENT(RmsNormDxOp, getInput, 9)
PER_ELEMENT(RmsNormDscaleOp, getInput, 5)
PER_ELEMENT(GroupNormOp, getInput, 7)
PER_ELEMENT(GroupNormDxOp, getInput, 14)
PER_ELEMENT(GroupNormDscaleOp, getInput, 8)
PER_ELEMENT(SoftmaxOp, getInput, 5)
PER_ELEMENT(LogSoftmaxOp, getInput, 4)
PER_ELEMENT(SoftmaxGradOp, getGrad, 4)
PER_ELEMENT(LogSoftmaxGradOp, getGrad, 4)
PER_ELEMENT(ReduceOp, getInput, 1)
PER_ELEMENT(CumsumOp, getInput, 1)
PER_ELEMENT(CrossEntropyOp, getLogits, 4)
PER_ELEMENT(CrossEntropyGradOp, getLogits, 6)

// Movement computes nothing, except where several elements meet.
PER_ELEMENT(ReshapeOp, getInput, 0)
PER_ELEMENT(BroadcastOp, getInput, 0)
PER_ELEMENT(TransposeOp, getInput, 0)
PER_ELEMENT(SliceOp, getInput, 0)
PER_ELEMENT(PadOp, getInput, 0)
PER_ELEMENT(ConcatOp, getResult, 0)
PER_ELEMENT(GatherOp, getInput, 0)
PER_ELEMENT(GatherElementsOp, getInput, 0)
PER_ELEMENT(GatherNdOp, getInput, 0)
PER_ELEMENT(GatherGradOp, getGrad, 1)
PER_ELEMENT(GatherElementsGradOp, getGrad, 1)
#undef PER_ELEMENT

/// Each element is compared with those that are taken.
DimExpr TopKOp::getFlops() {
  return elements(getInput()) * getShape(getValues())[getAxis()];
}

DimExpr ScatterNdOp::getFlops() {
  return getKind() == ScatterKind::set ? DimExpr(0) : elements(getUpdates());
}
