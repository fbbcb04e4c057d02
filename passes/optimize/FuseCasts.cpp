//===- FuseCasts.cpp - Casts into operators that sum in full ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNInference.h"
#include "passes/optimize/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dt::optimize {
#define GEN_PASS_DEF_FUSECASTS
#include "passes/optimize/Passes.h.inc"

namespace {

bool isBetweenFloats(nn::CastOp cast) {
  auto is = [](Value v) { return nn::isNarrow(v) || nn::elementOf(v).isF32(); };
  return is(cast.getInput()) && is(cast);
}

/// The rule of an operator that may read and store either type.
std::optional<nn::PrecisionRule> ruleOf(Operation *op) {
  auto precise = dyn_cast<nn::PrecisionOpInterface>(op);
  if (!precise || isa<nn::ScalarOpInterface>(op) || op->getNumResults() != 1)
    return std::nullopt;
  nn::PrecisionRule rule = precise.getPrecisionRule();
  return rule.sumsInFull ? std::optional(rule) : std::nullopt;
}

/// Its operands are of one type, as libraries want them.
bool isComputeHeavy(Operation *op) {
  return cast<nn::CostOpInterface>(op).getWork().isComputeHeavy();
}

bool mayRead(OpOperand &use) {
  Operation *op = use.getOwner();
  auto rule = ruleOf(op);
  return rule && !isComputeHeavy(op) && rule->operands[use.getOperandNumber()];
}

void read(OpOperand &use, Value v) {
  Operation *op = use.getOwner();
  Type element = nn::elementOf(op->getResult(0));
  use.set(v);
  if (isa<FloatType>(element))
    nn::setStored(op, element);
}

/// What reads the cast reads its input. A narrowing cast must go altogether:
/// else its input would be read beside its result.
void joinReaders(nn::CastOp cast) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : cast->getUses())
    if (mayRead(use))
      uses.push_back(&use);
  bool narrows = nn::isNarrow(cast.getType());
  if (narrows && size_t(llvm::range_size(cast->getUses())) != uses.size())
    return;
  for (OpOperand *use : uses)
    read(*use, cast.getInput());
}

/// What makes the cast's input stores the cast's type. Of compute-heavy
/// operators only those whose rule wants the result in full, gradients of
/// weights, store float32 of bf16 operands, and none does the other way round;
/// elementwise ops read what is stored narrow as cheaply.
void joinProducer(nn::CastOp cast) {
  Operation *op = cast.getInput().getDefiningOp();
  auto rule = op ? ruleOf(op) : std::nullopt;
  if (!rule || !op->hasOneUse())
    return;
  bool narrows = nn::isNarrow(cast.getType());
  if (isComputeHeavy(op) ? narrows || rule->results[0]
      : narrows          ? !rule->results[0]
                         : llvm::any_of(cast->getUsers(), [](Operation *user) {
                    return isa<nn::ScalarOpInterface>(user);
                           }))
    return;
  nn::setStored(op, nn::elementOf(cast));
  cast.replaceAllUsesWith(cast.getInput());
  cast.erase();
}

struct FuseCasts : impl::FuseCastsBase<FuseCasts> {
  void runOnOperation() override {
    SmallVector<nn::CastOp> casts;
    getOperation().walk([&](nn::CastOp cast) {
      if (isBetweenFloats(cast))
        casts.push_back(cast);
    });
    for (nn::CastOp cast : casts)
      joinReaders(cast);
    for (nn::CastOp cast : casts) {
      if (cast->use_empty())
        cast.erase();
      else
        joinProducer(cast);
    }
  }
};

} // namespace
} // namespace dt::optimize
