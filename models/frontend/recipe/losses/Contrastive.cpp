//===- Contrastive.cpp - Losses of pairs, CLIP and SigLIP -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/losses/LossBuilder.h"
#include "models/frontend/recipe/losses/LossRule.h"

using namespace mlir;

namespace dt::models {

namespace {

/// Logits [batch, batch]; false with an error of other shapes. The mean is over
/// rows.
bool checkPairs(LossBuilder &l, Value logits) {
  nn::Shape shape = nn::getShape(logits);
  if (shape.size() != 2 || shape[0] != shape[1]) {
    emitError(l.loc) << "a contrastive loss needs logits [batch, batch], not "
                     << logits.getType();
    return false;
  }
  l.countElements(nn::makeTensorType({shape[0]}, l.b.getF32Type()));
  return true;
}

/// -log sigmoid(z x) = softplus(-z x) with z = 1 on the diagonal, else -1.
Value sigmoidContrastive(LossBuilder &l, Value logits) {
  if (!checkPairs(l, logits))
    return {};
  Value turned = l.make<nn::MulOp>(logits, l.diagonal(logits.getType(), -1, 1));
  return l.sum(l.make<nn::SoftplusOp>(turned));
}

/// Cross-entropy of rows and of columns with the own pair as label; no label
/// can be the ignored one.
Value clipContrastive(LossBuilder &l, Value logits) {
  if (!checkPairs(l, logits))
    return {};
  Value labels = l.rowNumbers(nn::getShape(logits)[0]);
  Value columns = l.make<nn::TransposeOp>(logits, ArrayRef<int64_t>{1, 0});
  Value byRow = l.make<nn::CrossEntropyOp>(logits, labels, Value(), -100);
  Value byColumn = l.make<nn::CrossEntropyOp>(columns, labels, Value(), -100);
  Value both = l.make<nn::AddOp>(l.sum(byRow), l.sum(byColumn));
  return l.make<nn::MulOp>(both, l.splat(both.getType(), 0.5));
}

} // namespace

void addContrastive(LossRules &rules) {
  rules.push_back({"clip_contrastive", "logits", "", clipContrastive});
  rules.push_back({"sigmoid_contrastive", "logits", "", sigmoidContrastive});
}

} // namespace dt::models
