//===- MoveCasts.cpp - Casts move through movement --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/precision/Passes.h"

#include "dialects/nn/NNInference.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dt::precision {
#define GEN_PASS_DEF_MOVECASTS
#include "passes/precision/Passes.h.inc"

namespace {

bool isFloat(Value v) { return isa<FloatType>(nn::elementOf(v)); }

bool movesElements(Operation *op) {
  return op->hasTrait<nn::MovesElements>() && op->getNumResults() == 1;
}

/// A pad's own number is rounded with the rest; 0 and infinities stay.
bool keepsItsNumber(Operation *op) {
  auto pad = dyn_cast<nn::PadOp>(op);
  return !pad || pad.getValue().isZero() || pad.getValue().isInfinity();
}

/// The op on operands of another float type.
Value moved(PatternRewriter &b, Operation *op, Type element,
            llvm::function_ref<Value(Value)> operand) {
  SmallVector<Value> operands(op->getOperands());
  for (Value &v : operands)
    if (isFloat(v))
      v = operand(v);
  Operation *copy = b.clone(*op);
  copy->setOperands(operands);
  Value result = copy->getResult(0);
  result.setType(nn::withElementType(result.getType(), element));
  return result;
}

/// movement(cast x) -> cast movement(x), where all floats come widened.
struct SinkWidening : RewritePattern {
  explicit SinkWidening(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &b) const override {
    if (!movesElements(op) || !keepsItsNumber(op))
      return failure();
    Type element;
    for (Value v : op->getOperands()) {
      if (!isFloat(v))
        continue;
      Value narrow = nn::widened(v);
      if (!narrow || (element && element != nn::elementOf(narrow)))
        return failure();
      element = nn::elementOf(narrow);
    }
    if (!element)
      return failure();
    Value result = moved(b, op, element, nn::widened);
    b.replaceOpWithNewOp<nn::CastOp>(op, op->getResult(0).getType(), result);
    return success();
  }
};

bool isViewLike(Operation *op) {
  nn::Work::Kind kind = cast<nn::CostOpInterface>(op).getWork().kind;
  return kind == nn::Work::None || kind == nn::Work::View ||
         isa<nn::ConcatOp>(op);
}

/// cast movement(x) to narrow -> movement(cast x), where the cast is the only
/// use and the operands have no more elements than the result.
LogicalResult raiseNarrowing(nn::CastOp cast, PatternRewriter &b) {
  Operation *op = cast.getInput().getDefiningOp();
  if (!op || !nn::isNarrow(cast.getType()) || !movesElements(op) ||
      !nn::elementOf(cast.getInput()).isF32() || !op->hasOneUse() ||
      !keepsItsNumber(op) || !isViewLike(op))
    return failure();
  Type element = nn::elementOf(cast);
  b.setInsertionPoint(op);
  Value result = moved(b, op, element, [&](Value v) {
    return nn::CastOp::create(b, v.getLoc(),
                              nn::withElementType(v.getType(), element), v)
        .getResult();
  });
  b.replaceOp(cast, result);
  return success();
}

struct MoveCasts : impl::MoveCastsBase<MoveCasts> {
  using MoveCastsBase::MoveCastsBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<SinkWidening>(&getContext());
    patterns.add(raiseNarrowing);
    nn::CastOp::getCanonicalizationPatterns(patterns, &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace dt::precision
