//===- NNPrecision.cpp - Where 16-bit floats suffice ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Products, norms and reductions take narrow operands and sum in 32 bits.
// Gradients of parameters, statistics and losses are not narrowed: they are
// summed further.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNOps.h"

using namespace mlir;
using namespace dt::nn;

/// Narrow operands and results, sums in full.
#define SUMS(Op)                                                               \
  PrecisionRule Op::getPrecisionRule() {                                       \
    return PrecisionRule::anyNarrow(*this, /*sumsInFull=*/true);               \
  }
SUMS(LinearOp)
SUMS(MatmulOp)
SUMS(ConvOp)
SUMS(ConvDxOp)
SUMS(PoolOp)
SUMS(PoolDxOp)
SUMS(AttentionGradOp)
SUMS(SoftmaxOp)
SUMS(LogSoftmaxOp)
SUMS(SoftmaxGradOp)
SUMS(LogSoftmaxGradOp)
SUMS(CrossEntropyGradOp)
SUMS(GatherElementsGradOp)
#undef SUMS

/// Narrow operands; what is summed up stays full.
#define SUMS_UP(Op)                                                            \
  PrecisionRule Op::getPrecisionRule() {                                       \
    PrecisionRule rule = PrecisionRule::anyNarrow(*this, true);                \
    rule.results.assign(rule.results.size(), false);                           \
    return rule;                                                               \
  }
SUMS_UP(LinearDwOp)
SUMS_UP(ConvDwOp)
SUMS_UP(LayerNormDscaleOp)
SUMS_UP(RmsNormDscaleOp)
SUMS_UP(GroupNormDscaleOp)
SUMS_UP(ReduceOp)
SUMS_UP(CumsumOp)
SUMS_UP(CrossEntropyOp)
SUMS_UP(GatherGradOp)
#undef SUMS_UP

/// Norms: their parameters are few and stay full.
#define NORM(Op)                                                               \
  PrecisionRule Op::getPrecisionRule() {                                       \
    PrecisionRule rule = PrecisionRule::anyNarrow(*this, true);                \
    size_t rank = getShape(getInput()).size();                                 \
    for (auto [i, v] : llvm::enumerate((*this)->getOperands()))                \
      if (getShape(v).size() < rank)                                           \
        rule.operands[i] = false;                                              \
    return rule;                                                               \
  }
NORM(LayerNormOp)
NORM(LayerNormDxOp)
NORM(RmsNormOp)
NORM(RmsNormDxOp)
NORM(GroupNormOp)
NORM(GroupNormDxOp)
#undef NORM

PrecisionRule AttentionOp::getPrecisionRule() {
  PrecisionRule rule = PrecisionRule::anyNarrow(*this, true);
  rule.results[1] = false; // the gradient exponentiates it
  return rule;
}

PrecisionRule RotaryOp::getPrecisionRule() {
  PrecisionRule rule = PrecisionRule::anyNarrow(*this);
  rule.operands[1] = rule.operands[2] = false;
  return rule;
}

/// Movement keeps bits as they are.
#define MOVES(Op)                                                              \
  PrecisionRule Op::getPrecisionRule() {                                       \
    return PrecisionRule::anyNarrow(*this);                                    \
  }
MOVES(ReshapeOp)
MOVES(BroadcastOp)
MOVES(TransposeOp)
MOVES(SliceOp)
MOVES(PadOp)
MOVES(ConcatOp)
MOVES(GatherOp)
MOVES(GatherElementsOp)
MOVES(GatherNdOp)
MOVES(TopKOp)
#undef MOVES

PrecisionRule ScatterNdOp::getPrecisionRule() {
  ScatterKind kind = getKind();
  PrecisionRule rule =
      PrecisionRule::anyNarrow(*this, kind != ScatterKind::set);
  // The gradient asks which elements are the result: none may be rounded.
  if (kind == ScatterKind::max || kind == ScatterKind::min) {
    rule.operands.assign(rule.operands.size(), false);
    rule.results.assign(rule.results.size(), false);
  }
  return rule;
}
